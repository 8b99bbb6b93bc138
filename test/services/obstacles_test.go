package services_test

import (
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
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	applied   = networkingv1alpha1.MCSServiceAppliedConditionType
	exchanged = networkingv1alpha1.EndpointSliceDispatched
	isTrue    = metav1.ConditionTrue
	isFalse   = metav1.ConditionFalse
	claimedBy = policyv1alpha1.ResourceTemplateClaimedByLabel
)

// TestServiceComesLate: a MultiClusterService may come before its Service, outlive it, and get another one of the name.
func TestServiceComesLate(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	mcs := crossCluster(ns, "late", []string{"member1"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, mcs)
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(condition, isFalse, "Service "+ns+"/late does not exist: create it"))
	}
	expectEvent(t, fleet.Hub, ns, networkingv1alpha1.KindMultiClusterService, events.SyncServiceFailed)

	for round := range 2 {
		service := fleettest.Service(ns, "late")
		service.Spec.Selector = nil
		fleettest.Create(t, fleet.Hub, service)
		fleettest.ExpectEventually(t, m1, service, fleettest.Exists)
		address := fmt.Sprintf("192.0.2.%d", round+1)
		slice := handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, address)
		fleettest.Create(t, m1, slice)
		expectImported(t, m3, service, has([]string{address}))
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(applied, isTrue, "member1, member3"))
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(exchanged, isTrue, ""))
		expectEvent(t, fleet.Hub, ns, networkingv1alpha1.KindMultiClusterService, events.SyncServiceSucceed)
		expectEvent(t, fleet.Hub, ns, networkingv1alpha1.KindMultiClusterService, events.DispatchEndpointSliceSucceed)

		fleettest.Delete(t, fleet.Hub, service)
		expectImported(t, m3, service, has(nil))
		fleettest.ExpectGone(t, m1, service)
		fleettest.ExpectGone(t, m3, service)
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(applied, isFalse, "does not exist"))
		fleettest.Delete(t, m1, slice)
		fleettest.ExpectGone(t, m1, slice)
	}
}

// TestFieldsAndTheirRank: of the fields that name clusters the newest that is set counts, clusters that are not registered are
// named, and each change is followed.
func TestFieldsAndTheirRank(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	service := fleettest.Service(ns, "ranked")
	service.Spec.Selector = nil
	mcs := crossCluster(ns, "ranked", nil, nil)
	fleettest.Create(t, fleet.Hub, service, mcs)
	for i, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, service, fleettest.Exists)
		fleettest.Create(t, m, handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, fmt.Sprintf("192.0.2.%d", i+1)))
	}
	for _, step := range []struct {
		reason, spec string
		want         map[string]string // what each member has from others, by the last numbers of the addresses
		present      string            // the members that have the Service
	}{
		{"nothing is named", `{}`, map[string]string{"member1": "23", "member2": "13", "member3": "12"}, "123"},
		{"a range", `{"range":{"clusterNames":["member1","member2"]}}`, map[string]string{"member1": "2", "member2": "1"}, "12"},
		{"an older field for providers", `{"serviceProvisionClusters":["member3"]}`, map[string]string{"member1": "3", "member2": "3"}, "123"},
		{"an older field for consumers", `{"serviceConsumptionClusters":["member2"]}`, map[string]string{"member2": "3"}, "23"},
		{"the field for providers", `{"providerClusters":[{"name":"member1"}]}`, map[string]string{"member2": "1"}, "12"},
		{"the field for consumers", `{"consumerClusters":[{"name":"member3"}]}`, map[string]string{"member3": "1"}, "13"},
		{"a cluster on both sides", `{"providerClusters":[{"name":"member1"},{"name":"member3"}],"consumerClusters":[{"name":"member1"},{"name":"member3"}]}`,
			map[string]string{"member1": "3", "member3": "1"}, "13"},
		{"one that is not registered", `{"consumerClusters":[{"name":"member2"},{"name":"atlantis"}]}`, map[string]string{"member2": "13"}, "123"},
		{"nothing is named any more", `{"range":null,"serviceProvisionClusters":null,"serviceConsumptionClusters":null,"providerClusters":null,"consumerClusters":null}`,
			map[string]string{"member1": "23", "member2": "13", "member3": "12"}, "123"},
	} {
		t.Run(step.reason, func(t *testing.T) {
			patch(t, fleet.Hub, mcs, `{"spec":`+step.spec+`}`)
			for i, m := range fleet.Members {
				var want []string
				for _, number := range step.want[m.Name] {
					want = append(want, "192.0.2."+string(number))
				}
				expectImported(t, m, service, has(want))
				if strings.Contains(step.present, fmt.Sprint(i+1)) {
					fleettest.ExpectEventually(t, m, service, fleettest.Exists)
				} else {
					fleettest.ExpectGone(t, m, service)
				}
			}
			for _, condition := range []string{applied, exchanged} {
				status, text := isTrue, ""
				if strings.Contains(step.spec, "atlantis") {
					status, text = isFalse, "cluster atlantis is not registered"
				}
				fleettest.ExpectEventually(t, fleet.Hub, mcs, func(m *networkingv1alpha1.MultiClusterService) error {
					if c := meta.FindStatusCondition(m.Status.Conditions, condition); c == nil || c.ObservedGeneration != m.Generation {
						return fmt.Errorf("%s is not about generation %d: %+v", condition, m.Generation, c)
					}
					return conditionIs(condition, status, text)(m)
				})
			}
		})
	}
	expectEvent(t, fleet.Hub, ns, networkingv1alpha1.KindMultiClusterService, events.ClusterNotFound)
}

