package evict

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
)

var key = types.NamespacedName{Namespace: "shop", Name: "web-deployment"}

// templates has one template; nil has none.
type templates struct{ spec map[string]any }

func (templates) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) { return nil, false }

func (s templates) Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error) {
	if s.spec == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "web")
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": s.spec}}, nil
}

// hub is a control plane with the binding of a Deployment in clusters a, b and c, of which a may fail.
type hub struct {
	t *testing.T
	*Reconciler
	config Config
	clock  *clocktesting.FakeClock
	events []string
}

func newHub(t *testing.T, template map[string]any, objects ...client.Object) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, clock: clocktesting.NewFakeClock(start)}
	h.Reconciler = &Reconciler{
		Deps: Deps{
			Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&workv1alpha2.ResourceBinding{}).Build(),
			Events: events.RecorderFunc(func(e events.Event) {
				if e.Object.Kind != workv1alpha2.KindResourceBinding {
					h.events = append(h.events, e.Reason+": "+e.Message)
				}
			}),
			Templates: templates{template}, Clock: h.clock, EvictionRate: eviction.NewRate(func() float64 { return 0 }, h.clock, nil),
		},
		metrics: newMetrics(nil),
	}
	h.config = Config{Timeout: 10 * time.Minute, Grace: 30 * time.Second, Rate: 100}
	h.Config = func() Config { return h.config }
	h.guard = newGuard(h.Config)
	return h
}

// reconcile lets the guard observe the clusters, then reconciles the binding, and returns it.
func (h *hub) reconcile() (*workv1alpha2.ResourceBinding, time.Duration) {
	h.t.Helper()
	var list clusterv1alpha1.ClusterList
	if err := h.Client.List(h.t.Context(), &list); err != nil {
		h.t.Fatal(err)
	}
	var fleet []seen
	for i := range list.Items {
		fleet = append(fleet, describe(&list.Items[i]))
	}
	if h.guard.checked.IsZero() {
		h.guard.checked = h.clock.Now()
	}
	h.guard.check(h.guard.checked, fleet)
	h.guard.check(h.guard.checked.Add(time.Second), fleet)
	result, err := h.Reconcile(h.t.Context(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{}
	if err := h.Client.Get(h.t.Context(), key, b); client.IgnoreNotFound(err) != nil {
		h.t.Fatal(err)
	}
	return b, result.RequeueAfter
}

func cluster(name string, edits ...func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.Conditions = []metav1.Condition{clusterv1alpha1.Ready()}
	c.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(-time.Hour))
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// lost has a cluster not ready for so long.
func lost(since time.Duration) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Status.Conditions = []metav1.Condition{clusterv1alpha1.NotReady("ClusterNotReachable", "")}
		c.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(-since))
	}
}

func tainted(since time.Duration) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = []corev1.Taint{{Key: "broken", Effect: corev1.TaintEffectNoExecute, TimeAdded: ptr.To(metav1.NewTime(start.Add(-since)))}}
	}
}

func fenced(c *clusterv1alpha1.Cluster) {
	c.Annotations = map[string]string{clusterv1alpha1.FencedAnnotation: start.UTC().Format(time.RFC3339)}
}

func bound(edits ...func(*workv1alpha2.ResourceBinding)) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Generation: 1, Labels: map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "id"},
	}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: key.Namespace, Name: "web", UID: "u"}
	b.Spec.Replicas, b.Spec.Placement = 4, &policyv1alpha1.Placement{}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a", Replicas: 2}, {Name: "b", Replicas: 2}}
	b.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{PurgeMode: policyv1alpha1.PurgeModeGracefully}}
	b.Status.SchedulerObservedGeneration = 1
	b.Status.Conditions = []metav1.Condition{workv1alpha2.ScheduledCondition(1, "")}
	for _, edit := range edits {
		edit(b)
	}
	return b
}

func tolerating(t ...corev1.Toleration) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement.ClusterTolerations = t }
}

