package scheduling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// ScheduleOptions choose how much to schedule.
type ScheduleOptions struct {
	// Binary is the flagship binary to start; normally the running one.
	Binary string
	// Clusters and Bindings say how many of each there are.
	Clusters, Bindings int
	// Timeout bounds each of the two steps: making the fleet, scheduling.
	Timeout time.Duration
	// ProfileDir, if set, receives a CPU profile of the hub's first ten seconds of scheduling and a heap profile after it.
	ProfileDir string
	// Out receives the result, Log the progress.
	Out, Log io.Writer
}

var (
	clusters = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
	bindings = workv1alpha2.SchemeGroupVersion.WithResource("resourcebindings")
	// thing is a kind that the hub does not serve: the bindings have no templates, so that scheduling is all that happens.
	thing = schema.GroupVersionKind{Group: "bench.flagship.io", Version: "v1", Kind: "Thing"}
)

// stand is a control plane with clusters that exist on paper only.
type stand struct{ *bench.Stand }

// RunSchedule measures scheduling end to end: clusters that only their Cluster objects tell of, and bindings without
// templates, from the first binding's creation until the API server has the result of the last.
func RunSchedule(ctx context.Context, o ScheduleOptions) (err error) {
	fmt.Fprintf(o.Log, "Starting a hub\n")
	f, err := fleet.Start(ctx, o.Binary, 0, o.Log, patient)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	s := &stand{&bench.Stand{Fleet: f}}
	asItself(f.Hub)
	if s.Top, err = fleet.Connect(ctx, f.Hub, false); err != nil {
		return err
	}
	defer s.Top.Close()
	if err := fleet.CreateNamespace(ctx, s.Top, map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}); err != nil {
		return err
	}
	defer s.keepBreathing(ctx, o.Clusters)()
	fmt.Fprintf(o.Log, "Making %d clusters\n", o.Clusters)
	within := func(step func(context.Context, ScheduleOptions) error) error {
		timed, cancel := context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("not done within %s", o.Timeout))
		defer cancel()
		return step(timed, o)
	}
	if err := within(s.makeClusters); err != nil {
		return err
	}
	fmt.Fprintf(o.Log, "Scheduling %d bindings\n", o.Bindings)
	profiled := s.Top.Profile(ctx, o.ProfileDir, 0, 0)
	if err := errors.Join(within(s.scheduleBindings), profiled()); err != nil {
		return err
	}
	return s.printMemory(ctx, o)
}

// asItself makes requests as the control plane, which creates bindings itself: those of others are checked against their templates.
func asItself(hub *rest.Config) {
	hub.Impersonate = rest.ImpersonationConfig{UserName: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
}

// makeClusters returns when the hub has taken note of every cluster.
func (s *stand) makeClusters(ctx context.Context, o ScheduleOptions) error {
	spaces := newTally(o.Clusters, func(obj any) bool {
		m, ok := obj.(metav1.Object)
		return ok && strings.HasPrefix(m.GetName(), workv1alpha1.ExecutionNamespace(""))
	})
	factory := informers.NewSharedInformerFactory(s.Top.Kube, 0)
	if _, err := factory.Core().V1().Namespaces().Informer().AddEventHandler(spaces); err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	err := bench.Parallel(ctx, 10, o.Clusters, func(ctx context.Context, i int) error {
		cluster := paperCluster(i)
		resource := s.Top.Dynamic.Resource(clusters)
		object, err := untyped(cluster, clusterv1alpha1.SchemeGroupVersion.WithKind(clusterv1alpha1.KindCluster))
		if err != nil {
			return err
		}
		made, err := resource.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating cluster %s: %w", cluster.Name, err)
		}
		if err := s.breathe(ctx, cluster.Name); err != nil {
			return err
		}
		made.Object["status"] = object.Object["status"]
		made.SetResourceVersion("")
		if _, err := resource.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the status of cluster %s: %w", cluster.Name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := spaces.wait(ctx, "execution namespaces"); err != nil {
		return err
	}
	return s.rest(ctx)
}

// rest returns when the hub has written nothing for three seconds: what follows from a new cluster is not what is measured.
func (s *stand) rest(ctx context.Context) error {
	look := time.NewTicker(3 * time.Second)
	defer look.Stop()
	for before := -1.0; ; {
		written, err := fleet.CountWrites(ctx, s.Top.Kube)
		if err != nil {
			return err
		}
		if written.Total() == before {
			return nil
		}
		before = written.Total()
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until the hub has nothing more to write: %w", context.Cause(ctx))
		}
	}
}

const (
	// silence is how long the agents on paper may give no sign of life: the leases of a thousand agents are a load of their
	// own, and not what is measured.
	silence = 10 * time.Minute
	patient = "--set=cluster-monitor-grace-period=10m"
	// breath is how often they renew their leases.
	breath = silence / 3
)

