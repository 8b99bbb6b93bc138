package services_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestPausedProviderKeepsItsSlices: a provider that cannot be reached keeps its endpoints in consumers, gives them up when
// it is removed from the providers, and is followed again when it is back. It takes 45 s beside other tests: a member is away until its Cluster
// says so.
func TestPausedProviderKeepsItsSlices(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	deployment, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 2})
	mcs := crossCluster(ns, "web", []string{"member1"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, mcs)
	one := ownAddresses(t, m1, service, 2)
	expectImported(t, m3, service, has(one))

	fleet.PauseMember(t, "member1")
	fleettest.ExpectEventually(t, fleet.Hub, clusterNamed("member1"), func(c *clusterv1alpha1.Cluster) error {
		if meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady) {
			return fmt.Errorf("it is still ready")
		}
		return nil
	})
	if imported, _ := slicesIn(t, m3, service); has(one)(imported) != nil {
		t.Errorf("a provider that is away lost its endpoints: %v", has(one)(imported))
	}
	patch(t, fleet.Hub, mcs, `{"spec":{"providerClusters":[{"name":"member2"}]}}`)
	expectImported(t, m3, service, has(nil))
	patch(t, fleet.Hub, mcs, `{"spec":{"providerClusters":[{"name":"member1"}]}}`)

	fleet.ResumeMember(t, "member1")
	expectImported(t, m3, service, has(one))
	scale(t, fleet, deployment, 3)
	expectImported(t, m3, service, has(ownAddresses(t, m1, service, 3)))
}

func clusterNamed(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestPolicyGivesWayAndGetsItBack: a Service that a policy had is taken over without its copies going away, the policy
// says so, and gets it back in the end. It takes 30 s beside other tests, which share its fleet.
func TestPolicyGivesWayAndGetsItBack(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2 := fleet.Member("member1"), fleet.Member("member2")
	service := fleettest.Service(ns, "web")
	policy := fleettest.Policy(ns, "web", fleettest.To("member1"), service)
	policy.Spec.ActivationPreference = policyv1alpha1.LazyActivation // even one that waits for changes has it back at once
	fleettest.Create(t, fleet.Hub, policy)
	fleettest.Create(t, fleet.Hub, service)
	copied := fleettest.ExpectEventually(t, m1, service, fleettest.Exists)

	mcs := crossCluster(ns, "web", nil, nil)
	fleettest.Create(t, fleet.Hub, mcs)
	fleettest.ExpectEventually(t, m2, service, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.MCSServiceAppliedConditionType, metav1.ConditionTrue, "member1, member2, member3"))
	expectEvent(t, fleet.Hub, ns, "Service", events.ApplyPolicyFailed)
	expectEventSaying(t, fleet.Hub, ns, "MultiClusterService", events.SyncServiceSucceed, "is taken over from PropagationPolicy "+ns+"/web")
	late := fleettest.Policy(ns, "late", fleettest.To("member3"), service)
	fleettest.Create(t, fleet.Hub, late)
	expectEventSaying(t, fleet.Hub, ns, "PropagationPolicy", events.ApplyPolicyFailed, "MultiClusterService "+ns+"/web")
	fleettest.Delete(t, fleet.Hub, late)

	fleettest.Delete(t, fleet.Hub, mcs)
	fleettest.ExpectGone(t, m2, service)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workv1alpha2.BindingName("Service", "web")}}
	fleettest.ExpectEventually(t, fleet.Hub, binding, func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) != 1 || b.Labels[workv1alpha2.BindingManagedByLabel] != "" {
			return fmt.Errorf("labels %v, clusters %v: it is not the policy's again", b.Labels, b.Spec.Clusters)
		}
		return nil
	})
	if again := fleettest.ExpectEventually(t, m1, service, fleettest.Exists); again.UID != copied.UID {
		t.Error("the copy in the policy's cluster went and came again")
	}
}

