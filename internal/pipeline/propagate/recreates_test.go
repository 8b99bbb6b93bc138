package propagate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

func TestRestoredBindingMeetsItsTemplate(t *testing.T) {
	h := newHub(t, pp("p"))
	ref := h.deployment("web")
	h.reconcile(ref)
	b := h.binding(ref)
	h.update(b, func() { b.SetOwnerReferences(nil) }) // as admission does with one that is put back
	obj := h.templates.objects[ref].DeepCopy()
	delete(h.templates.objects, ref)
	h.writes = nil
	h.reconcile(ref)
	h.expectWrites("its template is not there yet")
	obj.SetUID("second")
	h.templates.put(ref, obj)
	h.reconcile(ref)
	h.expectWrites("now it is", "patch ResourceBinding web-deployment")
	if owners := h.binding(ref).GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "second" {
		t.Errorf("owners are %v, want the template", owners)
	}
}

func TestATemplateWhoseDeletionWasReportedIsNotRead(t *testing.T) {
	h := newHub(t, pp("p"))
	ref := h.deployment("web")
	h.reconcile(ref)
	b := h.binding(ref)
	delete(h.templates.objects, ref)
	for reads, reported := range map[int]bool{1: false, 0: true} {
		if reported {
			h.templates.deleted = b.BindingSpec().Resource.UID
		} else {
			h.templates.deleted = ""
		}
		h.templates.reads = 0
		wanted, err := Recreates(h.client, h.templates, nil)(t.Context(), b)
		if err != nil || wanted || h.templates.reads != reads {
			t.Errorf("reported %v: wanted %v, %v, after %d reads, want %d", reported, wanted, err, h.templates.reads, reads)
		}
	}
}

func TestDeletedBindingIsCreatedAgainAsItWas(t *testing.T) {
	for reason, lazy := range map[string]bool{"eager": false, "lazy": true} {
		t.Run(reason, func(t *testing.T) {
			h := newHub(t, pp("p", with(func(s *policyv1alpha1.PropagationSpec) {
				if lazy {
					s.ActivationPreference = policyv1alpha1.LazyActivation
				}
			})))
			ref := h.deployment("web")
			h.object(hubstore.NamespaceRef("shop"), nil, 1)
			h.reconcile(ref)
			b := h.binding(ref).(*workv1alpha2.ResourceBinding)
			h.update(b, func() {
				b.Finalizers = nil
				b.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] = "its-id"
				b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 2}}
			})
			wanted, err := Recreates(h.client, h.templates, nil)(t.Context(), b)
			if err != nil || !wanted {
				t.Fatalf("the binding is wanted: %v, %v, want true", wanted, err)
			}
			if err := h.client.Delete(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			onBinding[*workv1alpha2.ResourceBinding](h.loop).Delete(t.Context(), ctrlevent.TypedDeleteEvent[*workv1alpha2.ResourceBinding]{Object: b}, h.queue)
			h.writes = nil
			h.reconcile(ref)
			h.expectWrites("it comes back", "create ResourceBinding web-deployment")
			again := h.binding(ref)
			if diff := cmp.Diff(b.Spec.Clusters, again.BindingSpec().Clusters); diff != "" {
				t.Errorf("targets (-before +after):\n%s", diff)
			}
			if id := again.GetLabels()[again.PermanentIDLabel()]; id != "its-id" {
				t.Errorf("its permanent id is %q, want the one it had", id)
			}
		})
	}
}

func TestBindingsThatAreNotWanted(t *testing.T) {
	cases := map[string]func(*fakeHub, hubstore.Ref, *workv1alpha2.ResourceBinding){
		"the template is gone": func(h *fakeHub, ref hubstore.Ref, _ *workv1alpha2.ResourceBinding) { delete(h.templates.objects, ref) },
		"the template is gone, and the cache still has it": func(h *fakeHub, ref hubstore.Ref, _ *workv1alpha2.ResourceBinding) {
			h.templates.behind = map[hubstore.Ref]*unstructured.Unstructured{ref: h.templates.objects[ref]}
			delete(h.templates.objects, ref)
		},
		"the template is another one": func(_ *fakeHub, _ hubstore.Ref, b *workv1alpha2.ResourceBinding) { b.Spec.Resource.UID = "earlier" },
		"no policy has the template": func(h *fakeHub, ref hubstore.Ref, _ *workv1alpha2.ResourceBinding) {
			h.templates.objects[ref].SetLabels(nil)
		},
		"it was made by hand": func(_ *fakeHub, _ hubstore.Ref, b *workv1alpha2.ResourceBinding) { b.Name = "mine" },
		"its namespace is not there": func(h *fakeHub, _ hubstore.Ref, _ *workv1alpha2.ResourceBinding) {
			delete(h.templates.objects, hubstore.NamespaceRef("shop"))
		},
		"its namespace is going": func(h *fakeHub, _ hubstore.Ref, _ *workv1alpha2.ResourceBinding) {
			now := metav1.NewTime(start)
			h.templates.objects[hubstore.NamespaceRef("shop")].SetDeletionTimestamp(&now)
		},
	}
	for reason, change := range cases {
		t.Run(reason, func(t *testing.T) {
			h := newHub(t, pp("p"))
			ref := h.deployment("web")
			h.object(hubstore.NamespaceRef("shop"), nil, 1)
			h.reconcile(ref)
			b := h.binding(ref).(*workv1alpha2.ResourceBinding)
			change(h, ref, b)
			if wanted, err := Recreates(h.client, h.templates, nil)(t.Context(), b); err != nil || wanted {
				t.Errorf("the binding is wanted: %v, %v, want false", wanted, err)
			}
		})
	}
}
