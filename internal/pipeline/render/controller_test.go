package render

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

const (
	workM1 = "karmada-es-m1/nginx-687f7fb96f"
	workM2 = "karmada-es-m2/nginx-687f7fb96f"
)

func threeClusters(objects ...client.Object) []client.Object {
	return append(objects, cluster("m1", map[string]string{"tier": "gold"}), cluster("m2", nil), cluster("m3", nil))
}

func wantWrites(t *testing.T, reason string, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func TestWorksFollowTheBinding(t *testing.T) {
	binding := nginxBinding("m1", "m2")
	s := newStage(t, threeClusters(binding)...)
	wantWrites(t, "one Work for each target", s.mustReconcile(binding), "create "+workM1, "create "+workM2)
	wantWrites(t, "nothing changed, nothing is written", s.mustReconcile(binding))

	s.change(binding, func() { binding.Spec.Clusters = targets("m1", "m3"); binding.Spec.Replicas = 5 })
	wantWrites(t, "a target came and one went", s.mustReconcile(binding), "create karmada-es-m3/nginx-687f7fb96f", "delete "+workM2)
	if s.work("m2").DeletionTimestamp == nil {
		t.Error("the Work of m2 is not being deleted")
	}

	changed := parse(t, strings.Replace(nginx, "nginx:1.27", "nginx:1.28", 1))
	s.put(changed)
	wantWrites(t, "the template changed", s.mustReconcile(binding), "patch "+workM1, "patch karmada-es-m3/nginx-687f7fb96f")
	if raw := string(s.work("m1").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, "nginx:1.28") {
		t.Errorf("the Work still has %s", raw)
	}
}

func TestNothingIsRenderedBeforeItsTime(t *testing.T) {
	cases := map[string]struct {
		reason string
		edit   func(*stage, *workv1alpha2.ResourceBinding)
		fails  bool
	}{
		"NotScheduled":   {"no cluster was chosen", func(_ *stage, b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = nil }, false},
		"NewNumbersDue":  {"the scheduler has not seen the new replicas", func(_ *stage, b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 50; b.Generation = 9 }, false},
		"NoTemplate":     {"it was deleted", func(s *stage, _ *workv1alpha2.ResourceBinding) { clear(s.templates) }, false},
		"OtherTemplate":  {"it was made anew", func(_ *stage, b *workv1alpha2.ResourceBinding) { b.Spec.Resource.UID = "another" }, false},
		"UnknownCluster": {"there is nowhere to put a Work", func(_ *stage, b *workv1alpha2.ResourceBinding) { b.Spec.Clusters[0].Name = "nowhere" }, false},
		"NoID":           {"its Works could not be distinguished from others", func(_ *stage, b *workv1alpha2.ResourceBinding) { b.Labels = nil }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			binding := nginxBinding("m1")
			s := newStage(t, cluster("m1", nil))
			tc.edit(s, binding)
			if err := s.client.Create(t.Context(), binding); err != nil {
				t.Fatal(err)
			}
			writes, result, err := s.reconcile(binding)
			if (err != nil) != tc.fails {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			wantWrites(t, tc.reason, writes)
			if result != (reconcile.Result{}) {
				t.Errorf("%s: it polls: %+v", tc.reason, result)
			}
		})
	}
}

func TestAClusterThatLeavesGetsNoWork(t *testing.T) {
	leaving := cluster("m1", nil)
	leaving.Finalizers = []string{clusterv1alpha1.ClusterFinalizer}
	binding := nginxBinding("m1")
	s := newStage(t, leaving, binding)
	if err := s.client.Delete(t.Context(), leaving); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "its namespace is going", s.mustReconcile(binding))
}

