package services_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// worksFor lists the Works of a Service's MultiClusterService in a member's execution namespace.
func worksFor(t *testing.T, fleet *fleettest.Fleet, member string, service *corev1.Service) (records, dispatched []workv1alpha1.Work) {
	t.Helper()
	var list workv1alpha1.WorkList
	if err := fleet.Hub.List(t.Context(), &list, client.InNamespace("karmada-es-"+member), client.MatchingLabels{
		networkingv1alpha1.MultiClusterServiceNamespaceLabel: service.Namespace, networkingv1alpha1.MultiClusterServiceNameLabel: service.Name,
	}); err != nil {
		t.Fatalf("listing Works of %s: %v", member, err)
	}
	for _, w := range list.Items {
		if networkingv1alpha1.IsRecord(&w) {
			records = append(records, w)
		} else {
			dispatched = append(dispatched, w)
		}
	}
	return records, dispatched
}

// TestEditedWorksArePutRight: whatever a user makes of Works, binding and claim is taken back at once, and no consumer loses
// endpoints over it.
func TestEditedWorksArePutRight(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 2})
	mcs := crossCluster(ns, "web", []string{"member1"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, mcs)
	one := ownAddresses(t, m1, service, 2)
	expectImported(t, m3, service, has(one))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.EndpointSliceDispatched, metav1.ConditionTrue, ""))

	_, dispatched := worksFor(t, fleet, "member3", service)
	records, _ := worksFor(t, fleet, "member1", service)
	if len(dispatched) != 1 || len(records) != 2 {
		t.Fatalf("%d Works in the consumer, %d records in the provider; want 1 and 2", len(dispatched), len(records))
	}
	for _, work := range append(records, dispatched...) {
		for what, text := range map[string]string{
			"manifests": `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","namespace":"default"}}]}}}`,
			"labels":    `{"metadata":{"labels":{"multiclusterservice.karmada.io/name":null,"multiclusterservice.karmada.io/namespace":null}}}`,
			"suspended": fmt.Sprintf(`{"spec":{"suspendDispatching":%t}}`, !networkingv1alpha1.IsRecord(&work)),
			"origin":    `{"metadata":{"annotations":{"endpointslice.karmada.io/provision-cluster":null}}}`,
		} {
			t.Run(fmt.Sprintf("%s of %s in %s", what, work.Name, work.Namespace), func(t *testing.T) {
				spoilt := work.DeepCopy()
				patch(t, fleet.Hub, spoilt, text)
				fleettest.ExpectEventually(t, fleet.Hub, spoilt, func(w *workv1alpha1.Work) error { return sameWork(w, &work) })
			})
		}
	}
	expectImported(t, m3, service, has(one))
	// An agent may have read a Work before it was put right: it removes what is in the Work no more.
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}})
	}

	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName("Service", "web")}}
	patch(t, fleet.Hub, binding, `{"spec":{"placement":{"clusterAffinity":{"clusterNames":["member2"]}},"conflictResolution":"Abort"}}`)
	fleettest.ExpectEventually(t, fleet.Hub, binding, func(b *workv1alpha2.ResourceBinding) error {
		if names := b.Spec.Placement.ClusterAffinity.ClusterNames; !slices.Equal(names, []string{"member1", "member3"}) || b.Spec.ConflictResolution != policyv1alpha1.ConflictOverwrite {
			return fmt.Errorf("clusters are %v, conflicts are solved by %s", names, b.Spec.ConflictResolution)
		}
		return nil
	})
	patch(t, fleet.Hub, service, `{"metadata":{"labels":{"resourcetemplate.karmada.io/claimed-by":null,"multiclusterservice.karmada.io/permanent-id":null}}}`)
	fleettest.ExpectEventually(t, fleet.Hub, service, func(s *corev1.Service) error {
		if s.Labels[policyv1alpha1.ResourceTemplateClaimedByLabel] != "MultiClusterService" || s.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel] == "" {
			return fmt.Errorf("labels are %v", s.Labels)
		}
		return nil
	})
	expectImported(t, m3, service, has(one))
}

// sameWork compares what a Work is for, not what became of it.
func sameWork(got, want *workv1alpha1.Work) error {
	for key, value := range want.Labels {
		if got.Labels[key] != value {
			return fmt.Errorf("labels are %v, want %v", got.Labels, want.Labels)
		}
	}
	if !maps.Equal(got.Annotations, want.Annotations) {
		return fmt.Errorf("annotations are %v, want %v", got.Annotations, want.Annotations)
	}
	if suspended(got) != suspended(want) {
		return fmt.Errorf("suspended is %t", suspended(got))
	}
	if len(got.Spec.Workload.Manifests) != 1 || len(got.Spec.Workload.Manifests[0].Raw) != len(want.Spec.Workload.Manifests[0].Raw) {
		return fmt.Errorf("manifests are %s, want %s", got.Spec.Workload.Manifests, want.Spec.Workload.Manifests)
	}
	return nil
}

func suspended(w *workv1alpha1.Work) bool {
	return w.Spec.SuspendDispatching != nil && *w.Spec.SuspendDispatching
}

// TestEditedSlicesArePutRight: an edit of a slice in a consumer is reverted, and a slice of the user's own
// that has the same name is never overwritten, but reported.
func TestEditedSlicesArePutRight(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	service := fleettest.Service(ns, "outside")
	service.Spec.Selector = nil
	mcs := crossCluster(ns, "outside", []string{"member1"}, []string{"member2", "member3"})
	fleettest.Create(t, fleet.Hub, service, mcs)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, service, fleettest.Exists)
	}
	mine := handmade(service, "member1-by-hand", discoveryv1.AddressTypeIPv4, "203.0.113.1")
	fleettest.Create(t, m2, mine)
	fleettest.Create(t, m1, handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	expectImported(t, m3, service, has([]string{"192.0.2.1"}))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.EndpointSliceDispatched, metav1.ConditionFalse, "endpoints of cluster member1 in cluster member2"))
	if imported, own := slicesIn(t, m2, service); len(imported) > 0 || !slices.Equal(addresses(own), []string{"203.0.113.1"}) {
		t.Errorf("the user's slice was overwritten: own %v, imported %v", own, imported)
	}
	fleettest.Delete(t, m2, mine)
	expectImported(t, m2, service, has([]string{"192.0.2.1"}))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.EndpointSliceDispatched, metav1.ConditionTrue, ""))

	imported, _ := slicesIn(t, m3, service)
	patch(t, m3, &imported[0], `{"endpoints":[{"addresses":["198.51.100.1"]}]}`)
	expectImported(t, m3, service, has([]string{"192.0.2.1"}))
	fleettest.Delete(t, m3, &imported[0])
	expectSlices(t, m3, service, func(again, _ []discoveryv1.EndpointSlice) error {
		if len(again) != 1 || again[0].UID == imported[0].UID {
			return fmt.Errorf("slices are %v", again)
		}
		return has([]string{"192.0.2.1"})(again)
	})
}
