package v1alpha1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// ValidateMultiClusterService returns what is wrong with names in a
// MultiClusterService; types, numbers and what may change are checked by the
// rules of its definition. Checking names there would go beyond the cost that an
// API server allows.
func ValidateMultiClusterService(service *MultiClusterService) field.ErrorList {
	var errs field.ErrorList
	if service.Name != "" {
		for _, problem := range validation.IsDNS1123Label(service.Name) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), service.Name, "it is the name of a Service: "+problem))
		}
	}
	if workv1alpha1.ReservedService(service.Namespace, service.Name) {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "namespace"), ReservedServiceMessage(service.Namespace, service.Name)))
	}
	spec, path := &service.Spec, field.NewPath("spec")
	for i, port := range spec.Ports {
		if port.Name == "" {
			continue // the rules of the definition say when one is needed
		}
		for _, problem := range validation.IsDNS1123Label(port.Name) {
			errs = append(errs, field.Invalid(path.Child("ports").Index(i).Child("name"), port.Name, problem))
		}
	}
	old := []struct {
		path  *field.Path
		names []string
	}{
		{path.Child("range", "clusterNames"), spec.Range.ClusterNames},
		{path.Child("serviceProvisionClusters"), spec.ServiceProvisionClusters},
		{path.Child("serviceConsumptionClusters"), spec.ServiceConsumptionClusters},
	}
	for _, list := range old {
		errs = append(errs, validateClusterNames(list.names, list.path.Index)...)
	}
	for name, list := range map[string][]ClusterSelector{"providerClusters": spec.ProviderClusters, "consumerClusters": spec.ConsumerClusters} {
		names := make([]string, len(list))
		for i := range list {
			names[i] = list[i].Name
		}
		errs = append(errs, validateClusterNames(names, func(i int) *field.Path { return path.Child(name).Index(i).Child("name") })...)
	}
	return errs
}

// ReservedServiceMessage says why a MultiClusterService for a reserved Service has no effect.
func ReservedServiceMessage(namespace, name string) string {
	return fmt.Sprintf("Service %s/%s belongs to its cluster and is not shared: use another namespace and name", namespace, name)
}

func validateClusterNames(names []string, at func(int) *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, name := range names {
		errs = append(errs, clusterv1alpha1.ValidateName(name, at(i))...)
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(at(i), name))
		}
		seen.Insert(name)
	}
	return errs
}