// keepBreathing renews the leases of all clusters until stop is called.
func (s *stand) keepBreathing(ctx context.Context, clusters int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		pause := time.NewTicker(breath)
		defer pause.Stop()
		for {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
			err := bench.Parallel(ctx, 2, clusters, func(ctx context.Context, i int) error { return s.breathe(ctx, paperCluster(i).Name) })
			if err != nil {
				return
			}
		}
	})
	return func() {
		cancel()
		renewing.Wait()
	}
}

// breathe renews the lease of a cluster, as its agent would.
func (s *stand) breathe(ctx context.Context, cluster string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: cluster}, Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NowMicro())}}
	patch, err := json.Marshal(map[string]any{"spec": lease.Spec})
	if err != nil {
		return fmt.Errorf("encoding a lease: %w", err)
	}
	leases := s.Top.Kube.CoordinationV1().Leases(clusterv1alpha1.ClusterNamespace)
	_, err = leases.Patch(ctx, cluster, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renewing the lease of cluster %s: %w", cluster, err)
	}
	return nil
}

func (s *stand) scheduleBindings(ctx context.Context, o ScheduleOptions) error {
	work, err := workClient(s.Hub)
	if err != nil {
		return err
	}
	done := newTally(o.Bindings, isScheduled)
	_, watch := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(work, bindings.Resource, fleet.Namespace, fields.Everything()),
		ObjectType:    &workv1alpha2.ResourceBinding{}, Handler: done,
	})
	watching, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { watch.RunWithContext(watching) })
	if !cache.WaitForCacheSync(ctx.Done(), watch.HasSynced) {
		return fmt.Errorf("watching bindings: %w", context.Cause(ctx))
	}
	before, err := s.Usage()
	if err != nil {
		return err
	}
	counted, err := fleet.CountWrites(ctx, s.Top.Kube)
	if err != nil {
		return err
	}
	own, started := ownCPU(), time.Now()
	err = bench.Parallel(ctx, 20, o.Bindings, func(ctx context.Context, i int) error {
		return work.Post().Namespace(fleet.Namespace).Resource(bindings.Resource).Body(paperBinding(i)).Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("creating bindings: %w", err)
	}
	created := time.Since(started)
	if err := done.wait(ctx, "bindings to be scheduled"); err != nil {
		return err
	}
	took := time.Since(started)
	own = ownCPU() - own
	after, err := s.Usage()
	if err != nil {
		return err
	}
	now, err := fleet.CountWrites(ctx, s.Top.Kube)
	if err != nil {
		return err
	}
	n := float64(o.Bindings)
	fmt.Fprintf(o.Out, "%d bindings on %d clusters: all created after %.1f s, all scheduled after %.1f s: %.0f bindings/s\n",
		o.Bindings, o.Clusters, created.Seconds(), took.Seconds(), n/took.Seconds())
	made := now.Since(counted)
	fmt.Fprintf(o.Out, "hub: %.1f ms of CPU and %.2f writes per binding, peak RSS %d MB; this client: %.1f ms of CPU per binding\n",
		(after.Cpu-before.Cpu).Seconds()*1000/n, made.Total()/n, after.PeakRSS/1e6, own.Seconds()*1000/n)
	for _, kind := range made.Rows() {
		fmt.Fprintf(o.Out, "  %7.2f  %s\n", made[kind]/n, kind)
	}
	return nil
}

// settled is when all that follows from scheduling is written, and what it took is given back.
const settled = 3 * bench.Calm

// printMemory prints what the hub keeps in memory of all this when it has been left alone for a while. Before, what is allocated
// while garbage is collected counts as live, and that is much.
func (s *stand) printMemory(ctx context.Context, o ScheduleOptions) error {
	select {
	case <-time.After(settled):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	kept, err := s.Heap(ctx)
	if err != nil {
		return err
	}
	used, err := s.Usage()
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "hub, %s later: %d MB live, %d MB resident, %d MB of them pages of its binary and its database\n",
		settled, kept.Live/1e6, used.Rss/1e6, (used.Rss-used.Own)/1e6)
	return nil
}

// ownCPU is what this process has used so far: it shares the machine with the hub.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// workClient speaks of bindings in their Go types: the client must not be what costs most.
func workClient(hub *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering bindings: %w", err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	cfg := rest.CopyConfig(hub)
	cfg.APIPath, cfg.GroupVersion = "/apis", &workv1alpha2.SchemeGroupVersion
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client for bindings: %w", err)
	}
	return c, nil
}

func isScheduled(obj any) bool {
	b, ok := obj.(*workv1alpha2.ResourceBinding)
	return ok && meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.Scheduled) && len(b.Spec.Clusters) > 0
}