// undecided is a binding whose last change the scheduler has not seen.
func undecided(b *workv1alpha2.ResourceBinding) { b.Generation++ }

func inClusters(names ...string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Placement.ClusterAffinity = &policyv1alpha1.ClusterAffinity{ClusterNames: names}
	}
}

func inTerms(terms ...[]string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		for _, names := range terms {
			b.Spec.Placement.ClusterAffinities = append(b.Spec.Placement.ClusterAffinities,
				policyv1alpha1.ClusterAffinityTerm{ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: names}})
		}
	}
}

func annotated(keysAndValues ...string) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		b.Annotations = map[string]string{}
		for pair := range slices.Chunk(keysAndValues, 2) {
			b.Annotations[pair[0]] = pair[1]
		}
	}
}

// left is a binding that has been leaving a for so long, and is in b now.
func left(since time.Duration, order eviction.Order, healthy bool) func(*workv1alpha2.ResourceBinding) {
	return func(b *workv1alpha2.ResourceBinding) {
		order.Cluster, order.Reason = "a", workv1alpha2.EvictionReasonTaintUntolerated
		if order.Producer == "" {
			order.Producer = workv1alpha2.EvictionProducerTaintManager
		}
		eviction.Append(&b.Spec, order, start.Add(-since))
		b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "b", Replicas: 4}}
		if healthy {
			b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "b", Health: workv1alpha2.ResourceHealthy}}
		}
	}
}

func noFailover(b *workv1alpha2.ResourceBinding) { b.Spec.Failover = nil }

func exclusive() func(*workv1alpha2.ResourceBinding) {
	return annotated(policyv1alpha1.HandoverAnnotation, policyv1alpha1.HandoverExclusive)
}

func stateful(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.Kind = "StatefulSet" }

