package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

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

// RunSchedule measures scheduling end to end: clusters that only their Cluster objects tell of, and bindings without
// templates, from the first binding's creation until the API server has the result of the last.
func RunSchedule(ctx context.Context, o ScheduleOptions) (err error) {
	fmt.Fprintf(o.Log, "Starting a hub\n")
	f, err := startFleet(ctx, o.Binary, 0, o.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	s := &stand{fleet: f}
	if s.top, err = newShore(ctx, f.hub, false); err != nil {
		return err
	}
	if err := createNamespace(ctx, s.top, map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}); err != nil {
		return err
	}
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
	profiled := s.profile(ctx, o.ProfileDir, 0)
	return errors.Join(within(s.scheduleBindings), profiled())
}

// makeClusters returns when the hub has taken note of every cluster.
func (s *stand) makeClusters(ctx context.Context, o ScheduleOptions) error {
	spaces := newTally(o.Clusters, func(obj any) bool {
		m, ok := obj.(metav1.Object)
		return ok && strings.HasPrefix(m.GetName(), workv1alpha1.ExecutionNamespace(""))
	})
	factory := informers.NewSharedInformerFactory(s.top.kube, 0)
	if _, err := factory.Core().V1().Namespaces().Informer().AddEventHandler(spaces); err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	factory.Start(ctx.Done())
	err := parallel(ctx, 10, o.Clusters, func(ctx context.Context, i int) error {
		cluster := paperCluster(i)
		resource := s.top.dynamic.Resource(clusters)
		object, err := untyped(cluster, clusterv1alpha1.SchemeGroupVersion.WithKind(clusterv1alpha1.KindCluster))
		if err != nil {
			return err
		}
		made, err := resource.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating cluster %s: %w", cluster.Name, err)
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
	return spaces.wait(ctx, "execution namespaces")
}

func (s *stand) scheduleBindings(ctx context.Context, o ScheduleOptions) error {
	done := newTally(o.Bindings, isScheduled)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(s.top.dynamic, 0)
	if _, err := factory.ForResource(bindings).Informer().AddEventHandler(done); err != nil {
		return fmt.Errorf("watching bindings: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	before, err := s.usage()
	if err != nil {
		return err
	}
	counted, err := countWrites(ctx, s.top.kube)
	if err != nil {
		return err
	}
	started := time.Now()
	err = parallel(ctx, 20, o.Bindings, func(ctx context.Context, i int) error {
		object, err := untyped(paperBinding(i), workv1alpha2.SchemeGroupVersion.WithKind(workv1alpha2.KindResourceBinding))
		if err != nil {
			return err
		}
		_, err = s.top.dynamic.Resource(bindings).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating bindings: %w", err)
	}
	created := time.Since(started)
	if err := done.wait(ctx, "bindings to be scheduled"); err != nil {
		return err
	}
	took := time.Since(started)
	after, err := s.usage()
	if err != nil {
		return err
	}
	now, err := countWrites(ctx, s.top.kube)
	if err != nil {
		return err
	}
	n := float64(o.Bindings)
	fmt.Fprintf(o.Out, "%d bindings on %d clusters: all created after %.1f s, all scheduled after %.1f s: %.0f bindings/s\n",
		o.Bindings, o.Clusters, created.Seconds(), took.Seconds(), n/took.Seconds())
	made := now.since(counted)
	fmt.Fprintf(o.Out, "hub: %.1f ms of CPU and %.2f writes per binding, peak RSS %d MB\n",
		(after.cpu-before.cpu).Seconds()*1000/n, made.total()/n, after.peakRSS/1e6)
	for _, kind := range made.rows() {
		fmt.Fprintf(o.Out, "  %7.2f  %s\n", made[kind]/n, kind)
	}
	return nil
}

func isScheduled(obj any) bool {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return false
	}
	var b workv1alpha2.ResourceBinding
	if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &b) != nil {
		return false
	}
	return meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.Scheduled) && len(b.Spec.Clusters) > 0
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
	c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{{
		GroupVersion: thing.GroupVersion().String(), Resources: []clusterv1alpha1.APIResource{{Name: "things", Kind: thing.Kind}},
	}}
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
		Namespace: namespace, Name: name, Labels: map[string]string{workv1alpha2.BindingManagedByLabel: "bench"},
	}}
	b.Spec.Resource = workv1alpha2.ObjectReference{
		APIVersion: thing.GroupVersion().String(), Kind: thing.Kind, Namespace: namespace, Name: name, UID: types.UID(name),
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
