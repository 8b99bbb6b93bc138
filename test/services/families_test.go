package services_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestMembersOfOneFamily: where a member has one family, a Service that prefers two has that one, and what such a member
// cannot serve is said of it, while the others are served. It makes no difference which family it is. It takes 40 s beside other tests, for a
// fleet of its own.
func TestMembersOfOneFamily(t *testing.T) {
	hub := fleettest.StartHub(t)
	four := fleettest.StartMember(t, "four", "--bare", "--service-cidr=10.143.0.0/16")
	both := fleettest.StartMember(t, "both", "--bare", "--service-cidr=10.144.0.0/16,fd00:144::/112")
	six := fleettest.StartMember(t, "six", "--bare", "--service-cidr=fd00:145::/112")
	hub.Join(t, "four", four.Kubeconfig)
	hub.Join(t, "six", six.Kubeconfig)
	hub.Join(t, "both", both.Kubeconfig)
	const ns = "default"
	service := func(name string, policy corev1.IPFamilyPolicy) *corev1.Service {
		s := fleettest.Service(ns, name)
		s.Spec.Selector, s.Spec.IPFamilyPolicy = nil, &policy
		fleettest.Create(t, hub.Cluster, s, crossCluster(ns, name, []string{"both"}, []string{"four"}))
		fleettest.ExpectEventually(t, both.Cluster, s, fleettest.Exists)
		fleettest.Create(t, both.Cluster, handmade(s, name+"-4", discoveryv1.AddressTypeIPv4, "192.0.2.1"), handmade(s, name+"-6", discoveryv1.AddressTypeIPv6, "2001:db8::1"))
		return s
	}

	prefers := service("prefers", corev1.IPFamilyPolicyPreferDualStack)
	expectImported(t, four.Cluster, prefers, has([]string{"192.0.2.1", "2001:db8::1"}))
	for c, want := range map[*fleettest.Part]int{four: 1, both: 2} {
		fleettest.ExpectEventually(t, c.Cluster, prefers, func(s *corev1.Service) error {
			if len(s.Spec.ClusterIPs) != want || !slices.Contains(s.Spec.IPFamilies, corev1.IPv4Protocol) {
				return fmt.Errorf("addresses are %v of %v, want %d", s.Spec.ClusterIPs, s.Spec.IPFamilies, want)
			}
			return nil
		})
	}

	requires := service("requires", corev1.IPFamilyPolicyRequireDualStack)
	fleettest.ExpectEventually(t, hub.Cluster, crossCluster(ns, "requires", nil, nil),
		conditionIs(applied, isFalse, "this cluster is not configured for dual-stack services"))
	fleettest.ExpectEventually(t, both.Cluster, requires, func(s *corev1.Service) error {
		if len(s.Spec.ClusterIPs) != 2 {
			return fmt.Errorf("addresses are %v", s.Spec.ClusterIPs)
		}
		return nil
	})
	fleettest.ExpectAbsent(t, four.Cluster, requires)

	a := ofOneFamily{hub: hub, four: four, six: six, both: both}
	t.Run("a member of IPv6 alone provides", a.provides)
	t.Run("and exports", a.exports)
}

// ofOneFamily are members that have IPv4 alone, IPv6 alone, and both.
type ofOneFamily struct{ hub, four, six, both *fleettest.Part }

// provides: a Service that says nothing about families is of IPv6 in the member that has no other, and its endpoints reach
// members of either family; one of IPv6 is refused by the member of IPv4 alone.
func (a ofOneFamily) provides(t *testing.T) {
	share := func(name string, families ...corev1.IPFamily) *corev1.Service {
		s := fleettest.Service("default", name)
		s.Spec.Selector, s.Spec.IPFamilies = nil, families
		fleettest.Create(t, a.hub.Cluster, s, crossCluster("default", name, []string{"six"}, nil))
		fleettest.ExpectEventually(t, a.six.Cluster, s, func(s *corev1.Service) error { return ofFamilies(s, corev1.IPv6Protocol) })
		fleettest.Create(t, a.six.Cluster, handmade(s, name+"-6", discoveryv1.AddressTypeIPv6, "2001:db8::6"))
		expectImported(t, a.both.Cluster, s, has([]string{"2001:db8::6"}))
		return s
	}
	plain := share("plain")
	expectImported(t, a.four.Cluster, plain, has([]string{"2001:db8::6"}))
	for _, c := range []*fleettest.Part{a.four, a.both} {
		fleettest.ExpectEventually(t, c.Cluster, plain, func(s *corev1.Service) error { return ofFamilies(s, corev1.IPv4Protocol) })
	}
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, a.hub.Cluster, crossCluster("default", "plain", nil, nil), conditionIs(condition, isTrue, "six"))
	}

	demands := share("demands", corev1.IPv6Protocol)
	fleettest.ExpectEventually(t, a.both.Cluster, demands, func(s *corev1.Service) error { return ofFamilies(s, corev1.IPv6Protocol) })
	fleettest.ExpectEventually(t, a.hub.Cluster, crossCluster("default", "demands", nil, nil), conditionIs(applied, isFalse, "cluster four: "))
	fleettest.ExpectAbsent(t, a.four.Cluster, demands)
}

func ofFamilies(s *corev1.Service, want ...corev1.IPFamily) error {
	if !slices.Equal(s.Spec.IPFamilies, want) || len(s.Spec.ClusterIPs) != len(want) {
		return fmt.Errorf("addresses are %v of %v, want those of %v", s.Spec.ClusterIPs, s.Spec.IPFamilies, want)
	}
	return nil
}

// exports: an import of IPv6 has an address of it where there is one, and reports where there is none.
func (a ofOneFamily) exports(t *testing.T) {
	service := fleettest.Service("default", "exported")
	service.Spec.Selector = nil
	for _, c := range []*fleettest.Part{a.four, a.six, a.both} {
		fleettest.ExpectEventually(t, c.Cluster, definitionOf(multiclusterv1beta1.ResourcePluralServiceExport), established)
	}
	exportIn(t, a.six.Cluster, service)
	fleettest.Create(t, a.six.Cluster, handmade(service, "exported-6", discoveryv1.AddressTypeIPv6, "2001:db8::6"))
	for _, c := range []*fleettest.Part{a.six, a.both} {
		expectImport(t, c.Cluster, service, func(i *multiclusterv1beta1.ServiceImport) error {
			if len(i.Spec.IPs) == 1 && !strings.Contains(i.Spec.IPs[0], ":") {
				return fmt.Errorf("addresses are %v", i.Spec.IPs)
			}
			return usable("six")(i)
		})
		expectImportedEndpoints(t, c.Cluster, service, []string{"2001:db8::6"})
	}
	expectImport(t, a.four.Cluster, service, func(i *multiclusterv1beta1.ServiceImport) error {
		ready := meta.FindStatusCondition(i.Status.Conditions, multiclusterv1beta1.ImportReady)
		if ready == nil || ready.Status != isFalse || ready.Reason != "IPFamilyNotSupported" {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	fleettest.ExpectEventually(t, a.six.Cluster, export(service), func(e *multiclusterv1beta1.ServiceExport) error {
		ready := meta.FindStatusCondition(e.Status.Conditions, multiclusterv1beta1.ExportReady)
		if ready == nil || ready.Status != isTrue || !strings.Contains(ready.Message, "cluster four: ") {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
}
