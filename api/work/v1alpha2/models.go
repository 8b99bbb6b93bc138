package v1alpha2

// The kinds are served natively: these are their names in OpenAPI documents.

// OpenAPIModelName names the type in OpenAPI documents.
func (ResourceBinding) OpenAPIModelName() string { return "io.karmada.work.v1alpha2.ResourceBinding" }

// OpenAPIModelName names the type in OpenAPI documents.
func (ResourceBindingList) OpenAPIModelName() string {
	return "io.karmada.work.v1alpha2.ResourceBindingList"
}

// OpenAPIModelName names the type in OpenAPI documents.
func (ClusterResourceBinding) OpenAPIModelName() string {
	return "io.karmada.work.v1alpha2.ClusterResourceBinding"
}

// OpenAPIModelName names the type in OpenAPI documents.
func (ClusterResourceBindingList) OpenAPIModelName() string {
	return "io.karmada.work.v1alpha2.ClusterResourceBindingList"
}
