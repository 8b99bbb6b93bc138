package services_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestEndpointsReachConsumers: the endpoints of two providers are in every other consumer, under names and labels by which
// they are known, and follow the pods.
func TestEndpointsReachConsumers(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	deployment, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 3}, fleettest.Weight{Cluster: "member2", Weight: 2})
	mcs := crossCluster(ns, "web", []string{"member1", "member2"}, []string{"member2", "member3"})
	fleettest.Create(t, fleet.Hub, mcs)

	one, two := ownAddresses(t, m1, service, 3), ownAddresses(t, m2, service, 2)
	expectImported(t, m3, service, has(together(one, two)))
	expectImported(t, m2, service, has(one))
	expectImported(t, m1, service, has(nil)) // a provider only
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.MCSServiceAppliedConditionType, metav1.ConditionTrue, "member1, member2, member3"))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.EndpointSliceDispatched, metav1.ConditionTrue, "of member1, member2 are in member2, member3"))
	checkForm(t, m1, m3, service)

	scale(t, fleet, deployment, 10)
	one, two = ownAddresses(t, m1, service, 6), ownAddresses(t, m2, service, 4)
	expectImported(t, m3, service, has(together(one, two)))
	expectImported(t, m2, service, has(one))

	patch(t, fleet.Hub, deployment, `{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}`)
	for _, m := range []*fleettest.Cluster{m1, m2} {
		fleettest.ExpectEventually(t, m, deployment, rolledOut("nginx:2"))
	}
	one, two = ownAddresses(t, m1, service, 6), ownAddresses(t, m2, service, 4)
	expectImported(t, m3, service, has(together(one, two)))

	killed := deletePods(t, m1, service)
	expectSlices(t, m1, service, func(_, own []discoveryv1.EndpointSlice) error { return none(pods(own), killed) })
	one = ownAddresses(t, m1, service, 6)
	expectImported(t, m3, service, has(together(one, two)))

	scale(t, fleet, deployment, 0)
	expectImported(t, m3, service, has(nil))
}

// checkForm compares names, labels and content of one slice in its provider and in a consumer.
func checkForm(t *testing.T, provider, consumer *fleettest.Cluster, service *corev1.Service) {
	t.Helper()
	_, own := slicesIn(t, provider, service)
	for _, source := range own {
		copied := &discoveryv1.EndpointSlice{}
		name := types.NamespacedName{Namespace: source.Namespace, Name: provider.Name + "-" + source.Name}
		if err := consumer.Get(t.Context(), name, copied); err != nil {
			t.Fatalf("the slice %s of %s is not in %s under the name %s: %v", source.Name, provider.Name, consumer.Name, name, err)
		}
		if copied.Labels[discoveryv1.LabelServiceName] != service.Name || copied.Labels[workv1alpha1.ManagedLabel] != "true" {
			t.Errorf("labels are %v", copied.Labels)
		}
		if copied.AddressType != source.AddressType || len(copied.Ports) != 1 || *copied.Ports[0].Name != "http" || *copied.Ports[0].Port != 80 {
			t.Errorf("address type %s, ports %+v; want those of the provider", copied.AddressType, copied.Ports)
		}
		for _, e := range copied.Endpoints {
			if e.NodeName != nil || e.TargetRef != nil || e.Hints != nil {
				t.Errorf("endpoint %v names a node, a pod or hints of another cluster", e.Addresses)
			}
		}
	}
}

func scale(t *testing.T, fleet *fleettest.Fleet, deployment *appsv1.Deployment, replicas int) {
	t.Helper()
	patch(t, fleet.Hub, deployment, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func rolledOut(image string) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		s := d.Status
		if d.Spec.Template.Spec.Containers[0].Image != image || s.ObservedGeneration != d.Generation ||
			s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != *d.Spec.Replicas || s.ReadyReplicas != *d.Spec.Replicas {
			return fmt.Errorf("status of generation %d is %+v", d.Generation, s)
		}
		return nil
	}
}

// deletePods deletes all pods in a member and returns their uids; addresses are used again.
func deletePods(t *testing.T, c *fleettest.Cluster, service *corev1.Service) (killed []string) {
	t.Helper()
	for _, pod := range podsOf(t, c, service) {
		killed = append(killed, string(pod.UID))
	}
	if err := c.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(service.Namespace)); err != nil {
		t.Fatalf("deleting pods in %s: %v", c.Name, err)
	}
	return killed
}

