package exposure

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

func clusters(names ...string) (list []networkingv1alpha1.ClusterSelector) {
	for _, name := range names {
		list = append(list, networkingv1alpha1.ClusterSelector{Name: name})
	}
	return list
}

func TestExpose(t *testing.T) {
	type spec = networkingv1alpha1.MultiClusterServiceSpec
	between := []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeCrossCluster}
	outside := []networkingv1alpha1.ExposureType{networkingv1alpha1.ExposureTypeLoadBalancer}
	within := func(names ...string) networkingv1alpha1.ExposureRange {
		return networkingv1alpha1.ExposureRange{ClusterNames: names}
	}
	for reason, tc := range map[string]struct {
		spec spec
		want Clusters
	}{
		"all unset means everywhere": {spec{Types: between}, Clusters{Providers: []string{"a", "b", "c"}, Consumers: []string{"a", "b", "c"}}},
		"a range is for both":        {spec{Types: between, Range: within("b", "a")}, Clusters{Providers: []string{"a", "b"}, Consumers: []string{"a", "b"}}},
		"the old providers win over the range": {
			spec{Types: between, Range: within("a"), ServiceProvisionClusters: []string{"b"}}, Clusters{Providers: []string{"b"}, Consumers: []string{"a"}}},
		"so do the old consumers": {
			spec{Types: between, Range: within("a"), ServiceConsumptionClusters: []string{"b"}}, Clusters{Providers: []string{"a"}, Consumers: []string{"b"}}},
		"the new fields win over both": {
			spec{Types: between, Range: within("a"), ServiceProvisionClusters: []string{"b"}, ServiceConsumptionClusters: []string{"b"},
				ProviderClusters: clusters("c"), ConsumerClusters: clusters("a", "b")},
			Clusters{Providers: []string{"c"}, Consumers: []string{"a", "b"}}},
		"one who is named twice counts once":               {spec{Types: between, Range: within("a", "a")}, Clusters{Providers: []string{"a"}, Consumers: []string{"a"}}},
		"load balancers have no consumers":                 {spec{Types: outside, ConsumerClusters: clusters("a")}, Clusters{Providers: []string{"a", "b", "c"}}},
		"a cluster that is not registered is listed apart": {spec{Types: between, ProviderClusters: clusters("x", "a"), ConsumerClusters: clusters("x")}, Clusters{Providers: []string{"a"}, Unknown: []string{"x"}}},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(&tc.spec, []string{"a", "b", "c"})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConsumersOf(t *testing.T) {
	e := Clusters{Providers: []string{"a", "b"}, Consumers: []string{"a", "c"}}
	if got := e.ConsumersOf("a"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("a's consumers are %v: a cluster needs no copy of its own", got)
	}
	if got := e.ConsumersOf("b"); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("b's consumers are %v", got)
	}
	if got := e.All(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("all are %v", got)
	}
}