// TestTheTypeIsNotChanged: what is exposed between clusters becomes a load balancer by being made anew, and nothing of the
// exchange is left.
func TestTheTypeIsNotChanged(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 1})
	mcs := crossCluster(ns, "web", []string{"member1"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, mcs)
	expectImported(t, m3, service, has(ownAddresses(t, m1, service, 1)))

	err := fleet.Hub.Patch(t.Context(), mcs.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"types":["LoadBalancer"]}}`)))
	if err == nil || !strings.Contains(err.Error(), "types is immutable") {
		t.Errorf("a change of the type is answered with %v", err)
	}
	fleettest.Delete(t, fleet.Hub, mcs)
	fleettest.ExpectGone(t, fleet.Hub, mcs)
	again := crossCluster(ns, "web", []string{"member1"}, nil)
	again.Spec.Types = []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeLoadBalancer}
	fleettest.Create(t, fleet.Hub, again)
	fleettest.ExpectEventually(t, fleet.Hub, again, conditionIs(applied, isFalse, "has type ClusterIP, so no cluster gives it an address: set its type to LoadBalancer"))
	expectImported(t, m3, service, has(nil))
	fleettest.ExpectGone(t, m3, service)
	patch(t, fleet.Hub, service, `{"spec":{"type":"LoadBalancer"}}`)
	fleettest.ExpectEventually(t, fleet.Hub, again, conditionIs(applied, isFalse, "cluster member1: its load balancer has no address yet"))
	fleettest.ExpectEventually(t, m1, service, func(s *corev1.Service) error {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return fmt.Errorf("its type is %s", s.Spec.Type)
		}
		return nil
	})
	patchStatus(t, m1, service, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.9"}]}}}`)
	last := fleettest.ExpectEventually(t, fleet.Hub, again, conditionIs(applied, isTrue, "member1"))
	if meta.FindStatusCondition(last.Status.Conditions, exchanged) != nil {
		t.Errorf("a load balancer says about endpoints: %+v", last.Status.Conditions)
	}
	for _, member := range []string{"member1", "member3"} { // an agent releases a Work after its object is gone
		fleettest.ExpectListed(t, fleet.Hub, &workList{}, workv1alpha1.ExecutionNamespace(member), func(*workList) error {
			if records, dispatched := worksFor(t, fleet, member, service); len(records)+len(dispatched) > 0 {
				return fmt.Errorf("%s has %d records and %d Works with endpoints", member, len(records), len(dispatched))
			}
			return nil
		})
	}
}

// TestServiceOfTheUsersInTheWay: where a member has a Service of the name that is not managed, it is taken over, as names mean
// the same in all clusters; a Service that says abort leaves it alone, and the conditions name the cluster.
func TestServiceOfTheUsersInTheWay(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m3 := fleet.Member("member3")
	fleettest.ExpectEventually(t, m3, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	theirs := fleettest.Service(ns, "web")
	theirs.Spec.Selector = map[string]string{"app": "theirs"}
	fleettest.Create(t, m3, theirs)

	service := fleettest.Service(ns, "web")
	service.Annotations = map[string]string{workv1alpha1.ConflictResolutionAnnotation: "abort"}
	mcs := crossCluster(ns, "web", []string{"member1"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, service, mcs)
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(applied, isFalse, "cluster member3: "))
	now := fleettest.ExpectEventually(t, m3, theirs, fleettest.Exists)
	if now.Spec.Selector["app"] != "theirs" || now.Labels[claimedBy] != "" {
		t.Errorf("the user's Service was changed: labels %v, selector %v", now.Labels, now.Spec.Selector)
	}
	patch(t, fleet.Hub, service, `{"metadata":{"annotations":{"work.karmada.io/conflict-resolution":null}}}`)
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(applied, isTrue, "member1, member3"))
	fleettest.ExpectEventually(t, m3, theirs, func(s *corev1.Service) error {
		if s.UID != theirs.UID || s.Spec.Selector["app"] != "web" {
			return fmt.Errorf("uid %s, selector %v: it was not taken over", s.UID, s.Spec.Selector)
		}
		return nil
	})
}

