package exposure

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/predicate"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

// Clusters are those between which a Service is shared. Names are sorted.
type Clusters struct {
	// Providers have the pods, Consumers are to reach them. A cluster may be both.
	Providers, Consumers []string
	// Unknown are clusters that were named but are not registered.
	Unknown []string
}

// Of returns the clusters that a MultiClusterService means, given those that are registered. The first field that names any provider
// counts, of providerClusters, serviceProvisionClusters and range; the same holds for consumers. If none does, all clusters are meant.
// Load balancers have no consumers among the members.
func Of(spec *networkingv1alpha1.MultiClusterServiceSpec, registered []string) Clusters {
	providers := firstNamed(named(spec.ProviderClusters), spec.ServiceProvisionClusters, spec.Range.ClusterNames, registered)
	var consumers []string
	if slices.Contains(spec.Types, networkingv1alpha1.ExposureTypeCrossCluster) {
		consumers = firstNamed(named(spec.ConsumerClusters), spec.ServiceConsumptionClusters, spec.Range.ClusterNames, registered)
	}
	e := Clusters{}
	e.Providers, e.Unknown = known(providers, registered, e.Unknown)
	e.Consumers, e.Unknown = known(consumers, registered, e.Unknown)
	e.Unknown = sortedSet(e.Unknown)
	return e
}

// All are the clusters that get the Service.
func (e Clusters) All() []string { return sortedSet(slices.Concat(e.Providers, e.Consumers)) }

// ConsumersOf are those that get what a provider has: all consumers but itself.
func (e Clusters) ConsumersOf(provider string) []string {
	return slices.DeleteFunc(slices.Clone(e.Consumers), func(c string) bool { return c == provider })
}

func firstNamed(lists ...[]string) []string {
	for _, list := range lists {
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

func named(selectors []networkingv1alpha1.ClusterSelector) []string {
	names := make([]string, 0, len(selectors))
	for _, s := range selectors {
		names = append(names, s.Name)
	}
	return names
}

func known(names, registered, unknown []string) (there, missing []string) {
	for _, name := range names {
		if slices.Contains(registered, name) {
			there = append(there, name)
		} else {
			unknown = append(unknown, name)
		}
	}
	return sortedSet(there), unknown
}

func sortedSet(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// Changes lets events of MultiClusterServices pass after which the exposure may be another, or which begin a deletion.
func Changes() predicate.TypedPredicate[*networkingv1alpha1.MultiClusterService] {
	type mcs = *networkingv1alpha1.MultiClusterService
	return predicate.Or[mcs](predicate.TypedGenerationChangedPredicate[mcs]{}, predicate.TypedLabelChangedPredicate[mcs]{})
}