func TestEvictions(t *testing.T) {
	toleration := func(key string, seconds int64) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}
	}
	forever := corev1.Toleration{Key: "broken", Operator: corev1.TolerationOpExists}
	gracefully, directly := policyv1alpha1.PurgeModeGracefully, policyv1alpha1.PurgeModeDirectly
	claims := map[string]any{"template": map[string]any{"spec": map[string]any{"volumes": []any{map[string]any{"persistentVolumeClaim": map[string]any{"claimName": "data"}}}}}}
	cases := map[string]struct {
		a        *clusterv1alpha1.Cluster
		b        *workv1alpha2.ResourceBinding
		template map[string]any
		flags    func(*Config)
		// want is the purge mode of the task for a; empty without one.
		want  policyv1alpha1.PurgeMode
		waits string
		again time.Duration
	}{
		"Ready":              {a: cluster("a"), b: bound()},
		"Tainted":            {a: cluster("a", tainted(0)), b: bound(), want: gracefully},
		"TaintedDirectly":    {a: cluster("a", tainted(0)), b: bound(func(b *workv1alpha2.ResourceBinding) { b.Spec.Failover.Cluster.PurgeMode = directly }), want: directly},
		"ToleratedForAWhile": {a: cluster("a", tainted(time.Minute)), b: bound(tolerating(toleration("broken", 90))), again: 30 * time.Second},
		"ToleratedLongEnough": {a: cluster("a", tainted(time.Minute)), b: bound(tolerating(toleration("broken", 90), toleration("broken", 60))),
			want: gracefully},
		"ToleratedForever":    {a: cluster("a", tainted(time.Hour)), b: bound(tolerating(forever))},
		"ToleratedWhenPlaced": {a: cluster("a", tainted(time.Hour)), b: bound(annotated(workv1alpha2.AppliedPlacementAnnotation, `{"clusterTolerations":[{"operator":"Exists"}]}`))},
		"PlacementUndecided": {a: cluster("a", tainted(time.Hour)), b: bound(undecided, annotated(workv1alpha2.AppliedPlacementAnnotation, `{}`),
			tolerating(toleration("broken", 7200)))},
		"PlacementFailed": {a: cluster("a", tainted(time.Hour)), b: bound(annotated(workv1alpha2.AppliedPlacementAnnotation, `{}`),
			tolerating(toleration("broken", 7200))), want: gracefully},
		"ReplicasUndecided": {a: cluster("a", tainted(0)), b: bound(undecided, annotated(workv1alpha2.AppliedPlacementAnnotation, `{}`)), want: gracefully},
		"OtherScheduler":    {a: cluster("a", tainted(0)), b: bound(undecided), want: gracefully},
		"Unselected":        {a: cluster("a", tainted(0)), b: bound(inClusters("b", "c"))},
		"KeptUnselected": {a: cluster("a", tainted(0)), b: bound(inClusters("b", "c"), annotated(policyv1alpha1.KeepUnselectedAnnotation, "true")),
			want: gracefully},
		"SelectedByName":      {a: cluster("a", tainted(0)), b: bound(inClusters("a", "b")), want: gracefully},
		"UnselectedByAll":     {a: cluster("a", tainted(0)), b: bound(inTerms([]string{"b"}, []string{"c"}))},
		"SelectedByOtherTerm": {a: cluster("a", tainted(0)), b: bound(inTerms([]string{"b"}, []string{"a"})), want: gracefully},
		"SelectedByOverflow": {a: cluster("a", tainted(0)), b: bound(inTerms([]string{"b"}), func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Placement.ClusterAffinities[0].OverflowAffinities = []policyv1alpha1.OverflowAffinityTerm{
				{ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"a"}}},
			}
		}), want: gracefully},
		"TaintedWithoutPolicy":  {a: cluster("a", tainted(time.Hour)), b: bound(noFailover)},
		"TaintedWithFlag":       {a: cluster("a", tainted(0)), b: bound(noFailover), flags: func(c *Config) { c.NoExecute, c.PurgeMode = true, directly }, want: directly},
		"LostWithFlag":          {a: cluster("a", lost(time.Hour)), b: bound(noFailover), flags: func(c *Config) { c.NoExecute = true }},
		"JustLost":              {a: cluster("a", lost(20*time.Second)), b: bound(), again: 10 * time.Second},
		"Lost":                  {a: cluster("a", lost(30*time.Second)), b: bound(), want: gracefully},
		"LostTolerated":         {a: cluster("a", lost(time.Minute)), b: bound(tolerating(toleration(clusterv1alpha1.TaintClusterNotReady, 300))), again: 4 * time.Minute},
		"LostUntoleratedAtOnce": {a: cluster("a", lost(0)), b: bound(tolerating(toleration(clusterv1alpha1.TaintClusterNotReady, 0))), want: gracefully},
		"NoPlacement":           {a: cluster("a", lost(time.Hour)), b: bound(func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement = nil })},
		"SchedulingSuspended": {a: cluster("a", lost(time.Hour)), b: bound(func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Suspension = &workv1alpha2.Suspension{Scheduling: ptr.To(true)}
		})},
		"StatefulSet": {a: cluster("a", lost(time.Hour)), b: bound(stateful), waits: workv1alpha2.HandoverNotAllowedReason},
		"Claims":      {a: cluster("a", lost(time.Hour)), b: bound(), template: claims, waits: workv1alpha2.HandoverNotAllowedReason},
		"NoClaims":    {a: cluster("a", lost(time.Hour)), b: bound(), template: map[string]any{"template": map[string]any{}}, want: gracefully},
		"StatefulOverlap": {a: cluster("a", lost(time.Hour)), b: bound(stateful, annotated(policyv1alpha1.HandoverAnnotation, policyv1alpha1.HandoverOverlap)),
			want: gracefully},
		"OneAtATime": {a: cluster("a", lost(time.Hour)), b: bound(stateful, annotated(policyv1alpha1.HandoverAnnotation, policyv1alpha1.HandoverOverlap),
			func(b *workv1alpha2.ResourceBinding) {
				b.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{FromCluster: "c", SuppressDeletion: ptr.To(true)}}
			})},
		"ExclusiveLost":   {a: cluster("a", lost(time.Hour)), b: bound(stateful, exclusive()), waits: workv1alpha2.AwaitsEndReason},
		"ExclusiveFenced": {a: cluster("a", lost(time.Hour), fenced), b: bound(stateful, exclusive()), want: directly},
		"ExclusiveAlive":  {a: cluster("a", tainted(0)), b: bound(exclusive()), want: directly},
		"StateUnknown": {a: cluster("a", tainted(0)), b: bound(func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Failover.Cluster.StatePreservation = &policyv1alpha1.StatePreservation{Rules: []policyv1alpha1.StatePreservationRule{{AliasLabelName: "x", JSONPath: "{.y}"}}}
		}), waits: workv1alpha2.StateNotReadableReason},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, tc.template, tc.a, cluster("b"), cluster("c"), tc.b)
			if tc.flags != nil {
				tc.flags(&h.config)
			}
			b, again := h.reconcile()
			mode := policyv1alpha1.PurgeMode("")
			if task := eviction.Find(&b.Spec, "a"); task != nil {
				mode = task.PurgeMode
			}
			if mode != tc.want {
				t.Errorf("the purge mode is %q, want %q", mode, tc.want)
			}
			expectHeld(t, b, tc.waits)
			if again != tc.again {
				t.Errorf("reconciled again after %v, want %v", again, tc.again)
			}
			if len(b.Spec.Clusters) != 2 {
				t.Error("the targets were changed")
			}
			if (tc.want != "" || tc.waits != "") != (len(h.events) == 1) {
				t.Errorf("events are %q", h.events)
			}
			if before := b.ResourceVersion; tc.want == "" {
				if b, _ = h.reconcile(); b.ResourceVersion != before {
					t.Error("a second reconcile wrote")
				}
			}
		})
	}
}