// TestNamespaceMissingInAConsumer: a consumer without the namespace is named, the others are served, and it is served as
// soon as it has one.
func TestNamespaceMissingInAConsumer(t *testing.T) {
	fleet := shared.Start(t)
	m1, m2, m3 := fleet.Member("member1"), fleet.Member("member2"), fleet.Member("member3")
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "unspread-", Labels: map[string]string{policyv1alpha1.NamespaceSkipAutoPropagationLabel: "true"},
	}}
	fleettest.Create(t, fleet.Hub, space)
	ns := space.Name
	for _, m := range []*fleettest.Cluster{m1, m2} {
		fleettest.Create(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	service := fleettest.Service(ns, "web")
	service.Spec.Selector = nil
	mcs := crossCluster(ns, "web", []string{"member1"}, []string{"member2", "member3"})
	fleettest.Create(t, fleet.Hub, service, mcs)
	fleettest.ExpectEventually(t, m1, service, fleettest.Exists)
	fleettest.Create(t, m1, handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	expectImported(t, m2, service, has([]string{"192.0.2.1"}))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(applied, isFalse, "cluster member3: "))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(exchanged, isFalse, "in cluster member3: "))
	fleettest.Create(t, m3, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	expectImported(t, m3, service, has([]string{"192.0.2.1"}))
	for _, condition := range []string{applied, exchanged} {
		fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(condition, isTrue, ""))
	}
}

// TestEverythingGoesWithTheNamespace: a namespace that is deleted takes all of it along.
func TestEverythingGoesWithTheNamespace(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m3 := fleet.Member("member1"), fleet.Member("member3")
	service := fleettest.Service(ns, "web")
	service.Spec.Selector = nil
	mcs := crossCluster(ns, "web", []string{"member1"}, []string{"member3"})
	fleettest.Create(t, fleet.Hub, service, mcs)
	fleettest.ExpectEventually(t, m1, service, fleettest.Exists)
	fleettest.Create(t, m1, handmade(service, "by-hand", discoveryv1.AddressTypeIPv4, "192.0.2.1"))
	expectImported(t, m3, service, has([]string{"192.0.2.1"}))
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	fleettest.Delete(t, fleet.Hub, space)
	fleettest.ExpectGone(t, fleet.Hub, space)
	for _, m := range []*fleettest.Cluster{m1, m3} {
		fleettest.ExpectGone(t, m, service)
	}
	for _, member := range []string{"member1", "member3"} {
		fleettest.ExpectListed(t, fleet.Hub, &workList{}, "karmada-es-"+member, func(l *workList) error {
			if left := slices.DeleteFunc(l.Items, notOf(ns)); len(left) > 0 {
				return fmt.Errorf("%d Works are left, the first is %s", len(left), left[0].Name)
			}
			return nil
		})
	}
}

// TestAProviderWithoutAnAgent: nothing collects the endpoints of a member in Pull mode whose agent does not run, and the condition of the
// MultiClusterService names it; the other providers are collected.
func TestAProviderWithoutAnAgent(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	remote := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "remote"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}}
	fleettest.Create(t, fleet.Hub, remote)
	_, service := app(t, fleet, ns, fleettest.Weight{Cluster: "member1", Weight: 1})
	mcs := crossCluster(ns, service.Name, []string{"member1", remote.Name}, []string{"member2"})
	fleettest.Create(t, fleet.Hub, mcs)
	one := ownAddresses(t, fleet.Member("member1"), service, 1)
	expectImported(t, fleet.Member("member2"), service, has(one))
	fleettest.ExpectEventually(t, fleet.Hub, mcs, conditionIs(exchanged, isFalse, "cluster remote: no EndpointSlice of the Service was found yet"))
	// Other tests are about all clusters.
	fleettest.Delete(t, fleet.Hub, remote)
	fleettest.ExpectGone(t, fleet.Hub, remote)
}