func TestDeletingABinding(t *testing.T) {
	binding := nginxBinding("m1", "m2")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	if err := s.client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "its Works go first", s.mustReconcile(binding), "delete "+workM1, "delete "+workM2)
	s.letGo(s.work("m1"))
	wantWrites(t, "one is still there", s.mustReconcile(binding))
	s.letGo(s.work("m2"))
	wantWrites(t, "now the binding may go", s.mustReconcile(binding), "patch default/nginx-deployment")
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"other/finalizer"}, binding.Finalizers); diff != "" {
		t.Errorf("finalizers of others stay (-want +got):\n%s", diff)
	}
	wantWrites(t, "there is nothing left for us to do", s.mustReconcile(binding))
}

func TestWorksOfAVanishedBindingAreDeleted(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	s.vanish(binding)
	wantWrites(t, "the finalizer was removed", s.mustReconcile(binding), "delete "+workM1)
}

func TestPurgedCopyGoesFirst(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	s.change(binding, func() {
		binding.Spec.Clusters = targets("m2")
		binding.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{
			FromCluster: "m1", PurgeMode: policyv1alpha1.PurgeModeDirectly, Reason: "TaintUntolerated", Producer: "TaintManager",
			PreservedLabelState: map[string]string{"epoch": "7"}, ClustersBeforeFailover: []string{"m1"},
		}}
	})
	wantWrites(t, "the old copy goes", s.mustReconcile(binding), "delete "+workM1)
	wantWrites(t, "it is not gone yet", s.mustReconcile(binding))
	s.letGo(s.work("m1"))
	wantWrites(t, "now the new one comes", s.mustReconcile(binding), "create "+workM2)
	if got := manifestOf(t, s.work("m2")).GetLabels()["epoch"]; got != "7" {
		t.Errorf("the state label is %q, want 7", got)
	}
}

func TestDrainingCopyStaysAsItIs(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	s.change(binding, func() {
		binding.Spec.Clusters = targets("m2")
		binding.Spec.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{{
			FromCluster: "m1", PurgeMode: policyv1alpha1.PurgeModeGracefully, Reason: "TaintUntolerated", Producer: "TaintManager"}}
	})
	s.put(parse(t, strings.Replace(nginx, "nginx:1.27", "nginx:1.28", 1)))
	wantWrites(t, "only the new copy is written", s.mustReconcile(binding), "create "+workM2)
	s.change(binding, func() { binding.Spec.GracefulEvictionTasks = nil })
	wantWrites(t, "the eviction ended", s.mustReconcile(binding), "delete "+workM1)
}

func TestOneFailingClusterDoesNotDelayOthers(t *testing.T) {
	binding := nginxBinding("m1", "m2", "m3")
	s := newStage(t, threeClusters(binding)...)
	boom := errors.New("the namespace is not there yet")
	s.fail = func(_ string, obj client.Object) error {
		if obj.GetNamespace() == "karmada-es-m2" {
			return boom
		}
		return nil
	}
	_, _, err := s.reconcile(binding)
	if !errors.Is(err, boom) || errors.Is(err, reconcile.TerminalError(nil)) {
		t.Fatalf("got %v, want the failure, to be retried", err)
	}
	s.work("m1")
	s.work("m3")
	if len(s.events) != 1 || s.events[0].Reason != events.SyncWorkFailed || s.events[0].Object.Name != "nginx-deployment" {
		t.Errorf("events are %v, want one about the binding", s.events)
	}
	s.fail = nil
	wantWrites(t, "only what failed is done again", s.mustReconcile(binding), "create "+workM2)
}