func expectHeld(t *testing.T, b *workv1alpha2.ResourceBinding, reason string) {
	t.Helper()
	got := ""
	if c := conditionOf(b); c != nil {
		got = c.Reason
	}
	if got != reason {
		t.Errorf("the condition EvictionHeld has the reason %q, want %q", got, reason)
	}
}

func TestTasksEnd(t *testing.T) {
	never := eviction.Order{PurgeMode: policyv1alpha1.PurgeModeNever}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-a", Name: "web", Labels: map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "id"}}}
	returns := []eviction.Return{{Cluster: "a", Replicas: 2, Before: []string{"a", "b"}, At: metav1.NewTime(start).Rfc3339Copy()}}
	cases := map[string]struct {
		a       *clusterv1alpha1.Cluster // nil: it is gone
		b       *workv1alpha2.ResourceBinding
		objects []client.Object
		kept    bool
		waits   string
		event   string
		returns []eviction.Return
		failed  []eviction.Return
	}{
		"Replaced":          {a: cluster("a", lost(time.Hour)), b: bound(left(0, eviction.Order{}, true)), event: "finished: Replaced"},
		"ReplacedAndBack":   {a: cluster("a"), b: bound(left(0, eviction.Order{}, true)), event: "finished: Replaced"},
		"BackBefore":        {a: cluster("a"), b: bound(left(0, eviction.Order{}, false)), event: "cancelled", returns: returns},
		"BackForAnother":    {a: cluster("a"), b: bound(left(0, eviction.Order{Producer: "other"}, false)), kept: true},
		"BackRemovedFirst":  {a: cluster("a"), b: bound(left(0, eviction.Order{PurgeMode: policyv1alpha1.PurgeModeDirectly}, false)), kept: true},
		"BackButTainted":    {a: cluster("a", tainted(0)), b: bound(left(0, eviction.Order{}, false)), kept: true},
		"Leaves":            {b: bound(left(0, eviction.Order{}, false))},
		"Suppressed":        {a: cluster("a"), b: bound(left(time.Hour, never, true)), kept: true},
		"LastCopy":          {a: cluster("a", lost(time.Hour)), b: bound(left(time.Hour, eviction.Order{}, false)), kept: true, waits: workv1alpha2.LastCopyReason, event: "stays"},
		"ExclusiveLost":     {a: cluster("a", lost(time.Hour)), b: bound(exclusive(), left(0, eviction.Order{}, false)), objects: []client.Object{work}, kept: true, waits: workv1alpha2.AwaitsEndReason, event: "fenced"},
		"ExclusiveFenced":   {a: cluster("a", lost(time.Hour), fenced), b: bound(exclusive(), left(0, eviction.Order{}, false)), objects: []client.Object{work}, event: "finished"},
		"ExclusiveWorkGone": {a: cluster("a"), b: bound(exclusive(), left(0, eviction.Order{PurgeMode: policyv1alpha1.PurgeModeDirectly}, false)), event: "finished"},
		"RecordsForFailback": {a: cluster("a", lost(time.Hour)), b: bound(annotated(policyv1alpha1.ClusterFailbackAnnotation, policyv1alpha1.ClusterFailbackManual), left(0, eviction.Order{}, true)),
			event: "finished", failed: returns},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := append(tc.objects, cluster("b"), cluster("c"), tc.b)
			if tc.a != nil {
				objects = append(objects, tc.a)
			}
			h := newHub(t, nil, objects...)
			b, _ := h.reconcile()
			if got := len(b.Spec.GracefulEvictionTasks) > 0; got != tc.kept {
				t.Errorf("the task is kept: %v, want %v", got, tc.kept)
			}
			expectHeld(t, b, tc.waits)
			if diff := cmp.Diff(tc.returns, eviction.Returns(b)); diff != "" {
				t.Errorf("returns: %s", diff)
			}
			if diff := cmp.Diff(tc.failed, eviction.FailedOver(b)); diff != "" {
				t.Errorf("failed over: %s", diff)
			}
			if got := strings.Join(h.events, "\n"); !strings.Contains(got, tc.event) || tc.event == "" && got != "" {
				t.Errorf("events are %q, want %q", got, tc.event)
			}
		})
	}
}