// tally counts the objects that satisfy a condition, each once.
type tally struct {
	cache.ResourceEventHandlerFuncs
	mu   sync.Mutex
	left int
	seen map[types.UID]bool
	done chan struct{}
}

func newTally(wanted int, holds func(any) bool) *tally {
	t := &tally{left: wanted, seen: map[types.UID]bool{}, done: make(chan struct{})}
	note := func(obj any) {
		m, ok := obj.(metav1.Object)
		if !ok || !holds(obj) {
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.seen[m.GetUID()] {
			return
		}
		t.seen[m.GetUID()] = true
		if t.left--; t.left == 0 {
			close(t.done)
		}
	}
	t.AddFunc, t.UpdateFunc = note, func(_, obj any) { note(obj) }
	return t
}

func (t *tally) wait(ctx context.Context, what string) error {
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		return fmt.Errorf("waiting for %s, %d still to come: %w", what, t.left, context.Cause(ctx))
	}
}

// paperCluster is one of a fleet in ten regions and thirty zones, with a taint on every tenth.
func paperCluster(i int) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("paper-%05d", i), Labels: map[string]string{"env": "prod", "tier": fmt.Sprint(i % 3)},
	}}
	c.Spec.SyncMode = clusterv1alpha1.Pull
	c.Spec.Provider, c.Spec.Region = fmt.Sprintf("provider-%d", i%4), fmt.Sprintf("region-%d", i%10)
	c.Spec.Zones = []string{fmt.Sprintf("zone-%d", i%30)}
	if i%10 == 3 {
		c.Spec.Taints = []corev1.Taint{{Key: "maintenance", Value: "now", Effect: corev1.TaintEffectNoSchedule}}
	}
	for _, kind := range []string{clusterv1alpha1.ClusterConditionReady, clusterv1alpha1.ClusterConditionCompleteAPIEnablements} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "OnPaper", LastTransitionTime: metav1.NewTime(time.Now()),
		})
	}
	c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{
		{GroupVersion: thing.GroupVersion().String(), Resources: []clusterv1alpha1.APIResource{{Name: "things", Kind: thing.Kind}}},
		{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}},
	}
	c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{
		Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewQuantity(int64(20_000+i*7919%997), resource.DecimalSI),
			corev1.ResourceMemory: resource.MustParse("256Ti"), corev1.ResourcePods: resource.MustParse("100k"),
		},
	}
	return c
}

// paperBinding takes turns between the ways to divide and the ways to spread.
func paperBinding(i int) *workv1alpha2.ResourceBinding {
	name := fmt.Sprintf("thing-%05d", i)
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleet.Namespace, Name: name, Labels: map[string]string{workv1alpha2.BindingManagedByLabel: "bench"},
		Annotations: map[string]string{policyv1alpha1.SpreadStaticWeightsAnnotation: "true"},
	}}
	b.Spec.Resource = workv1alpha2.ObjectReference{
		APIVersion: thing.GroupVersion().String(), Kind: thing.Kind, Namespace: fleet.Namespace, Name: name, UID: types.UID(name),
	}
	b.Spec.Replicas = int32(20 + i%160)
	b.Spec.ReplicaRequirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(100*(1+i%8)), resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}
	divided := func(preference policyv1alpha1.ReplicaDivisionPreference, weights *policyv1alpha1.ClusterPreferences) *policyv1alpha1.ReplicaSchedulingStrategy {
		return &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: preference, WeightPreference: weights,
		}
	}
	modes := []*policyv1alpha1.ReplicaSchedulingStrategy{
		{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDuplicated},
		divided(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &policyv1alpha1.ClusterPreferences{
			StaticWeightList: []policyv1alpha1.StaticClusterWeight{{Weight: 2, TargetCluster: policyv1alpha1.ClusterAffinity{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "0"}}}}},
		}),
		divided(policyv1alpha1.ReplicaDivisionPreferenceWeighted, &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas}),
		divided(policyv1alpha1.ReplicaDivisionPreferenceAggregated, nil),
	}
	b.Spec.Placement = &policyv1alpha1.Placement{
		ReplicaScheduling: modes[i%len(modes)],
		SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByFieldCluster, MinGroups: 3, MaxGroups: 20}},
	}
	if i/len(modes)%2 == 1 {
		b.Spec.Placement.SpreadConstraints = append(b.Spec.Placement.SpreadConstraints,
			policyv1alpha1.SpreadConstraint{SpreadByField: policyv1alpha1.SpreadByFieldRegion, MinGroups: 2, MaxGroups: 3})
	}
	return b
}

func untyped(obj runtime.Object, kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("converting a %s: %w", kind.Kind, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind)
	return u, nil
}