func TestOverrideThatCannotApply(t *testing.T) {
	policy := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "impossible"},
		Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{
			TargetCluster: &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}},
			Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{
				{Path: "/spec/paused", Operator: "replace", Value: apiextensionsv1.JSON{Raw: []byte("true")}}}},
		}}},
	}
	binding := nginxBinding("m1", "m2")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	before := s.work("m1")
	if err := s.client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	s.put(parse(t, strings.Replace(nginx, "nginx:1.27", "nginx:1.28", 1)))

	writes, _, err := s.reconcile(binding)
	if !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Fatalf("got %v, want an error that is not retried", err)
	}
	wantWrites(t, "the other cluster and the condition", writes, "patch "+workM2, "patch status default/nginx-deployment")
	if diff := cmp.Diff(before.Spec, s.work("m1").Spec); diff != "" {
		t.Errorf("the last good Work changed (-want +got):\n%s", diff)
	}
	if len(s.events) != 1 || s.events[0].Reason != events.ApplyOverridePolicyFailed || s.events[0].Object.Kind != "Deployment" {
		t.Errorf("events are %v, want one about the template", s.events)
	}
	condition := renderedCondition(t, s, binding)
	if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != workv1alpha2.OverrideFailedReason {
		t.Fatalf("condition is %+v", condition)
	}
	for _, part := range []string{"default/impossible", "rule 0", "/spec/paused", `"m1"`} {
		if !strings.Contains(condition.Message, part) {
			t.Errorf("%q does not mention %s", condition.Message, part)
		}
	}
	writes, _, _ = s.reconcile(binding)
	wantWrites(t, "the same failure is not written again", writes)

	if err := s.client.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "the policy is gone", s.mustReconcile(binding), "patch "+workM1, "patch status default/nginx-deployment")
	if condition := renderedCondition(t, s, binding); condition != nil {
		t.Errorf("condition is still %+v", condition)
	}
}

func renderedCondition(t *testing.T, s *stage, binding *workv1alpha2.ResourceBinding) *metav1.Condition {
	t.Helper()
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	return meta.FindStatusCondition(binding.Status.Conditions, workv1alpha2.Rendered)
}

func TestATranslationThatFailsIsTriedAgainOnlyIfThatMayHelp(t *testing.T) {
	for name, again := range map[string]bool{"for good": false, "for now": true} {
		t.Run(name, func(t *testing.T) {
			binding := nginxBinding("m1", "m2")
			s := newStage(t, threeClusters(binding)...)
			failure := errors.New("it cannot be written")
			if again {
				failure = conversion.Transient(failure)
			}
			s.reconciler.composer.Conversion = failingIn{cluster: "m2", failure: failure}
			writes, _, err := s.reconcile(binding)
			wantWrites(t, "the other cluster has its Work", writes, "create "+workM1, "patch status default/nginx-deployment")
			if err == nil || errors.Is(err, reconcile.TerminalError(nil)) == again {
				t.Errorf("got %v", err)
			}
		})
	}
}

// failingIn converts nothing, and fails for one cluster.
type failingIn struct {
	conversion.Unchanged
	cluster string
	failure error
}

func (f failingIn) To(_ context.Context, obj *unstructured.Unstructured, c *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	if c.Name == f.cluster {
		return nil, f.failure
	}
	return obj, nil
}

func TestForeignWorkIsNotTouched(t *testing.T) {
	foreign := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: "nginx-687f7fb96f", Finalizers: []string{workv1alpha1.ExecutionFinalizer}}}
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding, foreign)...)
	refused := func(reason string) {
		t.Helper()
		writes, _, err := s.reconcile(binding)
		if err == nil || !strings.Contains(err.Error(), "belongs to") {
			t.Errorf("%s: got %v, want an error about the owner, which is tried again", reason, err)
		}
		wantWrites(t, reason, writes)
	}
	refused("it was made by another client")
	if err := s.client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	refused("its end, which is no news about this binding, takes a while")
}

