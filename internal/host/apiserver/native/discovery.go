package native

import (
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// Announcing has changes made to each version of a group before the discovery of all groups has it.
func Announcing(manager aggregated.ResourceManager, changes ...func(group string, version *apidiscoveryv2.APIVersionDiscovery)) aggregated.ResourceManager {
	return announcing{manager, changes}
}

type announcing struct {
	aggregated.ResourceManager
	changes []func(group string, version *apidiscoveryv2.APIVersionDiscovery)
}

// WithSource keeps the wrapper.
func (a announcing) WithSource(source aggregated.Source) aggregated.ResourceManager {
	return announcing{a.ResourceManager.WithSource(source), a.changes}
}

// AddGroupVersion makes the changes.
func (a announcing) AddGroupVersion(group string, version apidiscoveryv2.APIVersionDiscovery) {
	for _, change := range a.changes {
		change(group, &version)
	}
	a.ResourceManager.AddGroupVersion(group, version)
}
