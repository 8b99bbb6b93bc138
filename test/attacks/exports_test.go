package attacks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// exporting is what the owner of a member makes to export a Service: the Service, a slice of it, and the export.
func exporting(ns, name, address string) (*corev1.Service, *discoveryv1.EndpointSlice, *multiclusterv1beta1.ServiceExport) {
	service := fleettest.Service(ns, name)
	service.Spec.Selector = nil
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: ns, Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
	return service, slice, exportOf(ns, name)
}

func exportOf(ns, name string) *multiclusterv1beta1.ServiceExport {
	return &multiclusterv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func importOf(ns, name string) *multiclusterv1beta1.ServiceImport {
	return &multiclusterv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

// expectExportsServed waits until members have the definitions and a namespace.
func expectExportsServed(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	for _, m := range fleet.Members {
		for _, resource := range []string{multiclusterv1beta1.ResourcePluralServiceExport, multiclusterv1beta1.ResourcePluralServiceImport} {
			definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: resource + "." + multiclusterv1beta1.GroupName}}
			fleettest.ExpectEventually(t, m, definition, func(d *apiextensionsv1.CustomResourceDefinition) error {
				for _, c := range d.Status.Conditions {
					if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
						return nil
					}
				}
				return fmt.Errorf("it is not established: %+v", d.Status.Conditions)
			})
		}
		fleettest.ExpectEventually(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	}
}

// exportRefused is the condition of an export that is taken to no cluster.
func exportRefused(why string) func(*multiclusterv1beta1.ServiceExport) error {
	return func(e *multiclusterv1beta1.ServiceExport) error {
		ready := meta.FindStatusCondition(e.Status.Conditions, multiclusterv1beta1.ExportReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != multiclusterv1beta1.ExportReasonRefused || !strings.Contains(ready.Message, why) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	}
}

// exportedBy is the condition of an import from these clusters.
func exportedBy(clusters ...string) func(*multiclusterv1beta1.ServiceImport) error {
	return func(i *multiclusterv1beta1.ServiceImport) error {
		var got []string
		for _, c := range i.Status.Clusters {
			got = append(got, c.Cluster)
		}
		if fmt.Sprint(got) != fmt.Sprint(clusters) {
			return fmt.Errorf("it is exported by %v, want %v", got, clusters)
		}
		return nil
	}
}

// TestAMemberExportsNothingOfNamespacesThatBelongToClusters: the owner of member1 had Services in kube-system of all members.
func TestAMemberExportsNothingOfNamespacesThatBelongToClusters(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	first, second := fleet.Member("member1"), fleet.Member("member2")
	expectExportsServed(t, fleet, ns)
	for _, of := range [][2]string{{"kube-system", "kube-dns2"}, {"kube-public", "info"}, {"karmada-cluster", "web"}, {"default", "kubernetes"}} {
		service, slice, export := exporting(of[0], of[1], "203.0.113.66")
		if of[1] != "kubernetes" { // it has that one
			fleettest.Create(t, first, service, slice)
		}
		fleettest.Create(t, first, export)
		fleettest.ExpectEventually(t, first, export, exportRefused("belongs to its cluster"))
	}
	// What is exported afterwards has arrived, so that the others would be there.
	service, slice, export := exporting(ns, "web", "203.0.113.67")
	fleettest.Create(t, first, service, slice, export)
	fleettest.ExpectEventually(t, second, importOf(ns, "web"), exportedBy("member1"))
	for _, of := range [][2]string{{"kube-system", "kube-dns2"}, {"kube-public", "info"}, {"karmada-cluster", "web"}, {"default", "kubernetes"}} {
		derived := fleettest.Service(of[0], networkingv1alpha1.DerivedServiceName(of[1]))
		for _, c := range []*fleettest.Cluster{second, first, fleet.Hub} {
			fleettest.ExpectAbsent(t, c, derived)
		}
		fleettest.ExpectAbsent(t, second, importOf(of[0], of[1]))
	}
	var works workv1alpha1.WorkList
	if err := fleet.Hub.List(t.Context(), &works); err != nil {
		t.Fatal(err)
	}
	for _, w := range works.Items {
		if workv1alpha1.ReservedNamespace(w.Labels[multiclusterv1beta1.ExportNamespaceLabel]) {
			t.Errorf("Work %s/%s is about an export of %s", w.Namespace, w.Name, w.Labels[multiclusterv1beta1.ExportNamespaceLabel])
		}
	}

	mcs := &networkingv1alpha1.MultiClusterService{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-dns2"}}
	mcs.Spec.Types = []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeCrossCluster}
	if err := fleet.Hub.Create(t.Context(), mcs); err == nil || !strings.Contains(err.Error(), "belongs to its cluster") {
		t.Errorf("a MultiClusterService in kube-system: %v", err)
	}
}

// TestWhoExportsIsDecidedOnTheControlPlane: by the annotations of Namespaces and Clusters, which a member cannot write. A refused export
// changes nothing for the others.
func TestWhoExportsIsDecidedOnTheControlPlane(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	first, second := fleet.Member("member1"), fleet.Member("member2")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	restrict := func(to string) {
		fleettest.Update(t, fleet.Hub, namespace, func(n *corev1.Namespace) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, clusterv1alpha1.ExportersAnnotation, to)
		})
	}
	restrict("member2")
	expectExportsServed(t, fleet, ns)
	for m, address := range map[*fleettest.Cluster]string{first: "203.0.113.66", second: "10.1.0.2"} {
		service, slice, export := exporting(ns, "web", address)
		fleettest.Create(t, m, service, slice, export)
	}
	imported := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "imported-member1-web-1"}}
	fleettest.ExpectEventually(t, first, exportOf(ns, "web"), exportRefused(clusterv1alpha1.ExportersAnnotation))
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, importOf(ns, "web"), exportedBy("member2"))
		fleettest.ExpectAbsent(t, m, imported)
	}
	restrict("member1, member2")
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, importOf(ns, "web"), exportedBy("member1", "member2"))
		fleettest.ExpectEventually(t, m, imported, fleettest.Exists)
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}
	defer fleettest.Update(t, fleet.Hub, cluster, func(c *clusterv1alpha1.Cluster) { delete(c.Annotations, clusterv1alpha1.ExportLimitAnnotation) })
	fleettest.Update(t, fleet.Hub, cluster, func(c *clusterv1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1alpha1.ExportLimitAnnotation, "0")
	})
	fleettest.ExpectEventually(t, first, exportOf(ns, "web"), exportRefused("may export no more"))
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, importOf(ns, "web"), exportedBy("member2"))
		fleettest.ExpectGone(t, m, imported)
	}
}

