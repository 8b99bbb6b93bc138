package schedule_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
)

func newQueue(t *testing.T) workqueue.TypedRateLimitingInterface[types.NamespacedName] {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Millisecond, time.Second))
	t.Cleanup(q.ShutDown)
	return q
}

func drain(q workqueue.TypedRateLimitingInterface[types.NamespacedName]) []string {
	var out []string
	for q.Len() > 0 {
		it, _ := q.Get()
		out = append(out, it.Name)
		q.Done(it)
	}
	slices.Sort(out)
	return out
}

func TestFleetChangesEnqueueOnlyWhatTheyConcern(t *testing.T) {
	prod := affinity(policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}})
	on := func(pairs ...any) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = targets(pairs...) }
	}
	bindings := []*workv1alpha2.ResourceBinding{
		bindingOf("duplicated-prod", 1, placement(duplicated, prod), on("m1", 1)),
		bindingOf("duplicated-m2", 1, placement(duplicated, affinity(named("m2"))), on("m2", 1)),
		bindingOf("dynamic-on-m1", 1, placement(dynamic), on("m1", 1)),
		bindingOf("dynamic-on-m2", 1, placement(dynamic), on("m2", 1)),
		bindingOf("dynamic-waiting", 1, placement(dynamic)),
		bindingOf("weights", 1, placement(static("m1", 1, "m2", 1)), on("m2", 1)),
		bindingOf("equal", 1, placement(static()), on("m2", 1)),
		bindingOf("not-ours", 1, placement(duplicated), func(b *workv1alpha2.ResourceBinding) { b.Labels = nil }),
	}
	cases := map[string]struct {
		reason string
		change func(h *hub)
		want   []string
		more   bool
	}{
		"Heartbeat": {
			reason: "a status without changes enqueues nothing",
			change: func(h *hub) {
				h.changeCluster("m1", func(c *clusterv1alpha1.Cluster) { c.Status.KubernetesVersion = "v1.37.1" })
			},
		},
		"LessCapacity": {
			reason: "no binding waits for less capacity",
			change: func(h *hub) { h.changeCluster("m1", available(1)) },
		},
		"MoreCapacity": {
			reason: "more capacity is for bindings that wait, in a moment", more: true,
			change: func(h *hub) { h.changeCluster("m1", available(1000)) },
		},
		"Labels": {
			reason: "who is in the cluster, who could be, and who waits",
			change: func(h *hub) { h.changeCluster("m1", labelled("env", "test")) },
			want:   []string{"duplicated-prod", "dynamic-on-m1", "dynamic-waiting", "weights"},
		},
		"Taint": {
			reason: "the same for taints",
			change: func(h *hub) { h.changeCluster("m1", tainted("a", "b", corev1.TaintEffectNoSchedule)) },
			want:   []string{"duplicated-prod", "dynamic-on-m1", "dynamic-waiting", "weights"},
		},
		"NewKind": {
			reason: "and for a kind that appears",
			change: func(h *hub) {
				h.changeCluster("m1", func(c *clusterv1alpha1.Cluster) {
					c.Status.APIEnablements = append(c.Status.APIEnablements, clusterv1alpha1.APIEnablement{GroupVersion: "x/v1"})
				})
			},
			want: []string{"duplicated-prod", "dynamic-on-m1", "dynamic-waiting", "weights"},
		},
		"Gone": {
			reason: "and for a cluster that leaves",
			change: func(h *hub) {
				if err := h.client.Delete(h.ctx, member("m1")); err != nil {
					h.t.Fatal(err)
				}
				h.controller.Touch("m1")
			},
			want: []string{"duplicated-prod", "dynamic-on-m1", "dynamic-waiting", "weights"},
		},
		"Joined": {
			reason: "a new cluster concerns who can be placed there, and moves nothing that is divided by available replicas", more: true,
			change: func(h *hub) {
				if err := h.client.Create(h.ctx, member("m9", labelled("env", "prod"))); err != nil {
					h.t.Fatal(err)
				}
				h.controller.Touch("m9")
			},
			want: []string{"duplicated-prod", "dynamic-waiting", "weights"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1", labelled("env", "prod")), member("m2"))
			for _, b := range bindings {
				if err := h.client.Create(h.ctx, b.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			h.controller.AddPending(types.NamespacedName{Namespace: "shop", Name: "dynamic-waiting"})
			w, q := schedule.NewRequeuer(h.controller), newQueue(t)
			if _, err := w.Compare(h.ctx, q); err != nil {
				t.Fatal(err)
			}
			if got := drain(q); len(got) > 0 {
				t.Errorf("the first look wakes %v; at the start everybody is awake", got)
			}
			tc.change(h)
			more, err := w.Compare(h.ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, drain(q), cmpopts.EquateEmpty()); diff != "" || more != tc.more {
				t.Errorf("%s: more %t, want %t; woken -want +got\n%s", tc.reason, more, tc.more, diff)
			}
		})
	}
}

// TestAFailedComparisonIsMadeAgain: the next one finds the same differences.
func TestAFailedComparisonIsMadeAgain(t *testing.T) {
	h := newHub(t, member("m1"), member("m2"))
	if err := h.client.Create(h.ctx, bindingOf("on-m1", 1, placement(duplicated), func(b *workv1alpha2.ResourceBinding) {
		b.Spec.Clusters = targets("m1", 1)
		b.Spec.Resource.APIVersion, b.Spec.Resource.Kind = "books.example.com/v1", "Book"
	})); err != nil {
		t.Fatal(err)
	}
	w, q := schedule.NewRequeuer(h.controller), newQueue(t)
	if _, err := w.Compare(h.ctx, q); err != nil {
		t.Fatal(err)
	}
	h.changeCluster("m1", labelled("env", "test"))
	h.unlisted = errors.New("the storage is away")
	if _, err := w.Compare(h.ctx, q); !errors.Is(err, h.unlisted) {
		t.Fatalf("the look ends with %v", err)
	}
	books := func(kind schema.GroupVersionKind) bool { return kind.Kind == "Book" }
	if err := w.KindsChanged(h.ctx, books, q); !errors.Is(err, h.unlisted) {
		t.Fatalf("the look at kinds ends with %v", err)
	}
	h.unlisted = nil
	if _, err := w.Compare(h.ctx, q); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"on-m1"}, drain(q)); diff != "" {
		t.Errorf("woken by the fleet -want +got\n%s", diff)
	}
	if err := w.KindsChanged(h.ctx, nil, q); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"on-m1"}, drain(q)); diff != "" {
		t.Errorf("woken by the kind -want +got\n%s", diff)
	}
}