// pods are the uids of the pods that a member's own slices lead to.
func pods(own []discoveryv1.EndpointSlice) (uids []string) {
	for _, s := range own {
		for _, e := range s.Endpoints {
			uids = append(uids, string(e.TargetRef.UID))
		}
	}
	return uids
}

func none(have, of []string) error {
	for _, a := range have {
		for _, b := range of {
			if a == b {
				return fmt.Errorf("%s is still there", a)
			}
		}
	}
	return nil
}

// TestEverythingGoesWithItsCause: slices go with the provider, the consumer, the MultiClusterService and the Service.
func TestEverythingGoesWithItsCause(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 1}, fleettest.Weight{Cluster: "member2", Weight: 1})
	mcs := crossCluster(ns, "web", nil, nil) // everywhere
	fleettest.Create(t, fleet.Hub, mcs)
	one, two := ownAddresses(t, m1, service, 1), ownAddresses(t, m2, service, 1)
	expectImported(t, m3, service, has(together(one, two)))
	expectImported(t, m1, service, has(two))

	patch(t, fleet.Hub, mcs, `{"spec":{"providerClusters":[{"name":"member2"}]}}`)
	expectImported(t, m3, service, has(two))
	patch(t, fleet.Hub, mcs, `{"spec":{"providerClusters":[{"name":"member1"},{"name":"member2"}],"consumerClusters":[{"name":"member3"}]}}`)
	expectImported(t, m1, service, has(nil))
	expectImported(t, m3, service, has(together(one, two)))

	fleettest.Delete(t, fleet.Hub, mcs)
	fleettest.ExpectGone(t, fleet.Hub, mcs) // the next one has its name
	expectImported(t, m3, service, has(nil))
	fleettest.ExpectGone(t, m3, service)
	fleettest.ExpectEventually(t, fleet.Hub, service, func(s *corev1.Service) error {
		if by := s.Labels[policyv1alpha1.ResourceTemplateClaimedByLabel]; by != "" {
			return fmt.Errorf("it is still claimed by %s", by)
		}
		return nil
	})

	again := crossCluster(ns, "web", nil, nil)
	fleettest.Create(t, fleet.Hub, again)
	one, two = ownAddresses(t, m1, service, 1), ownAddresses(t, m2, service, 1)
	expectImported(t, m3, service, has(together(one, two)))
	fleettest.Delete(t, fleet.Hub, service)
	expectImported(t, m3, service, has(nil))
	fleettest.ExpectGone(t, m1, service)
	fleettest.ExpectEventually(t, fleet.Hub, again, conditionIs(networkingv1alpha1.MCSServiceAppliedConditionType, metav1.ConditionFalse, "does not exist"))
}

// TestEqualSliceNamesDoNotMeet: two providers with a slice of one name both arrive, and an unmarked slice of a Service
// without a selector is collected, too.
func TestEqualSliceNamesDoNotMeet(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	service := fleettest.Service(ns, "outside")
	service.Spec.Selector = nil
	mcs := crossCluster(ns, "outside", []string{"member1", "member2"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, service, mcs)
	fleettest.ExpectEventually(t, m1, service, fleettest.Exists)
	fleettest.ExpectEventually(t, m2, service, fleettest.Exists)
	fleettest.Create(t, m1, handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	fleettest.Create(t, m2, handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.2"),
		handmade(service, "by-hand-6", discoveryv1.AddressTypeIPv6, "2001:db8::2"))
	expectImported(t, m3, service, has([]string{"192.0.2.1", "192.0.2.2", "2001:db8::2"}))

	one := handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1")
	patch(t, m1, one, `{"endpoints":[{"addresses":["192.0.2.11"],"conditions":{"ready":true,"serving":true,"terminating":false},"zone":"z"},{"addresses":["192.0.2.12"],"conditions":{"ready":false}}]}`)
	expectImported(t, m3, service, has([]string{"192.0.2.11", "192.0.2.2", "2001:db8::2"}))
	fleettest.Delete(t, m1, one)
	expectImported(t, m3, service, has([]string{"192.0.2.2", "2001:db8::2"}))
}

func handmade(service *corev1.Service, name string, family discoveryv1.AddressType, address string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: family,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
	}
}
