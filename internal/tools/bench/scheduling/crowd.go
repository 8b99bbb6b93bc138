package scheduling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// CrowdOptions choose how crowded a namespace is.
type CrowdOptions struct {
	// Binary is the flagship binary to start; normally the running one.
	Binary string
	// Objects is how many there are under one policy.
	Objects int
	// Timeout bounds each step.
	Timeout time.Duration
	// Out receives the result, Log the progress.
	Out, Log io.Writer
}

// lonely is the namespace with one object.
const lonely = "bench-lonely"

// crowdClusters is how many clusters the crowd is placed in.
const crowdClusters = 3

// RunCrowd measures what a policy that selects thousands of objects does to others, and what one change among them costs.
func RunCrowd(ctx context.Context, o CrowdOptions) (err error) {
	fmt.Fprintf(o.Log, "Starting a hub\n")
	f, err := fleet.Start(ctx, o.Binary, 0, o.Log, patient)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	c := &crowd{stand: stand{&bench.Stand{Fleet: f}}, options: o, placed: map[types.NamespacedName]uint64{}}
	if c.Top, err = fleet.Connect(ctx, f.Hub, false); err != nil {
		return err
	}
	defer c.Top.Close()
	defer c.keepBreathing(ctx, crowdClusters)()
	for _, step := range []func(context.Context) error{c.gather, c.place, c.changeOne} {
		timed, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not done within %s", o.Timeout))
		err := step(timed)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// crowd is a hub with a crowded and a lonely namespace.
type crowd struct {
	stand
	options CrowdOptions

	mu sync.Mutex
	// placed is when each binding was first scheduled, as a version of the storage.
	placed map[types.NamespacedName]uint64
}

// gather makes all there is but the policies.
func (c *crowd) gather(ctx context.Context) error {
	if err := c.makeClusters(ctx, ScheduleOptions{Clusters: crowdClusters}); err != nil {
		return err
	}
	for _, name := range []string{fleet.Namespace, lonely} {
		labels := map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if _, err := c.Top.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating namespace %s: %w", name, err)
		}
	}
	fmt.Fprintf(c.options.Log, "Making %d ConfigMaps\n", c.options.Objects)
	alone := fleet.ConfigMap("alone")
	alone.Namespace = lonely
	if _, err := c.Top.Kube.CoreV1().ConfigMaps(lonely).Create(ctx, alone, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a configmap: %w", err)
	}
	err := bench.Parallel(ctx, 10, c.options.Objects, func(ctx context.Context, i int) error {
		_, err := c.Top.Kube.CoreV1().ConfigMaps(fleet.Namespace).Create(ctx, fleet.ConfigMap(fleet.ConfigMapName(i)), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating configmaps: %w", err)
	}
	return nil
}

// place creates the policy of the crowd and then that of the one, and counts who came first.
func (c *crowd) place(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	done, err := c.watch(ctx, &watching)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.options.Log, "Placing them\n")
	counted, err := fleet.CountWrites(ctx, c.Top.Kube)
	if err != nil {
		return err
	}
	started := time.Now()
	var came uint64
	for _, in := range []string{fleet.Namespace, lonely} {
		policy := fleet.Duplicated("configmaps", fleet.SelectConfigMaps())
		policy.SetNamespace(in)
		made, err := c.Top.Dynamic.Resource(fleet.Policies).Namespace(in).Create(ctx, policy, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating the policy of %s: %w", in, err)
		}
		if came, err = strconv.ParseUint(made.GetResourceVersion(), 10, 64); err != nil {
			return fmt.Errorf("reading the version of a policy: %w", err)
		}
	}
	if err := done.wait(ctx, "objects to be placed"); err != nil {
		return err
	}
	took := time.Since(started)
	now, err := fleet.CountWrites(ctx, c.Top.Kube)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last, before := c.placed[types.NamespacedName{Namespace: lonely, Name: "alone-configmap"}], 0
	for key, when := range c.placed {
		if key.Namespace == fleet.Namespace && came < when && when < last {
			before++
		}
	}
	fmt.Fprintf(c.options.Out, "%d objects under one policy: all placed after %.1f s, %.2f writes each\n",
		c.options.Objects, took.Seconds(), now.Since(counted).Total()/float64(c.options.Objects))
	fmt.Fprintf(c.options.Out, "an object of another namespace, selected a moment later: placed after %d of them\n", before)
	return nil
}

// watch notes when each binding is scheduled first, until the context ends.
func (c *crowd) watch(ctx context.Context, running *sync.WaitGroup) (*tally, error) {
	client, err := workClient(c.Hub)
	if err != nil {
		return nil, err
	}
	done := newTally(c.options.Objects+1, func(obj any) bool {
		b, ok := obj.(*workv1alpha2.ResourceBinding)
		if !ok || !meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.Scheduled) {
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		key := types.NamespacedName{Namespace: b.Namespace, Name: b.Name}
		if version, err := strconv.ParseUint(b.ResourceVersion, 10, 64); err == nil && c.placed[key] == 0 {
			c.placed[key] = version
		}
		return true
	})
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, bindings.Resource, metav1.NamespaceAll, fields.Everything()),
		ObjectType:    &workv1alpha2.ResourceBinding{}, Handler: done,
	})
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching bindings: %w", context.Cause(ctx))
	}
	return done, nil
}

// changeOne changes one object, waits a while, and returns what was written.
func (c *crowd) changeOne(ctx context.Context) error {
	rest := func() error {
		select {
		case <-time.After(bench.Calm):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	// What is said of members that do not answer comes late.
	if err := errors.Join(rest(), rest()); err != nil {
		return err
	}
	counted, err := fleet.CountWrites(ctx, c.Top.Kube)
	if err != nil {
		return err
	}
	patch := []byte(`{"data":{"key":"another"}}`)
	if _, err := c.Top.Kube.CoreV1().ConfigMaps(fleet.Namespace).Patch(ctx, fleet.ConfigMapName(7), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("changing a configmap: %w", err)
	}
	if err := rest(); err != nil {
		return err
	}
	now, err := fleet.CountWrites(ctx, c.Top.Kube)
	if err != nil {
		return err
	}
	made := now.Since(counted)
	fmt.Fprintf(c.options.Out, "one of them changed: %.0f writes\n", made.Total())
	for _, kind := range made.Rows() {
		fmt.Fprintf(c.options.Out, "  %7.0f  %s\n", made[kind], kind)
	}
	return nil
}