// TestAnOlderExportDoesNotTakeAService: the export of member1 says that it is older, as one of a member whose clock is off does. The service
// stays as the control plane recorded it first.
func TestAnOlderExportDoesNotTakeAService(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	first, second := fleet.Member("member1"), fleet.Member("member2")
	expectExportsServed(t, fleet, ns)
	older, _, olderExport := exporting(ns, "web", "203.0.113.66")
	fleettest.Create(t, first, olderExport) // without a Service it is not recorded
	service, slice, export := exporting(ns, "web", "10.1.0.2")
	fleettest.Create(t, second, service, slice, export)
	fleettest.ExpectEventually(t, second, importOf(ns, "web"), exportedBy("member2"))
	record := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-member2", Name: multiclusterv1beta1.ExportRecordName(ns, "web")}}
	record = fleettest.ExpectEventually(t, fleet.Hub, record, fleettest.Exists)
	fleettest.Eventually(t, "the second is over in which the record was made", func() bool {
		return time.Now().Truncate(time.Second).After(record.CreationTimestamp.Time)
	})
	older.Spec.ClusterIP = corev1.ClusterIPNone
	older.Spec.Ports[0].Port = 8080
	fleettest.Create(t, first, older)
	want := fleettest.ExpectEventually(t, second, importOf(ns, "web"), exportedBy("member1", "member2")).Spec
	if want.Type != multiclusterv1beta1.ClusterSetIP || len(want.Ports) != 1 || want.Ports[0].Port != service.Spec.Ports[0].Port {
		t.Errorf("the import is %+v", want)
	}
	fleettest.ExpectEventually(t, first, olderExport, func(e *multiclusterv1beta1.ServiceExport) error {
		if conflict := meta.FindStatusCondition(e.Status.Conditions, multiclusterv1beta1.ExportConflict); conflict == nil || !strings.Contains(conflict.Message, "in cluster member2") {
			return fmt.Errorf("it says %+v", conflict)
		}
		return nil
	})
}
