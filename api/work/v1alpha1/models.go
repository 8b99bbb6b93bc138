package v1alpha1

// The kinds are served natively: these are their names in OpenAPI documents.

// OpenAPIModelName names the type in OpenAPI documents.
func (Work) OpenAPIModelName() string { return "io.karmada.work.v1alpha1.Work" }

// OpenAPIModelName names the type in OpenAPI documents.
func (WorkList) OpenAPIModelName() string { return "io.karmada.work.v1alpha1.WorkList" }

// OpenAPIModelName names the type in OpenAPI documents.
func (ResourceBinding) OpenAPIModelName() string {
	return "io.karmada.work.v1alpha1.ResourceBinding"
}

// OpenAPIModelName names the type in OpenAPI documents.
func (ResourceBindingList) OpenAPIModelName() string {
	return "io.karmada.work.v1alpha1.ResourceBindingList"
}

// OpenAPIModelName names the type in OpenAPI documents.
func (ClusterResourceBinding) OpenAPIModelName() string {
	return "io.karmada.work.v1alpha1.ClusterResourceBinding"
}

// OpenAPIModelName names the type in OpenAPI documents.
func (ClusterResourceBindingList) OpenAPIModelName() string {
	return "io.karmada.work.v1alpha1.ClusterResourceBindingList"
}