// TestPolicyEndsMeanwhile: a Service that no policy selects any more when its MultiClusterService goes is left nowhere, and
// one that a policy has come to select since stays where the policy requires it.
func TestPolicyEndsMeanwhile(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2 := fleet.Member("member1"), fleet.Member("member2")
	left, found := fleettest.Service(ns, "left"), fleettest.Service(ns, "found")
	ends := fleettest.Policy(ns, "ends", fleettest.To("member1"), left)
	fleettest.Create(t, fleet.Hub, left, found, ends)
	fleettest.ExpectEventually(t, m1, left, fleettest.Exists)
	mcs, other := crossCluster(ns, "left", nil, nil), crossCluster(ns, "found", nil, nil)
	fleettest.Create(t, fleet.Hub, mcs, other)
	copied := fleettest.ExpectEventually(t, m1, found, fleettest.Exists)
	for _, m := range []*networkingv1alpha1.MultiClusterService{mcs, other} {
		fleettest.ExpectEventually(t, fleet.Hub, m, conditionIs(applied, isTrue, "member1, member2, member3"))
	}
	fleettest.Delete(t, fleet.Hub, ends)
	fleettest.ExpectGone(t, fleet.Hub, ends)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "late", fleettest.To("member1"), found))
	expectEventSaying(t, fleet.Hub, ns, "PropagationPolicy", events.ApplyPolicyFailed, "MultiClusterService "+ns+"/found")

	fleettest.Delete(t, fleet.Hub, mcs, other)
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, m, left)
	}
	fleettest.ExpectGone(t, m2, found)
	if again := fleettest.ExpectEventually(t, m1, found, fleettest.Exists); again.UID != copied.UID {
		t.Error("the copy in the policy's cluster went and came again")
	}
}

// expectEvent waits for an event about an object of a kind.
func expectEvent(t *testing.T, c *fleettest.Cluster, ns, kind, reason string) {
	t.Helper()
	expectEventSaying(t, c, ns, kind, reason, "")
}

func expectEventSaying(t *testing.T, c *fleettest.Cluster, ns, kind, reason, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()
	changes, err := c.Watch(ctx, &corev1.EventList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatalf("watching events: %v", err)
	}
	defer changes.Stop()
	for {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(ns)); err != nil {
			t.Fatalf("listing events until patience ended: no %s about a %s: %v", reason, kind, err)
		}
		for _, e := range list.Items {
			if e.InvolvedObject.Kind == kind && e.Reason == reason && strings.Contains(e.Message, text) {
				return
			}
		}
		if !next(ctx, changes) {
			t.Fatalf("no event %s about a %s", reason, kind)
		}
	}
}

// TestPortsMustMatch: a port that the Service lacks stops everything until it is corrected.
func TestPortsMustMatch(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	service := fleettest.Service(ns, "web")
	mcs := crossCluster(ns, "web", nil, nil)
	mcs.Spec.Ports = []networkingv1alpha1.ExposurePort{{Name: "http", Port: 8080}}
	fleettest.Create(t, fleet.Hub, service, mcs)
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.MCSServiceAppliedConditionType, metav1.ConditionFalse, "spec.ports has http (8080)"))
	expectEvent(t, fleet.Hub, ns, "MultiClusterService", events.SyncServiceFailed)
	fleettest.ExpectAbsent(t, fleet.Member("member1"), service)
	patch(t, fleet.Hub, mcs, `{"spec":{"ports":[{"name":"http","port":80}]}}`)
	fleettest.ExpectEventually(t, fleet.Member("member1"), service, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.MCSServiceAppliedConditionType, metav1.ConditionTrue, ""))

	patch(t, fleet.Hub, service, `{"spec":{"ports":[{"name":"web","port":81}]}}`)
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(condition, isFalse, "spec.ports has http (80), but Service "+ns+"/web has web (81): correct one of them"))
	}
	if s := fleettest.ExpectEventually(t, fleet.Member("member1"), service, fleettest.Exists); s.Spec.Ports[0].Port != 80 {
		t.Errorf("with a mismatch that was not corrected the member got port %d", s.Spec.Ports[0].Port)
	}
	patch(t, fleet.Hub, mcs, `{"spec":{"ports":null}}`)
	fleettest.ExpectEventually(t, fleet.Member("member1"), service, func(s *corev1.Service) error {
		if s.Spec.Ports[0].Port != 81 || s.Spec.Ports[0].Name != "web" {
			return fmt.Errorf("ports are %+v", s.Spec.Ports)
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(applied, isTrue, ""))
}

// TestLoadBalancerAddressesAreMerged: what the load balancers of two members report is in one status.
func TestLoadBalancerAddressesAreMerged(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	service := fleettest.Service(ns, "web")
	service.Spec.Type = corev1.ServiceTypeLoadBalancer
	mcs := crossCluster(ns, "web", []string{"member1", "member2"}, nil)
	mcs.Spec.Types = []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeLoadBalancer}
	fleettest.Create(t, fleet.Hub, service, mcs)
	for member, status := range map[string]string{
		"member1": `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"VIP","ports":[{"port":80,"protocol":"TCP","error":"NoRoute"}]}]}}}`,
		"member2": `{"status":{"loadBalancer":{"ingress":[{"hostname":"lb.example.com"}]}}}`,
	} {
		m := fleet.Member(member)
		fleettest.ExpectEventually(t, m, service, fleettest.Exists)
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.MCSServiceAppliedConditionType, metav1.ConditionFalse, "has no address yet"))
		patchStatus(t, m, service, status)
	}
	fleettest.ExpectEventually(t, fleet.Hub, mcs, func(m *networkingv1alpha1.MultiClusterService) error {
		points := m.Status.LoadBalancer.Ingress
		if len(points) != 2 || points[0].Hostname != "lb.example.com" || points[1].IP != "192.0.2.1" ||
			points[1].IPMode == nil || *points[1].IPMode != corev1.LoadBalancerIPModeVIP ||
			len(points[1].Ports) != 1 || points[1].Ports[0].Error == nil || *points[1].Ports[0].Error != "NoRoute" {
			return fmt.Errorf("ways in are %+v", points)
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.MCSServiceAppliedConditionType, metav1.ConditionTrue, "member1, member2"))
	fleettest.ExpectAbsent(t, fleet.Member("member3"), service)
}