// TestAChangeThatIsUndoneBeforeTheComparison: a binding was scheduled meanwhile, without the cluster.
func TestAChangeThatIsUndoneBeforeTheComparison(t *testing.T) {
	h := newHub(t, member("m1"), member("m2"), bindingOf("web", 1, placement(duplicated)))
	w, q := schedule.NewRequeuer(h.controller), newQueue(t)
	if _, err := w.Compare(h.ctx, q); err != nil {
		t.Fatal(err)
	}
	h.changeCluster("m1", tainted("broken", "", corev1.TaintEffectNoSchedule))
	h.reconcile("web")
	h.expectTargets("web", "with the taint", targets("m2", 1))
	h.changeCluster("m1", func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil })
	if _, err := w.Compare(h.ctx, q); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"web"}, drain(q)); diff != "" {
		t.Errorf("enqueued -want +got\n%s", diff)
	}
	if _, err := w.Compare(h.ctx, q); err != nil || len(drain(q)) > 0 {
		t.Error("the changes are compared twice, error", err)
	}
}

// TestAClaimEnqueuesTheBindingsThatAwaitIt: claims change often, and most are named by no binding that waits.
func TestAClaimEnqueuesTheBindingsThatAwaitIt(t *testing.T) {
	h := newHub(t)
	awaiting := func(name, namespace, claim string) *workv1alpha2.ResourceBinding {
		b := bindingOf(name, 1, placement(duplicated))
		b.Namespace = namespace
		b.Annotations = map[string]string{
			workv1alpha2.AwaitsClaimsAnnotation: "true",
			workv1alpha2.DependenciesAnnotation: `[{"kind":"ResourceClaim","namespace":"shop","name":"` + claim + `"}]`,
		}
		h.controller.UpdateClaims(b)
		return b
	}
	one := awaiting("one", "shop", "gpu")
	awaiting("other", "shop", "gpu-2")
	awaiting("elsewhere", "home", "gpu")
	w, q := schedule.NewRequeuer(h.controller), newQueue(t)
	w.ClaimChanged("shop", "gpu", q)
	if diff := cmp.Diff([]string{"one"}, drain(q)); diff != "" {
		t.Errorf("woken -want +got\n%s", diff)
	}
	w.ClaimChanged("shop", "unused", q)
	delete(one.Annotations, workv1alpha2.AwaitsClaimsAnnotation)
	h.controller.UpdateClaims(one)
	w.ClaimChanged("shop", "gpu", q)
	if woken := drain(q); len(woken) > 0 {
		t.Errorf("%v are woken though they await nothing", woken)
	}
}

