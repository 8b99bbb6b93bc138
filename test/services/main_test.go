// Package services_test follows endpoints from the members that provide a Service to those that consume it, on real API
// servers whose simulated pods have addresses.
package services_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// shared is three members with workload controllers, a scheduler and simulated nodes. Their pods have addresses of
// different ranges. The third has an agent, so that endpoints and exports go between members of both modes.
var shared = fleettest.Shared{Options: fleettest.Options{Members: 3, Args: []string{"--pull", "member3"}}}

func TestMain(m *testing.M) { shared.Main(m) }

// crossCluster shares the Service of its name. No providers, or no consumers, means all clusters.
func crossCluster(namespace, name string, providers, consumers []string) *networkingv1alpha1.MultiClusterService {
	return &networkingv1alpha1.MultiClusterService{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: networkingv1alpha1.MultiClusterServiceSpec{
			Types:            []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeCrossCluster},
			ProviderClusters: selectors(providers), ConsumerClusters: selectors(consumers),
		},
	}
}

func selectors(names []string) (list []networkingv1alpha1.ClusterSelector) {
	for _, name := range names {
		list = append(list, networkingv1alpha1.ClusterSelector{Name: name})
	}
	return list
}

// app is a Deployment in the named members, each with its share of replicas, and a Service for it that no policy takes
// anywhere.
func app(t *testing.T, fleet *fleettest.Fleet, ns string, shares ...fleettest.Weight) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	var total int32
	for _, s := range shares {
		total += int32(s.Weight)
	}
	deployment, service := fleettest.Deployment(ns, "web", total), fleettest.Service(ns, "web")
	fleettest.Create(t, fleet.Hub, deployment, service, fleettest.Policy(ns, "web", fleettest.Divided(shares...), deployment))
	return deployment, service
}

// slicesIn lists the slices of a Service in a member: those that came from elsewhere, and the member's own.
func slicesIn(t *testing.T, c *fleettest.Cluster, service *corev1.Service) (imported, own []discoveryv1.EndpointSlice) {
	t.Helper()
	var list discoveryv1.EndpointSliceList
	if err := c.List(t.Context(), &list, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}); err != nil {
		t.Fatalf("listing slices in %s: %v", c.Name, err)
	}
	for _, s := range list.Items {
		if s.Labels[discoveryv1.LabelManagedBy] == networkingv1alpha1.EndpointSliceDispatchControllerLabelValue {
			imported = append(imported, s)
		} else {
			own = append(own, s)
		}
	}
	return imported, own
}

// addresses are the ready ones, sorted.
func addresses(list []discoveryv1.EndpointSlice) (ready []string) {
	for _, s := range list {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready = append(ready, e.Addresses...)
			}
		}
	}
	slices.Sort(ready)
	return slices.Compact(ready)
}

// expectImported waits until what a member got from others satisfies a condition.
func expectImported(t *testing.T, c *fleettest.Cluster, service *corev1.Service, condition func([]discoveryv1.EndpointSlice) error) {
	t.Helper()
	expectSlices(t, c, service, func(imported, _ []discoveryv1.EndpointSlice) error { return condition(imported) })
}

func expectSlices(t *testing.T, c *fleettest.Cluster, service *corev1.Service, condition func(imported, own []discoveryv1.EndpointSlice) error) {
	t.Helper()
	fleettest.ExpectListed(t, c, &discoveryv1.EndpointSliceList{}, service.Namespace, func(*discoveryv1.EndpointSliceList) error {
		return condition(slicesIn(t, c, service))
	})
}

// next waits for the next change and takes what came along with it.
func next(ctx context.Context, changes watch.Interface) bool {
	select {
	case _, open := <-changes.ResultChan():
		return open
	case <-ctx.Done():
		return false
	}
}

// has is the condition of slices whose ready addresses are exactly these.
func has(want []string) func([]discoveryv1.EndpointSlice) error {
	return func(list []discoveryv1.EndpointSlice) error {
		if got := addresses(list); !slices.Equal(got, want) {
			return fmt.Errorf("ready addresses are %v, want %v", got, want)
		}
		return nil
	}
}

// ownAddresses waits until a member's own slices have the addresses of n ready pods and no others, and returns them. Slices are behind
// the pods: the number alone is also that of pods before a rollout.
func ownAddresses(t *testing.T, c *fleettest.Cluster, service *corev1.Service, n int) []string {
	t.Helper()
	var found []string
	fleettest.ExpectListed(t, c, &corev1.PodList{}, service.Namespace, func(*corev1.PodList) error {
		found = nil
		for _, pod := range podsOf(t, c, service) {
			ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
			if ready && pod.DeletionTimestamp == nil {
				found = append(found, pod.Status.PodIP)
			}
		}
		if slices.Sort(found); len(found) != n {
			return fmt.Errorf("%s has %d ready pods, want %d", c.Name, len(found), n)
		}
		return nil
	})
	expectSlices(t, c, service, func(_, own []discoveryv1.EndpointSlice) error { return has(found)(own) })
	return found
}

// podsOf lists the pods that a Service selects.
func podsOf(t *testing.T, c *fleettest.Cluster, service *corev1.Service) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := c.List(t.Context(), &list, client.InNamespace(service.Namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
		t.Fatalf("listing pods in %s: %v", c.Name, err)
	}
	return list.Items
}

// together are addresses of several members, sorted.
func together(lists ...[]string) []string {
	all := slices.Concat(lists...)
	slices.Sort(all)
	return all
}

func conditionIs(kind string, status metav1.ConditionStatus, text string) func(*networkingv1alpha1.MultiClusterService) error {
	return func(m *networkingv1alpha1.MultiClusterService) error {
		c := meta.FindStatusCondition(m.Status.Conditions, kind)
		switch {
		case c == nil:
			return fmt.Errorf("condition %s is absent", kind)
		case c.Status != status || !strings.Contains(c.Message, text):
			return fmt.Errorf("condition %s is %s (%s): %s", kind, c.Status, c.Reason, c.Message)
		}
		return nil
	}
}

// patch sends a merge patch.
func patch(t *testing.T, c *fleettest.Cluster, object client.Object, text string) {
	t.Helper()
	if err := c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatalf("patching %s in %s: %v", object.GetName(), c.Name, err)
	}
}

func keyOf(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }

type (
	workList = workv1alpha1.WorkList
	mcsList  = networkingv1alpha1.MultiClusterServiceList
)

// notOf says of a Work that it does not belong to a MultiClusterService of the namespace.
func notOf(namespace string) func(workv1alpha1.Work) bool {
	return func(w workv1alpha1.Work) bool {
		return w.Labels[networkingv1alpha1.MultiClusterServiceNamespaceLabel] != namespace
	}
}