// A namespace goes to every cluster without a policy. The binding of a policy that selects it all the same takes over its Works and
// does not delete them: that would delete all that is in the namespace.
func TestAWorkThatCarriesANamespaceIsNotDeleted(t *testing.T) {
	carrier := func() *workv1alpha1.Work {
		return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
			Namespace: "karmada-es-m1", Name: "nginx-687f7fb96f", UID: "carrier", Finalizers: []string{workv1alpha1.ExecutionFinalizer},
			Annotations: map[string]string{workv1alpha1.CarriedNamespaceAnnotation: "nginx"},
		}}
	}
	bound := func(t *testing.T) (*stage, *workv1alpha2.ResourceBinding) {
		t.Helper()
		binding := nginxBinding("m1")
		s := newStage(t, threeClusters(binding, carrier())...)
		wantWrites(t, "it is taken over", s.mustReconcile(binding), "patch "+workM1)
		if w := s.work("m1"); !compose.Belongs(w, binding) || w.Annotations[workv1alpha1.ConflictResolutionAnnotation] != workv1alpha1.ConflictResolutionOverwrite {
			t.Errorf("labels are %v, annotations %v", w.Labels, w.Annotations)
		}
		s.reconciler.writes.Observe(s.work("m1"))
		return s, binding
	}
	unbound := func(t *testing.T, s *stage) {
		t.Helper()
		w := s.work("m1")
		if !compose.MayTake(w) || w.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] != "" || w.Spec.SuspendDispatching != nil {
			t.Errorf("it still has the binding: %+v", w)
		}
	}
	t.Run("ByABindingThatWantsItNoMore", func(t *testing.T) {
		s, binding := bound(t)
		s.change(binding, func() { binding.Spec.Clusters = targets("m2") })
		wantWrites(t, "another cluster is chosen", s.mustReconcile(binding), "patch "+workM1, "create karmada-es-m2/nginx-687f7fb96f")
		unbound(t, s)
	})
	t.Run("ByABindingThatGoes", func(t *testing.T) {
		s, binding := bound(t)
		if err := s.client.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		writes, result, err := s.reconcile(binding)
		wantWrites(t, "it goes", writes, "patch "+workM1)
		if err != nil || result.RequeueAfter == 0 {
			t.Errorf("the binding is reconciled again after %v, error %v", result.RequeueAfter, err)
		}
		unbound(t, s)
		wantWrites(t, "nothing of it is left", s.mustReconcile(binding), "patch default/nginx-deployment")
	})
	t.Run("NotWhileItGoesItself", func(t *testing.T) {
		binding := nginxBinding("m1")
		s := newStage(t, threeClusters(binding, carrier())...)
		if err := s.client.Delete(t.Context(), s.work("m1")); err != nil {
			t.Fatal(err)
		}
		if writes, _, err := s.reconcile(binding); err == nil || len(writes) > 0 {
			t.Errorf("writes %v, error %v, want an error, which is tried again", writes, err)
		}
	})
}

func TestAWorkThatLostWhatLeadsToItsBindingGetsItBack(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	work, want := s.work("m1"), s.work("m1")
	s.change(work, func() { work.Annotations = nil })
	s.reconciler.writes.Observe(work)
	wantWrites(t, "its annotations were removed", s.mustReconcile(binding), "patch "+workM1)
	if diff := cmp.Diff(want.Annotations, s.work("m1").Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestAWorkOnItsWayOutIsNotWritten(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	if err := s.client.Delete(t.Context(), s.work("m1")); err != nil {
		t.Fatal(err)
	}
	wantWrites(t, "its name is not free yet", s.mustReconcile(binding))
	s.letGo(s.work("m1"))
	wantWrites(t, "now it is", s.mustReconcile(binding), "create "+workM1)
}

func TestJobCompletionsAreShared(t *testing.T) {
	job := parse(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: nginx, namespace: default, uid: template-uid}, spec: {completions: 10, parallelism: 5}}`)
	binding := nginxBinding("m1", "m2")
	binding.Spec.Resource.APIVersion, binding.Spec.Resource.Kind = "batch/v1", "Job"
	s := newStage(t, threeClusters(binding)...)
	clear(s.templates)
	s.put(job)
	s.mustReconcile(binding)
	var works workv1alpha1.WorkList
	if err := s.client.List(t.Context(), &works); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for i := range works.Items {
		got[works.Items[i].Namespace], _, _ = unstructured.NestedInt64(manifestOf(t, &works.Items[i]).Object, "spec", "completions")
	}
	if diff := cmp.Diff(map[string]int64{"karmada-es-m1": 4, "karmada-es-m2": 6}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