// TestAChangedDefinitionEnqueuesItsBindings: what a cluster can take of a kind depends on the kind's definition, too.
func TestAChangedDefinitionEnqueuesItsBindings(t *testing.T) {
	h := newHub(t, member("m1"))
	of := func(kind string) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Resource.APIVersion, b.Spec.Resource.Kind = "books.example.com/v1", kind
		}
	}
	notOurs := func(b *workv1alpha2.ResourceBinding) { b.Labels = nil }
	for _, b := range []*workv1alpha2.ResourceBinding{
		bindingOf("a-book", 1, placement(duplicated), of("Book")), bindingOf("a-leaf", 1, placement(duplicated), of("Leaf")),
		bindingOf("somebodys-book", 1, placement(duplicated), of("Book"), notOurs), bindingOf("a-deployment", 1, placement(duplicated)),
	} {
		if err := h.client.Create(h.ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	everywhere := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Name: "a-book-of-all", Labels: map[string]string{policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel: "1"},
	}}
	everywhere.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "books.example.com/v1", Kind: "Book", Name: "of-all"}
	if err := h.client.Create(h.ctx, everywhere); err != nil {
		t.Fatal(err)
	}
	w, q := schedule.NewRequeuer(h.controller), newQueue(t)
	books := func(kind schema.GroupVersionKind) bool { return kind.Kind == "Book" }
	if err := w.KindsChanged(h.ctx, books, q); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a-book", "a-book-of-all"}, drain(q)); diff != "" {
		t.Errorf("woken -want +got\n%s", diff)
	}
}

// TestReleasedReservationsEnqueueWaitingBindings: no Cluster status ever had them, so that none shows when they are free.
func TestReleasedReservationsEnqueueWaitingBindings(t *testing.T) {
	other := func(b *workv1alpha2.ResourceBinding) {
		b.Spec.WorkloadAffinityGroups = &workv1alpha2.WorkloadAffinityGroups{AntiAffinityGroup: "app=db"}
	}
	to := func(cluster string) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) { b.Spec.Placement = placement(dynamic, affinity(named(cluster))) }
	}
	scaled := func(replicas int32) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = replicas }
	}
	cases := map[string]struct {
		made   func(*workv1alpha2.ResourceBinding)
		change func(*workv1alpha2.ResourceBinding) // nil deletes it
		want   bool
	}{
		"Deleted":      {made: to("m1"), want: true},
		"Shrinks":      {made: to("m1"), change: scaled(2), want: true},
		"Grows":        {made: to("m1"), change: scaled(6)},
		"Moves":        {made: to("m1"), change: to("m2"), want: true},
		"NothingTaken": {made: func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas, b.Spec.ReplicaRequirements = 0, nil }},
		"OtherDeleted": {made: func(b *workv1alpha2.ResourceBinding) { scaled(0)(b); other(b) }, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, member("m1"), member("m2"), bindingOf("web", 4, placement(duplicated), tc.made))
			w := schedule.NewRequeuer(h.controller)
			h.reconcile("web")
			w.PendingRequeued() // a newcomer to a group may be what others of it wait for
			if tc.change != nil {
				h.change("web", tc.change)
			} else if err := h.client.Delete(h.ctx, h.binding("web")); err != nil {
				t.Fatal(err)
			}
			h.reconcile("web")
			if got := w.PendingRequeued(); got != tc.want {
				t.Errorf("waiting bindings are enqueued: %t, want %t", got, tc.want)
			}
		})
	}
}

func (h *hub) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*workv1alpha2.ResourceBindingList); ok {
		if h.listed != nil {
			h.listed()
		}
		if h.unlisted != nil {
			return h.unlisted
		}
	}
	return c.List(ctx, list, opts...)
}

// TestTheRequeuerOutlivesAPanic: what it could not find is found again, without another change.
func TestTheRequeuerOutlivesAPanic(t *testing.T) {
	h, q := newHub(t, member("m1")), newQueue(t)
	r, ended := schedule.NewRequeuer(h.controller), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- r.Start(ctx) }()
	if err := r.Begin(ctx, q); err != nil {
		t.Fatal(err)
	}
	changes := make(chan struct{})
	panics := true
	h.listed = func() {
		changes <- struct{}{}
		if panics {
			panics = false
			panic("an unexpected object")
		}
	}
	r.Convert(func(schema.GroupVersionKind) bool { return true })
	<-changes
	for again := true; again; {
		h.clock.Step(time.Minute)
		select {
		case <-changes:
			again = false
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