// TestClustersComeAndGo: a cluster that leaves takes its endpoints with it, and one that joins takes part where all do.
func TestClustersComeAndGo(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 1}, fleettest.Weight{Cluster: "member2", Weight: 1})
	mcs := crossCluster(ns, "web", nil, nil)
	fleettest.Create(t, fleet.Hub, mcs)
	one, two := ownAddresses(t, m1, service, 1), ownAddresses(t, m2, service, 1)
	expectImported(t, m3, service, has(together(one, two)))

	run(t, "unjoin", "member2", "--delete-objects", "--data-dir", fleet.Dir, "--cluster-kubeconfig", m2.Kubeconfig)
	expectSlices(t, m3, service, func(imported, _ []discoveryv1.EndpointSlice) error { return none(addresses(imported), two) })
	expectImported(t, m2, service, has(nil))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.EndpointSliceDispatched, metav1.ConditionTrue, "of member1, member3 are in member1, member3"))

	named := crossCluster(ns, "named", []string{"member2"}, []string{"member3"})
	outside := fleettest.Service(ns, "named")
	outside.Spec.Selector = nil
	fleettest.Create(t, fleet.Hub, outside, named)
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, fleet.Hub, named, conditionIs(condition, isFalse, "cluster member2 is not registered"))
	}

	run(t, "join", "member2", "--data-dir", fleet.Dir, "--cluster-kubeconfig", m2.Kubeconfig)
	fleettest.ExpectEventually(t, m2, outside, fleettest.Exists)
	fleettest.Create(t, m2, handmade(outside, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	expectImported(t, m3, outside, has([]string{"192.0.2.1"}))
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, fleet.Hub, named, conditionIs(condition, isTrue, "member2"))
	}
	// The replicas that moved to the other member move back at some time, so that what it has is not the same from one moment to the next.
	fleettest.Eventually(t, "the cluster that joined has the endpoints of another one", func() bool {
		_, own := slicesIn(t, m1, service)
		imported, _ := slicesIn(t, m2, service)
		return len(addresses(own)) > 0 && slices.Equal(addresses(imported), addresses(own))
	})
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(networkingv1alpha1.EndpointSliceDispatched, metav1.ConditionTrue, "of member1, member2, member3"))
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if r := fleettest.Flagship(t, args...); r.Code != 0 {
		t.Fatalf("flagship %v ended with code %d:\n%s%s", args, r.Code, r.Stdout, r.Stderr)
	}
}

func patchStatus(t *testing.T, c *fleettest.Cluster, object client.Object, text string) {
	t.Helper()
	copied := object.DeepCopyObject().(client.Object)
	if err := c.Status().Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatalf("patching the status of %s in %s: %v", object.GetName(), c.Name, err)
	}
}
