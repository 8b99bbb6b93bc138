package namespaces

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

func cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// namespaceHub has the namespace "predict" and the clusters member1 and member2.
func namespaceHub(t *testing.T, objects ...client.Object) (*fakeHub, *reconciler) {
	t.Helper()
	h := newHub(t, append(objects, cluster("member1"), cluster("member2"))...)
	ids := 0
	loop := &reconciler{
		client: h.client, templates: h.templates,
		events: events.RecorderFunc(func(e events.Event) { h.events = append(h.events, e.String()) }),
		newID:  func() string { ids++; return fmt.Sprint("id-", ids) },
	}
	h.namespace("predict")
	return h, loop
}

func reconcileNamespace(t *testing.T, loop *reconciler, name Namespace) {
	t.Helper()
	if _, err := loop.Reconcile(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

const predictWork = "predict-5c885f7948"

func (h *fakeHub) work(cluster string) *workv1alpha1.Work {
	h.t.Helper()
	work := &workv1alpha1.Work{}
	key := client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: predictWork}
	if err := h.client.Get(h.t.Context(), key, work); err != nil {
		h.t.Fatal(err)
	}
	return work
}

func manifestOf(t *testing.T, work *workv1alpha1.Work) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestANamespaceGoesToEveryCluster(t *testing.T) {
	h, loop := namespaceHub(t)
	h.templates.change(Namespace("predict").ref(), func(obj *unstructured.Unstructured) {
		obj.SetLabels(map[string]string{"kubernetes.io/metadata.name": "predict", "team": "ml"})
		obj.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"})
	})
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("a new namespace", "create Work "+predictWork, "create Work "+predictWork)
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("nothing new")

	work := h.work("member2")
	if diff := cmp.Diff([]string{workv1alpha1.ExecutionFinalizer}, work.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name": "predict",
			"labels": map[string]any{
				"team": "ml", "karmada.io/managed": "true", "work.karmada.io/permanent-id": "id-2",
			},
			"annotations": map[string]any{
				"work.karmada.io/namespace":                  "karmada-es-member2",
				"work.karmada.io/name":                       predictWork,
				"work.karmada.io/conflict-resolution":        "overwrite",
				"resourcetemplate.karmada.io/uid":            "uid-of-predict",
				"resourcetemplate.karmada.io/generation":     "0",
				"resourcetemplate.karmada.io/managed-labels": "karmada.io/managed,team,work.karmada.io/permanent-id",
				"resourcetemplate.karmada.io/managed-annotations": "resourcetemplate.karmada.io/generation," +
					"resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels," +
					"resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace",
			},
		},
	}
	if diff := cmp.Diff(want, manifestOf(t, work).Object); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	if got := work.Labels[workv1alpha1.WorkPermanentIDLabel]; got != "id-2" {
		t.Errorf("the Work's id is %q, the manifest's id-2", got)
	}
}

func TestNamespaceChangesAndNewClusters(t *testing.T) {
	h, loop := namespaceHub(t)
	reconcileNamespace(t, loop, "predict")
	h.writes = nil
	h.templates.change(Namespace("predict").ref(), func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"team": "ml"}) })
	h.create(cluster("member3"))
	leaving := cluster("member4")
	leaving.Finalizers = []string{"x"}
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("a label and a cluster", "patch Work "+predictWork, "patch Work "+predictWork, "create Work "+predictWork)
	if manifestOf(t, h.work("member1")).GetLabels()["team"] != "ml" {
		t.Error("the label did not arrive")
	}
}

