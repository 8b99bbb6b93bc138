package services_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/flagship-k8s/flagship/internal/fleettest"
)

// TestMembersOfOneFamily: where a member has one family, a Service that prefers two has that one, and what such a member
// cannot serve is said of it, while the others are served.
func TestMembersOfOneFamily(t *testing.T) {
	hub := fleettest.StartHub(t)
	four := fleettest.StartMember(t, "four", "--bare", "--service-cidr=10.143.0.0/16")
	both := fleettest.StartMember(t, "both", "--bare", "--service-cidr=10.144.0.0/16,fd00:144::/112")
	hub.Join(t, "four", four.Kubeconfig)
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
}
