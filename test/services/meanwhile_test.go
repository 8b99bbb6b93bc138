package services_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// exportSpace is a namespace in which both members can export.
func (a apart) exportSpace(t *testing.T, name string) string {
	t.Helper()
	ns := a.space(t, name)
	for _, m := range []*fleettest.Part{a.east, a.west} {
		fleettest.ExpectEventually(t, m.Cluster, definitionOf(multiclusterv1beta1.ResourcePluralServiceExport), established)
		fleettest.ExpectEventually(t, m.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	}
	return ns
}

// exported is a Service without a selector in east, with its export and a slice, that west has got.
func (a apart) exported(t *testing.T, ns, name string) (*corev1.Service, *multiclusterv1beta1.ServiceExport) {
	t.Helper()
	service := fleettest.Service(ns, name)
	service.Spec.Selector = nil
	export := exportIn(t, a.east.Cluster, service)
	fleettest.Create(t, a.east.Cluster, handmade(service, name, discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	expectImport(t, a.west.Cluster, service, usable("east"))
	expectImportedEndpoints(t, a.west.Cluster, service, []string{"192.0.2.1"})
	return service, export
}

// watches: namespaces of a member are watched while they have exports, or a Service without a selector is shared from them,
// and no longer.
func (a apart) watches(t *testing.T) {
	ns := a.exportSpace(t, "watched")
	fleettest.ExpectWatches(t, a.east.Cluster, "services", 0)
	_, one := a.exported(t, ns, "one")
	_, two := a.exported(t, ns, "two")
	fleettest.ExpectWatches(t, a.east.Cluster, "services", 1)
	fleettest.Delete(t, a.east.Cluster, one)
	fleettest.ExpectGone(t, a.west.Cluster, &multiclusterv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "one"}})
	fleettest.ExpectWatches(t, a.east.Cluster, "services", 1)
	fleettest.Delete(t, a.east.Cluster, two)
	fleettest.ExpectWatches(t, a.east.Cluster, "services", 0)
	_, again := a.exported(t, ns, "again")
	fleettest.ExpectWatches(t, a.east.Cluster, "services", 1)
	fleettest.Delete(t, a.east.Cluster, again)
	fleettest.ExpectWatches(t, a.east.Cluster, "services", 0)
}

// meanwhile: what changes in members while the control plane is down, and what users changed right before, is as if it had
// been there all the time.
func (a apart) meanwhile(t *testing.T) {
	ns := a.exportSpace(t, "meanwhile")
	gone, export := a.exported(t, ns, "gone")
	grown, _ := a.exported(t, ns, "grown")
	lost, orphaned := a.exported(t, ns, "lost")
	service, _ := a.outside(t, ns, "changed")
	slice := handmade(service, "changed-a", discoveryv1.AddressTypeIPv4, "192.0.2.1")
	taken, mcs := a.outside(t, ns, "taken")
	narrowed, narrow := a.outside(t, ns, "narrowed")
	fleettest.Create(t, a.east.Cluster, slice, handmade(taken, "taken-a", discoveryv1.AddressTypeIPv4, "192.0.2.1"),
		handmade(narrowed, "narrowed-a", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	for _, s := range []*corev1.Service{service, taken, narrowed} {
		expectImported(t, a.west.Cluster, s, has([]string{"192.0.2.1"}))
	}

	patch(t, a.hub.Cluster, narrow, `{"spec":{"consumerClusters":[{"name":"east"}]}}`)
	fleettest.Delete(t, a.hub.Cluster, mcs)
	a.hub.Kill()
	fleettest.Delete(t, a.east.Cluster, export, lost, slice)
	fleettest.Create(t, a.east.Cluster, handmade(service, "changed-b", discoveryv1.AddressTypeIPv4, "192.0.2.9"),
		handmade(grown, "grown-b", discoveryv1.AddressTypeIPv4, "192.0.2.9"))
	a.hub.Start(t)

	expectImported(t, a.west.Cluster, service, has([]string{"192.0.2.9"}))
	expectImportedEndpoints(t, a.west.Cluster, grown, []string{"192.0.2.1", "192.0.2.9"})
	for _, s := range []*corev1.Service{gone, lost} {
		for _, m := range []*fleettest.Part{a.east, a.west} {
			expectImportedEndpoints(t, m.Cluster, s, nil)
			fleettest.ExpectGone(t, m.Cluster, importOf(s))
			fleettest.ExpectGone(t, m.Cluster, derived(s))
		}
		fleettest.ExpectGone(t, a.hub.Cluster, importOf(s))
	}
	fleettest.ExpectEventually(t, a.east.Cluster, orphaned, exportCondition(multiclusterv1beta1.ExportValid, isFalse, "NoService"))
	for _, s := range []*corev1.Service{taken, narrowed} {
		expectImported(t, a.west.Cluster, s, has(nil))
		fleettest.ExpectGone(t, a.west.Cluster, s)
	}
	fleettest.ExpectGone(t, a.east.Cluster, taken)
	fleettest.ExpectGone(t, a.hub.Cluster, mcs)
	fleettest.ExpectEventually(t, a.hub.Cluster, taken, func(s *corev1.Service) error {
		if s.Labels[policyv1alpha1.ResourceTemplateClaimedByLabel] != "" {
			return fmt.Errorf("it is still claimed: %v", s.Labels)
		}
		return nil
	})
	fleettest.ExpectListed(t, a.hub.Cluster, &workList{}, "", func(list *workList) error {
		for _, w := range list.Items {
			about := w.Labels[networkingv1alpha1.MultiClusterServiceNameLabel] + w.Labels[multiclusterv1beta1.ExportNameLabel]
			if about == taken.Name || about == gone.Name || about == lost.Name {
				return fmt.Errorf("Work %s/%s about %s is left", w.Namespace, w.Name, about)
			}
		}
		return nil
	})
}
