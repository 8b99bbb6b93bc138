package v1alpha1_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

func TestValidateMultiClusterService(t *testing.T) {
	type spec = networkingv1alpha1.MultiClusterServiceSpec
	clusters := func(names ...string) (list []networkingv1alpha1.ClusterSelector) {
		for _, name := range names {
			list = append(list, networkingv1alpha1.ClusterSelector{Name: name})
		}
		return list
	}
	for reason, tc := range map[string]struct {
		namespace, name string
		spec            spec
		want            string // in the error; empty means none
	}{
		"nothing but a type": {},
		"everything at once": {spec: spec{
			Ports:            []networkingv1alpha1.ExposurePort{{Name: "http", Port: 80}, {Name: "metrics-2", Port: 81}},
			Range:            networkingv1alpha1.ExposureRange{ClusterNames: []string{"a", "b"}},
			ProviderClusters: clusters("a", "b"), ConsumerClusters: clusters("b", "c-1"),
			ServiceProvisionClusters: []string{"a"}, ServiceConsumptionClusters: []string{"b"},
		}},
		"what belongs to a cluster is not shared": {namespace: "kube-system", want: "metadata.namespace: Forbidden"},
		"nor is the Service of an API server":     {namespace: "default", name: "kubernetes", want: "metadata.namespace: Forbidden"},
		"a Service has no dots in its name":       {name: "a.b", want: "metadata.name"},
		"nor more than 63 characters":             {name: strings.Repeat("a", 64), want: "metadata.name"},
		"a port's name is a label":                {spec: spec{Ports: []networkingv1alpha1.ExposurePort{{Name: "HTTP", Port: 80}}}, want: "spec.ports[0].name"},
		"a provider's name is a cluster's":        {spec: spec{ProviderClusters: clusters("a", "Not_A_Label")}, want: "spec.providerClusters[1].name"},
		"a provider is named once":                {spec: spec{ProviderClusters: clusters("a", "a")}, want: "spec.providerClusters[1].name: Duplicate"},
		"a consumer's name is a cluster's":        {spec: spec{ConsumerClusters: clusters(strings.Repeat("a", 49))}, want: "spec.consumerClusters[0].name"},
		"so it is in the range":                   {spec: spec{Range: networkingv1alpha1.ExposureRange{ClusterNames: []string{""}}}, want: "spec.range.clusterNames[0]"},
		"and in the old field for providers":      {spec: spec{ServiceProvisionClusters: []string{"a.b"}}, want: "spec.serviceProvisionClusters[0]"},
		"and, duplicates included, for consumers": {spec: spec{ServiceConsumptionClusters: []string{"a", "a"}}, want: "spec.serviceConsumptionClusters[1]: Duplicate"},
	} {
		t.Run(reason, func(t *testing.T) {
			if tc.name == "" {
				tc.name = "web"
			}
			service := &networkingv1alpha1.MultiClusterService{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: tc.name}, Spec: tc.spec}
			err := networkingv1alpha1.ValidateMultiClusterService(service).ToAggregate()
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error is %v, want one about %s", err, tc.want)
			}
		})
	}
}
