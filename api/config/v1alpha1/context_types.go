package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// ResourceInterpreterContext is one exchange with an interpreter webhook: it is
// sent with a request and comes back with a response. It is never stored.
//
// +kubebuilder:object:root=true
type ResourceInterpreterContext struct {
	metav1.TypeMeta `json:",inline"`

	// The question.
	// +optional
	Request *ResourceInterpreterRequest `json:"request,omitempty"`

	// The answer.
	// +optional
	Response *ResourceInterpreterResponse `json:"response,omitempty"`
}

// ResourceInterpreterRequest is a question about an object.
type ResourceInterpreterRequest struct {
	// Identity of this exchange, to be repeated in the answer.
	UID types.UID `json:"uid"`

	// Kind of the object.
	Kind metav1.GroupVersionKind `json:"kind"`

	// Name of the object.
	Name string `json:"name"`

	// Namespace of the object. Empty if it is cluster-scoped.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// The operation.
	Operation InterpreterOperation `json:"operation"`

	// The object in question.
	// +optional
	Object runtime.RawExtension `json:"object,omitempty"`

	// The object as a member has it. Only with Retain.
	// +optional
	ObservedObject *runtime.RawExtension `json:"observedObject,omitempty"`

	// The number of replicas to set. Only with ReviseReplica.
	// +optional
	DesiredReplicas *int32 `json:"replicas,omitempty"`

	// What each cluster reports. Only with AggregateStatus.
	// +optional
	AggregatedStatus []workv1alpha2.AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ResourceInterpreterResponse is the answer to a question.
type ResourceInterpreterResponse struct {
	// Identity of the exchange, copied from the request.
	UID types.UID `json:"uid"`

	// Whether the question could be answered.
	Successful bool `json:"successful"`

	// Why it could not.
	// +optional
	Status *RequestStatus `json:"status,omitempty"`

	// A patch of the object. With ReviseReplica, Retain and AggregateStatus.
	// +optional
	Patch []byte `json:"patch,omitempty"`

	// The format of the patch. Only "JSONPatch".
	// +optional
	PatchType *PatchType `json:"patchType,omitempty"`

	// What each replica needs. With InterpretReplica.
	// +optional
	ReplicaRequirements *workv1alpha2.ReplicaRequirements `json:"replicaRequirements,omitempty"`

	// The number of replicas. With InterpretReplica.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// The parts of the object. With InterpretComponent.
	// +optional
	Components []workv1alpha2.Component `json:"components,omitempty"`

	// The objects that the object needs. With InterpretDependency.
	// +optional
	Dependencies []DependentObjectReference `json:"dependencies,omitempty"`

	// What is reported as status. With InterpretStatus.
	// +optional
	RawStatus *runtime.RawExtension `json:"rawStatus,omitempty"`

	// Whether the object does its work. With InterpretHealth.
	// +optional
	Healthy *bool `json:"healthy,omitempty"`
}

// RequestStatus reports why a question could not be answered.
type RequestStatus struct {
	// The reason, in words.
	// +optional
	Message string `json:"message,omitempty"`

	// The reason, as an HTTP status code.
	// +optional
	Code int32 `json:"code,omitempty"`
}

// PatchType is the format of a patch.
type PatchType string

// PatchTypeJSONPatch is a JSON patch (RFC 6902).
const PatchTypeJSONPatch PatchType = "JSONPatch"

// DependentObjectReference names an object, or several by their labels, that another object needs.
type DependentObjectReference struct {
	// Group and version, for example "v1".
	APIVersion string `json:"apiVersion"`

	// Kind.
	Kind string `json:"kind"`

	// Namespace. Empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// Name. Either it or labelSelector is set.
	// +optional
	Name string `json:"name,omitempty"`

	// Labels. Either they or name are set.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}