func TestFailback(t *testing.T) {
	at := start.Add(-30 * time.Minute)
	record := func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "b", Replicas: 4}}
		eviction.SetFailedOver(b, []eviction.Return{{Cluster: "a", Replicas: 2, Before: []string{"a", "b"}, At: metav1.NewTime(at).Rfc3339Copy()}})
	}
	back := func(since time.Duration, edits ...func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
		return cluster("a", append(edits, func(c *clusterv1alpha1.Cluster) {
			c.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(-since))
		})...)
	}
	mode := func(more ...string) func(*workv1alpha2.ResourceBinding) {
		return annotated(append([]string{policyv1alpha1.ClusterFailbackAnnotation}, more...)...)
	}
	const whenHealthy, manual, soak, requested = policyv1alpha1.ClusterFailbackWhenHealthy, policyv1alpha1.ClusterFailbackManual,
		policyv1alpha1.ClusterFailbackSoakAnnotation, policyv1alpha1.ClusterFailbackRequestedAnnotation
	cases := map[string]struct {
		a             *clusterv1alpha1.Cluster
		policy        func(*workv1alpha2.ResourceBinding)
		returns, kept bool
		again         time.Duration
	}{
		"Never":             {back(time.Hour), mode(policyv1alpha1.ClusterFailbackNever), false, false, 0},
		"Unset":             {back(time.Hour), annotated(), false, false, 0},
		"WhenHealthy":       {back(10 * time.Minute), mode(whenHealthy), true, false, 10 * time.Minute},
		"WhenHealthySoon":   {back(4 * time.Minute), mode(whenHealthy), false, true, 6 * time.Minute},
		"WhenHealthyOwn":    {back(4 * time.Minute), mode(whenHealthy, soak, "3m"), true, false, 10 * time.Minute},
		"WhenHealthyNotYet": {cluster("a", lost(time.Hour)), mode(whenHealthy), false, true, 0},
		"Tainted":           {back(time.Hour, tainted(0)), mode(whenHealthy), false, true, 0},
		"Manual":            {back(time.Hour), mode(manual), false, true, 0},
		"ManualBefore":      {back(time.Hour), mode(manual, requested, at.Add(-time.Second).UTC().Format(time.RFC3339)), false, true, 0},
		"ManualRequested":   {back(0), mode(manual, requested, at.UTC().Format(time.RFC3339)), true, false, 10 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, nil, tc.a, cluster("b"), cluster("c"), bound(tc.policy, record))
			b, again := h.reconcile()
			if tc.returns {
				b, again = h.reconcile()
			}
			if got := len(eviction.Returns(b)) > 0; got != tc.returns {
				t.Errorf("it returns: %v, want %v", got, tc.returns)
			}
			if got := len(eviction.FailedOver(b)) > 0; got != tc.kept {
				t.Errorf("the record is kept: %v, want %v", got, tc.kept)
			}
			if again != tc.again {
				t.Errorf("reconciled again after %v, want %v", again, tc.again)
			}
		})
	}
}

