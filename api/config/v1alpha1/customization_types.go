package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceInterpreterCustomization interprets one kind with scripts in Lua. A script
// implements one operation; operations without a script work as if this object did
// not exist. Of several customizations of a kind, the first by name that has a
// script for the operation is used; dependencies are collected from all of them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceinterpretercustomizations,scope=Cluster,shortName=ric,categories={karmada-io}
// +kubebuilder:printcolumn:JSONPath=`.spec.target.apiVersion`,name=TARGET-API-VERSION,type=string
// +kubebuilder:printcolumn:JSONPath=`.spec.target.kind`,name=TARGET-KIND,type=string
// +kubebuilder:printcolumn:JSONPath=`.metadata.creationTimestamp`,name=AGE,type=date
type ResourceInterpreterCustomization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The kind and its scripts.
	// +required
	Spec ResourceInterpreterCustomizationSpec `json:"spec"`
}

// ResourceInterpreterCustomizationList is a list of ResourceInterpreterCustomization.
//
// +kubebuilder:object:root=true
type ResourceInterpreterCustomizationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceInterpreterCustomization `json:"items"`
}

// ResourceInterpreterCustomizationSpec is a kind and its scripts.
type ResourceInterpreterCustomizationSpec struct {
	// The kind. Cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="target is immutable"
	Target CustomizationTarget `json:"target"`

	// The scripts.
	// +required
	Customizations CustomizationRules `json:"customizations"`
}

// CustomizationTarget names a kind.
type CustomizationTarget struct {
	// Group and version, for example "apps/v1".
	// +required
	APIVersion string `json:"apiVersion"`

	// Kind, for example "Deployment".
	// +required
	Kind string `json:"kind"`
}

// CustomizationRules holds one script per question.
type CustomizationRules struct {
	// What of a member's object is kept when it is overwritten.
	// +optional
	Retention *LocalValueRetention `json:"retention,omitempty"`

	// How many replicas an object has and what each of them needs.
	// +optional
	ReplicaResource *ReplicaResourceRequirement `json:"replicaResource,omitempty"`

	// How an object is given another number of replicas.
	// +optional
	ReplicaRevision *ReplicaRevision `json:"replicaRevision,omitempty"`

	// What of a member's object is reported as its status.
	// +optional
	StatusReflection *StatusReflection `json:"statusReflection,omitempty"`

	// How the statuses of all copies become the status of the object here.
	// +optional
	StatusAggregation *StatusAggregation `json:"statusAggregation,omitempty"`

	// Whether an object does its work.
	// +optional
	HealthInterpretation *HealthInterpretation `json:"healthInterpretation,omitempty"`

	// Which other objects an object needs.
	// +optional
	DependencyInterpretation *DependencyInterpretation `json:"dependencyInterpretation,omitempty"`

	// Which parts an object with several pod templates has, and what they need.
	// +optional
	ComponentResource *ComponentResourceRequirement `json:"componentResource,omitempty"`
}

// LocalValueRetention defines what of a member's object is kept.
type LocalValueRetention struct {
	// A Lua script that defines Retain(desiredObj, observedObj) and returns the
	// object to write.
	// +required
	LuaScript string `json:"luaScript"`
}

// ReplicaResourceRequirement defines how many replicas an object has.
type ReplicaResourceRequirement struct {
	// A Lua script that defines GetReplicas(desiredObj) and returns the number of
	// replicas and the requirements of each.
	// +required
	LuaScript string `json:"luaScript"`
}

// ReplicaRevision changes the number of replicas.
type ReplicaRevision struct {
	// A Lua script that defines ReviseReplica(desiredObj, desiredReplica) and returns
	// the changed object.
	// +required
	LuaScript string `json:"luaScript"`
}

// StatusReflection defines what is reported as status.
type StatusReflection struct {
	// A Lua script that defines ReflectStatus(observedObj) and returns the status.
	// +required
	LuaScript string `json:"luaScript"`
}

// StatusAggregation folds many statuses into one.
type StatusAggregation struct {
	// A Lua script that defines AggregateStatus(desiredObj, statusItems) and returns
	// the object with its status set.
	// +required
	LuaScript string `json:"luaScript"`
}

// HealthInterpretation defines whether an object does its work.
type HealthInterpretation struct {
	// A Lua script that defines InterpretHealth(observedObj) and returns true or false.
	// +required
	LuaScript string `json:"luaScript"`
}

// DependencyInterpretation defines which other objects an object needs.
type DependencyInterpretation struct {
	// A Lua script that defines GetDependencies(desiredObj) and returns a list of
	// references: apiVersion, kind, namespace, and name or labelSelector.
	// +required
	LuaScript string `json:"luaScript"`
}

// ComponentResourceRequirement defines which parts an object has.
type ComponentResourceRequirement struct {
	// A Lua script that defines GetComponents(desiredObj) and returns a list of
	// parts: name, replicas and replicaRequirements.
	// +required
	LuaScript string `json:"luaScript"`
}
