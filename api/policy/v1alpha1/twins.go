package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Propagation is a PropagationPolicy or a ClusterPropagationPolicy.
//
// +kubebuilder:object:generate=false
type Propagation interface {
	metav1.Object
	runtime.Object
	// PropagationSpec returns the live spec: writing to it changes the object.
	PropagationSpec() *PropagationSpec
	// PermanentIDLabel is the label key under which this kind of policy carries its permanent id.
	PermanentIDLabel() string
	// Finalizer is the finalizer this kind of policy carries.
	Finalizer() string
}

// Override is an OverridePolicy or a ClusterOverridePolicy.
//
// +kubebuilder:object:generate=false
type Override interface {
	metav1.Object
	runtime.Object
	// OverrideSpec returns the live spec: writing to it changes the object.
	OverrideSpec() *OverrideSpec
}

var (
	_ Propagation = &PropagationPolicy{}
	_ Propagation = &ClusterPropagationPolicy{}
	_ Override    = &OverridePolicy{}
	_ Override    = &ClusterOverridePolicy{}
)

// PropagationSpec implements Propagation.
func (p *PropagationPolicy) PropagationSpec() *PropagationSpec { return &p.Spec }

// PermanentIDLabel implements Propagation.
func (p *PropagationPolicy) PermanentIDLabel() string { return PropagationPolicyPermanentIDLabel }

// Finalizer implements Propagation.
func (p *PropagationPolicy) Finalizer() string { return PropagationPolicyFinalizer }

// PropagationSpec implements Propagation.
func (p *ClusterPropagationPolicy) PropagationSpec() *PropagationSpec { return &p.Spec }

// PermanentIDLabel implements Propagation.
func (p *ClusterPropagationPolicy) PermanentIDLabel() string {
	return ClusterPropagationPolicyPermanentIDLabel
}

// Finalizer implements Propagation.
func (p *ClusterPropagationPolicy) Finalizer() string { return ClusterPropagationPolicyFinalizer }

// OverrideSpec implements Override.
func (p *OverridePolicy) OverrideSpec() *OverrideSpec { return &p.Spec }

// OverrideSpec implements Override.
func (p *ClusterOverridePolicy) OverrideSpec() *OverrideSpec { return &p.Spec }