func TestReturnsEnd(t *testing.T) {
	returning := func(b *workv1alpha2.ResourceBinding) {
		eviction.SetReturns(b, []eviction.Return{{Cluster: "a", Replicas: 2, At: metav1.NewTime(start.Add(-time.Minute)).Rfc3339Copy()}})
	}
	healthy := func(b *workv1alpha2.ResourceBinding) {
		b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "a", Health: workv1alpha2.ResourceHealthy}}
	}
	elsewhere := func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = b.Spec.Clusters[1:] }
	long := func(b *workv1alpha2.ResourceBinding) {
		returns := eviction.Returns(b)
		returns[0].At = metav1.NewTime(start.Add(-time.Hour))
		eviction.SetReturns(b, returns)
	}
	for name, tc := range map[string]struct {
		a    *clusterv1alpha1.Cluster
		b    *workv1alpha2.ResourceBinding
		kept bool
	}{
		"Waits":        {cluster("a"), bound(returning), true},
		"WaitsForLong": {cluster("a"), bound(returning, long), true},
		"NeverChosen":  {cluster("a"), bound(returning, elsewhere, long), false},
		"NotChosenYet": {cluster("a"), bound(returning, elsewhere, healthy), true},
		"Back":         {cluster("a"), bound(returning, healthy), false},
		"LostAgain":    {cluster("a", lost(0)), bound(returning), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, nil, tc.a, cluster("b"), cluster("c"), tc.b)
			b, _ := h.reconcile()
			if got := len(eviction.Returns(b)) > 0; got != tc.kept {
				t.Errorf("it still returns: %v, want %v", got, tc.kept)
			}
		})
	}
}

// Evictions of applications have used up the rate that both causes share: the copy stays until its turn.
func TestEvictionsWaitForTheSharedRate(t *testing.T) {
	h := newHub(t, nil, cluster("a", tainted(0)), cluster("b"), cluster("c"), bound())
	h.EvictionRate = eviction.NewRate(func() float64 { return 1 }, h.clock, nil)
	for _, name := range []string{"first", "second", "third"} {
		h.EvictionRate.Delay(eviction.ApplicationFailure, types.NamespacedName{Namespace: "shop", Name: name}, "a")
	}
	b, again := h.reconcile()
	if len(b.Spec.GracefulEvictionTasks) > 0 || again != 2*time.Second {
		t.Fatalf("tasks %v, again in %s; want none, and the turn after the application's", b.Spec.GracefulEvictionTasks, again)
	}
	h.clock.Step(again)
	if b, _ = h.reconcile(); len(b.Spec.GracefulEvictionTasks) != 1 {
		t.Errorf("tasks %v after the pause", b.Spec.GracefulEvictionTasks)
	}
}