func TestNamespacesThatStay(t *testing.T) {
	for reason, tc := range map[string]struct {
		name   Namespace
		labels map[string]string
	}{
		"default is never sent":         {"default", nil},
		"kube-* is never sent":          {"kube-public", nil},
		"nor is the system's own":       {"karmada-system", nil},
		"nor is that of credentials":    {"karmada-cluster", nil},
		"nor is an execution namespace": {"karmada-es-member1", nil},
		"nor is one with the label":     {"mine", map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"}},
	} {
		h, loop := namespaceHub(t)
		h.namespace(tc.name)
		h.templates.change(tc.name.ref(), func(obj *unstructured.Unstructured) { obj.SetLabels(tc.labels) })
		reconcileNamespace(t, loop, tc.name)
		h.expectWrites(reason)
	}
}

func TestANamespaceOfAUserMayBeginWithKarmada(t *testing.T) {
	h, loop := namespaceHub(t)
	h.namespace("karmada-anything")
	reconcileNamespace(t, loop, "karmada-anything")
	name := workv1alpha1.WorkName("Namespace", "", "karmada-anything")
	h.expectWrites("a namespace of a user", "create Work "+name, "create Work "+name)
}

func TestTheSkipLabelTakesNothingAway(t *testing.T) {
	h, loop := namespaceHub(t)
	reconcileNamespace(t, loop, "predict")
	h.writes = nil
	h.templates.change(Namespace("predict").ref(), func(obj *unstructured.Unstructured) {
		obj.SetLabels(map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"})
	})
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("a namespace that is skipped later")
}

func TestANamespaceLeavesWithItsObject(t *testing.T) {
	h, loop := namespaceHub(t)
	reconcileNamespace(t, loop, "predict")
	h.writes = nil
	h.templates.change(Namespace("predict").ref(), func(obj *unstructured.Unstructured) { obj.SetDeletionTimestamp(ptr.To(metav1.NewTime(start))) })
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("a namespace being deleted, whose content goes first")
	delete(h.templates.objects, Namespace("predict").ref())
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("a namespace that is gone", "delete Work "+predictWork, "delete Work "+predictWork)
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("while the members are being cleaned")
}

// blind is a client whose cache shows no Work yet.
type blind struct{ client.Client }

func (b blind) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if _, ok := obj.(*workv1alpha1.Work); ok {
		return apierrors.NewNotFound(workv1alpha1.Resource("works"), key.Name)
	}
	return b.Client.Get(ctx, key, obj, options...)
}

// The answer to the first attempt was lost, and the namespace has changed since.
func TestAWorkThatIsNotInTheCacheYet(t *testing.T) {
	h, loop := namespaceHub(t)
	reconcileNamespace(t, loop, "predict")
	h.templates.change(Namespace("predict").ref(), func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{"team": "ml"}) })
	loop.client = blind{h.client}
	if result, err := loop.Reconcile(t.Context(), "predict"); err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %+v, %v; want another try soon and no error", result, err)
	}
	loop.client = h.client
	reconcileNamespace(t, loop, "predict")
	if got := manifestOf(t, h.work("member1")).GetLabels()["team"]; got != "ml" {
		t.Errorf("the label is %q", got)
	}
}

// A Work may be shown only after its namespace is gone, and was collected.
func TestAWorkThatOutlivesItsNamespaceIsFound(t *testing.T) {
	h, loop := namespaceHub(t)
	reconcileNamespace(t, loop, "predict")
	w := h.work("member1")
	handle := onNamespaceWork(h.templates)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[Namespace]())
	t.Cleanup(q.ShutDown)
	handle.Create(t.Context(), ctrlevent.TypedCreateEvent[*workv1alpha1.Work]{Object: w}, q)
	if q.Len() > 0 {
		t.Error("the Work of a namespace that is there is reconciled again")
	}
	delete(h.templates.objects, Namespace("predict").ref())
	handle.Create(t.Context(), ctrlevent.TypedCreateEvent[*workv1alpha1.Work]{Object: w}, q)
	if q.Len() != 1 {
		t.Errorf("%d namespaces are queued", q.Len())
	}
}

func TestAWorkOfABindingIsOnlyMarked(t *testing.T) {
	h, loop := namespaceHub(t)
	h.create(&workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: "karmada-es-member1", Name: predictWork,
		Labels: map[string]string{workv1alpha2.ClusterResourceBindingPermanentIDLabel: "x"},
	}})
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("a namespace that a policy sends to member1", "patch Work "+predictWork, "create Work "+predictWork)
	if w := h.work("member1"); w.Annotations[workv1alpha1.CarriedNamespaceAnnotation] != "predict" || len(w.Spec.Workload.Manifests) > 0 {
		t.Errorf("annotations are %v, manifests %v", w.Annotations, w.Spec.Workload.Manifests)
	}
	reconcileNamespace(t, loop, "predict")
	h.expectWrites("it is marked")
}

func TestOverridesOfNamespaces(t *testing.T) {
	label := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "where"}}
	label.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Namespace"}}
	label.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}},
		Overriders: policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
			{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"where": "here"}},
		}},
	}}
	h, loop := namespaceHub(t, label)
	reconcileNamespace(t, loop, "predict")
	if manifestOf(t, h.work("member1")).GetLabels()["where"] != "here" || h.work("member1").Annotations[workv1alpha1.AppliedClusterOverridesAnnotation] == "" {
		t.Error("the override did not take effect, or is not recorded")
	}
	if _, ok := manifestOf(t, h.work("member2")).GetLabels()["where"]; ok {
		t.Error("the override took effect in the wrong cluster")
	}
}
