package attacks_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// dumpedKinds are what `kubectl get` would save of a control plane, the credentials of its clusters apart: those come with
// joining.
var dumpedKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	policyv1alpha1.SchemeGroupVersion.WithKind("PropagationPolicy"),
	workv1alpha2.GroupVersion.WithKind("ResourceBinding"), workv1alpha1.GroupVersion.WithKind("Work"),
}

// dump reads all objects of a control plane as a backup tool does: without what a server sets anew.
func dump(t *testing.T, c *fleettest.Cluster) map[string][]*unstructured.Unstructured {
	t.Helper()
	all := map[string][]*unstructured.Unstructured{}
	for _, kind := range dumpedKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			space := obj.GetNamespace()
			if kind.Kind == "Namespace" {
				space = obj.GetName()
			}
			if space != "shop" && !strings.HasPrefix(space, "karmada-es-") {
				continue
			}
			for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
				unstructured.RemoveNestedField(obj.Object, "metadata", field)
			}
			all[kind.Kind] = append(all[kind.Kind], obj)
		}
	}
	return all
}

// TestARestoreInAnyOrderDeletesNothing: objects of a control plane are put back one by one into a new one. Works before
// their bindings, and bindings before their templates, were deleted within a second, with the objects in the members. It takes 35 s beside other
// tests, for its control planes and a member.
func TestARestoreInAnyOrderDeletesNothing(t *testing.T) {
	t.Parallel()
	member := fleettest.StartMember(t, "m1")
	old := fleettest.StartHub(t)
	old.Join(t, "m1", member.Kubeconfig)
	conf, secret := fleettest.ConfigMap("shop", "conf", map[string]string{"k": "1"}), fleettest.Secret("shop", "key", map[string]string{"k": "v"})
	web := fleettest.Deployment("shop", "web", 1)
	web.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}}}
	policy := fleettest.Policy("shop", "p", policyv1alpha1.Placement{}, conf, web)
	policy.Spec.PropagateDeps = true
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	// Not fleettest.Create, which deletes them in the end: the control plane is killed before that.
	for _, object := range []client.Object{space, secret, conf, web, policy} {
		if err := old.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	all := guard(t, member.Cluster, conf, secret, web, space)
	fleettest.ExpectEventually(t, old.Cluster, bindingOf("shop", "Secret", "key"), func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.RequiredBy) == 0 || len(b.Status.AggregatedStatus) == 0 {
			return errors.New("it is not attached yet")
		}
		return nil
	})
	saved := dump(t, old.Cluster)
	old.Kill()

	for name, order := range map[string][]string{
		"WorksFirst":    {"Work", "ResourceBinding", "PropagationPolicy", "Deployment", "ConfigMap", "Secret"},
		"BindingsFirst": {"ResourceBinding", "Work", "Secret", "Deployment", "ConfigMap", "PropagationPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := fleettest.StartHub(t)
			// The member's objects are those of the control plane that is gone.
			if r := fleettest.Flagship(t, "join", "m1", "--share", "--kubeconfig", hub.Kubeconfig, "--cluster-kubeconfig", member.Kubeconfig); r.Code != 0 {
				t.Fatalf("joining m1: %s%s", r.Stdout, r.Stderr)
			}
			probe := probeOf(t, hub, strings.ToLower(name))
			for _, kind := range append([]string{"Namespace"}, order...) {
				putBack(t, hub.Cluster, saved[kind])
				if kind == "Namespace" {
					continue
				}
				probe(t, member) // time for what would be deleted because the rest is missing
				expectUntouched(t, "the restore of "+kind, all...)
			}
			bound := fleettest.ExpectEventually(t, hub.Cluster, bindingOf("shop", "ConfigMap", "conf"), ownedByTemplate)
			fleettest.ExpectEventually(t, hub.Cluster, bindingOf("shop", "Secret", "key"), ownedByTemplate)
			if len(bound.OwnerReferences) != 1 {
				t.Errorf("owners are %v", bound.OwnerReferences)
			}
			probe(t, member)
			expectUntouched(t, "the whole restore", all...)
			hub.Kill()
		})
	}
}

func ownedByTemplate(b *workv1alpha2.ResourceBinding) error {
	if !slices.ContainsFunc(b.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == b.Spec.Resource.UID }) {
		return errors.New("no template owns it yet")
	}
	return nil
}

// putBack creates objects as a user who is not the control plane.
func putBack(t *testing.T, c *fleettest.Cluster, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range objects {
		copied := obj.DeepCopy()
		err := c.Create(t.Context(), copied)
		if err != nil && !isThere(err) {
			t.Fatalf("restoring %s %s/%s: %v", obj.GetKind(), obj.GetNamespace(), obj.GetName(), err)
		}
	}
}

func isThere(err error) bool { return strings.Contains(err.Error(), "already exists") }

// probeOf returns a function that has a new object go to the member and come back: what was under way before is done then.
func probeOf(t *testing.T, hub *fleettest.Part, prefix string) func(*testing.T, *fleettest.Part) {
	t.Helper()
	ns := "probe-" + prefix
	// Not fleettest.Create, which deletes it in the end: the control plane is killed before that.
	if err := hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		t.Fatal(err)
	}
	n := 0
	return func(t *testing.T, member *fleettest.Part) {
		t.Helper()
		n++
		cm := fleettest.ConfigMap(ns, fmt.Sprintf("probe-%d", n), nil)
		policy := fleettest.Policy(ns, cm.Name, policyv1alpha1.Placement{}, cm)
		for _, o := range []client.Object{cm, policy} {
			if err := hub.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		fleettest.ExpectEventually(t, member.Cluster, cm, fleettest.Exists)
		if err := hub.Delete(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		fleettest.ExpectGone(t, member.Cluster, cm)
	}
}

// TestAnOrphanedWorkWaits: a Work whose binding is missing stays until a person deletes it, and says so.
func TestAnOrphanedWorkWaits(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	work := workOf("member1", "ConfigMap", ns, "lost")
	work.Annotations = map[string]string{
		workv1alpha2.ResourceBindingNamespaceAnnotation: ns, workv1alpha2.ResourceBindingNameAnnotation: "lost-configmap",
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{}}
	work.Spec.Workload.Manifests[0].Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"lost"}}`, ns)
	fleettest.Create(t, fleet.Hub, work)
	lost := fleettest.ConfigMap(ns, "lost", nil)
	all := guard(t, fleet.Members[0], lost)
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, work.Namespace, func(list *corev1.EventList) error {
		for _, e := range list.Items {
			if e.Reason == "WorkOrphaned" && e.InvolvedObject.Name == work.Name {
				return nil
			}
		}
		return errors.New("no event says that the Work has no binding")
	})
	expectUntouched(t, "the Work was orphaned", all...)
	fleettest.Delete(t, fleet.Hub, work)
	fleettest.ExpectGone(t, fleet.Hub, work)
	fleettest.ExpectGone(t, fleet.Members[0], lost)
}
