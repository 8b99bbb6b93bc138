package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Binding is a ResourceBinding or a ClusterResourceBinding.
//
// +kubebuilder:object:generate=false
type Binding interface {
	metav1.Object
	runtime.Object
	// BindingSpec returns the live spec: writing to it changes the object.
	BindingSpec() *ResourceBindingSpec
	// BindingStatus returns the live status: writing to it changes the object.
	BindingStatus() *ResourceBindingStatus
	// PermanentIDLabel is the label key under which this kind of binding carries its permanent id.
	PermanentIDLabel() string
	// Finalizer keeps this kind of binding until its Works are gone.
	Finalizer() string
}

// GroupVersionKind is the kind of the object.
func (r ObjectReference) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

var (
	_ Binding = &ResourceBinding{}
	_ Binding = &ClusterResourceBinding{}
)

// EmptyBinding is a binding of the scope that a namespace implies.
func EmptyBinding(namespace string) Binding {
	if namespace == "" {
		return &ClusterResourceBinding{}
	}
	return &ResourceBinding{}
}

// BindingSpec implements Binding.
func (b *ResourceBinding) BindingSpec() *ResourceBindingSpec { return &b.Spec }

// BindingStatus implements Binding.
func (b *ResourceBinding) BindingStatus() *ResourceBindingStatus { return &b.Status }

// PermanentIDLabel implements Binding.
func (b *ResourceBinding) PermanentIDLabel() string { return ResourceBindingPermanentIDLabel }

// Finalizer implements Binding.
func (b *ResourceBinding) Finalizer() string { return ResourceBindingFinalizer }

// BindingSpec implements Binding.
func (b *ClusterResourceBinding) BindingSpec() *ResourceBindingSpec { return &b.Spec }

// BindingStatus implements Binding.
func (b *ClusterResourceBinding) BindingStatus() *ResourceBindingStatus { return &b.Status }

// PermanentIDLabel implements Binding.
func (b *ClusterResourceBinding) PermanentIDLabel() string {
	return ClusterResourceBindingPermanentIDLabel
}

// Finalizer implements Binding.
func (b *ClusterResourceBinding) Finalizer() string { return ClusterResourceBindingFinalizer }
