package services_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestHeadless: a headless Service is headless everywhere, and pods keep the host names under which DNS has them.
func TestHeadless(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	service := fleettest.Service(ns, "db")
	service.Spec.ClusterIP = corev1.ClusterIPNone
	deployment := fleettest.Deployment(ns, "db", 2)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: deployment.Spec.Replicas, Selector: deployment.Spec.Selector, Template: deployment.Spec.Template, ServiceName: "db",
		},
	}
	fleettest.Create(t, fleet.Hub, set, service, fleettest.Policy(ns, "db", fleettest.To("member1"), set), crossCluster(ns, "db", []string{"member1"}, []string{"member3"}))
	one := ownAddresses(t, m1, service, 2)
	expectImported(t, m3, service, has(one))
	expectImported(t, m3, service, func(list []discoveryv1.EndpointSlice) error {
		var names []string
		for _, s := range list {
			if _, marked := s.Labels[corev1.IsHeadlessService]; !marked {
				return fmt.Errorf("slice %s lacks the mark of a headless Service: %v", s.Name, s.Labels)
			}
			for _, e := range s.Endpoints {
				if e.Hostname != nil {
					names = append(names, *e.Hostname)
				}
			}
		}
		if slices.Sort(names); !slices.Equal(names, []string{"db-0", "db-1"}) {
			return fmt.Errorf("host names are %v", names)
		}
		return nil
	})
	for _, m := range []*fleettest.Cluster{m1, m3} {
		fleettest.ExpectEventually(t, m, service, func(s *corev1.Service) error {
			if s.Spec.ClusterIP != corev1.ClusterIPNone {
				return fmt.Errorf("cluster IP is %q", s.Spec.ClusterIP)
			}
			return nil
		})
	}
}

// TestExternalName: the Service goes to all clusters, there is nothing to exchange, and that is no failure.
func TestExternalName(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	service := fleettest.Service(ns, "away")
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"}
	mcs := crossCluster(ns, "away", []string{"member1"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, service, mcs)
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(applied, isTrue, "member1, member3"))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(exchanged, isTrue, ""))
	fleettest.ExpectEventually(t, fleet.Member("member3"), service, func(s *corev1.Service) error {
		if s.Spec.ExternalName != "db.example.com" {
			return fmt.Errorf("it leads to %q", s.Spec.ExternalName)
		}
		return nil
	})
}

// TestWhatTravels: addresses of each family, ports, conditions, host names and zones arrive as they are; nodes, pods and
// hints stay behind.
func TestWhatTravels(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	service := fleettest.Service(ns, "all")
	service.Spec.Selector = nil
	service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
	fleettest.Create(t, fleet.Hub, service, crossCluster(ns, "all", []string{"member1"}, []string{"member3"}))
	fleettest.ExpectEventually(t, m1, service, fleettest.Exists)

	ports := []discoveryv1.EndpointPort{
		{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP), AppProtocol: new("http")},
		{Name: new("dns"), Port: new(int32(5353)), Protocol: new(corev1.ProtocolUDP)},
	}
	want := map[discoveryv1.AddressType][]discoveryv1.Endpoint{
		discoveryv1.AddressTypeIPv4: {
			{Addresses: []string{"192.0.2.1"}, Conditions: conditions(true, true, false), Hostname: new("one"), Zone: new("zone-a")},
			{Addresses: []string{"192.0.2.2"}, Conditions: conditions(false, true, true)},
			{Addresses: []string{"192.0.2.3"}, Conditions: conditions(false, false, false)},
			{Addresses: []string{"192.0.2.4"}}, // says nothing, which means ready
		},
		discoveryv1.AddressTypeIPv6: {{Addresses: []string{"2001:db8::1"}, Conditions: conditions(true, true, false)}},
		discoveryv1.AddressTypeFQDN: {{Addresses: []string{"one.example.com"}, Conditions: conditions(true, true, false)}},
	}
	for family, name := range map[discoveryv1.AddressType]string{
		discoveryv1.AddressTypeIPv4: "four", discoveryv1.AddressTypeIPv6: "six", discoveryv1.AddressTypeFQDN: "named",
	} {
		slice := handmade(service, name, family, "")
		slice.Ports, slice.Endpoints = ports, nil
		for _, e := range want[family] {
			e.NodeName, e.TargetRef = new("node-1"), &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "one"}
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-a"}}}
			slice.Endpoints = append(slice.Endpoints, e)
		}
		fleettest.Create(t, m1, slice)
	}
	expectImported(t, m3, service, func(list []discoveryv1.EndpointSlice) error {
		got := map[discoveryv1.AddressType][]discoveryv1.Endpoint{}
		for _, s := range list {
			got[s.AddressType] = s.Endpoints
			if diff := cmp.Diff(ports, s.Ports); diff != "" {
				return fmt.Errorf("ports of %s: %s", s.Name, diff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("endpoints: %s", diff)
		}
		return nil
	})
}

func conditions(ready, serving, terminating bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
}

// TestSelectorComesAndGoes: slices that a user made beside a Service count while it has no selector. Once it has one they
// are not watched any more, so they must not stay in consumers.
func TestSelectorComesAndGoes(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 1})
	other := fleettest.Service(ns, "other") // has the marked slices watched all the time
	other.Spec.Selector = service.Spec.Selector
	without := fleettest.Service(ns, "without")
	without.Spec.Selector = nil
	fleettest.Create(t, fleet.Hub, other, without, crossCluster(ns, "other", []string{"member1"}, []string{"member3"}),
		crossCluster(ns, "without", []string{"member1"}, []string{"member3"}))
	pod := ownAddresses(t, m1, other, 1)
	expectImported(t, m3, other, has(pod))
	fleettest.ExpectEventually(t, m1, without, fleettest.Exists)
	fleettest.Create(t, m1, handmade(without, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	expectImported(t, m3, without, has([]string{"192.0.2.1"}))

	patch(t, fleet.Hub, without, `{"spec":{"selector":{"app":"web"}}}`)
	expectImported(t, m3, without, has(pod))
	patch(t, fleet.Hub, without, `{"spec":{"selector":null}}`)
	// What the cluster's controller made stays there, as Kubernetes has it.
	expectImported(t, m3, without, has(together(pod, []string{"192.0.2.1"})))
}
