package v1alpha1

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceInterpreterWebhookConfiguration interprets kinds with services that are
// called over HTTPS.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceinterpreterwebhookconfigurations,scope=Cluster,categories={karmada-io}
type ResourceInterpreterWebhookConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The services, and the operations of each.
	// +required
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(w, self.exists_one(v, v.name == w.name))",message="name must be unique"
	Webhooks []ResourceInterpreterWebhook `json:"webhooks"`
}

// ResourceInterpreterWebhookConfigurationList is a list of ResourceInterpreterWebhookConfiguration.
//
// +kubebuilder:object:root=true
type ResourceInterpreterWebhookConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceInterpreterWebhookConfiguration `json:"items"`
}

// ResourceInterpreterWebhook is one service and its operations.
//
// +kubebuilder:validation:XValidation:rule="has(self.clientConfig.url) != has(self.clientConfig.service)",fieldPath=".clientConfig",message="exactly one of url and service is needed"
// +kubebuilder:validation:XValidation:rule="!has(self.clientConfig.url) || self.clientConfig.url.startsWith('https://')",fieldPath=".clientConfig.url",message="url must begin with https://"
// +kubebuilder:validation:XValidation:rule="!has(self.timeoutSeconds) || (self.timeoutSeconds >= 1 && self.timeoutSeconds <= 30)",fieldPath=".timeoutSeconds",message="timeoutSeconds must be between 1 and 30"
// +kubebuilder:validation:XValidation:rule="size(self.interpreterContextVersions) > 0",fieldPath=".interpreterContextVersions",message="at least one version is needed"
type ResourceInterpreterWebhook struct {
	// Full name of the webhook, unique in the configuration, for example
	// "workloads.example.com".
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Where the service is: either a url or a service of the control plane.
	// +required
	ClientConfig admissionregistrationv1.WebhookClientConfig `json:"clientConfig"`

	// Which questions about which kinds the service answers.
	// +optional
	Rules []RuleWithOperations `json:"rules,omitempty"`

	// How long, in seconds, to wait for an answer: 1 to 30. Default 10.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// The versions of ResourceInterpreterContext that the service understands, the
	// preferred one first. Only "v1alpha1" exists.
	// +required
	InterpreterContextVersions []string `json:"interpreterContextVersions"`
}

// InterpreterOperation is an operation that interprets an object.
type InterpreterOperation string

// The values of InterpreterOperation.
const (
	// InterpreterOperationAll stands for every operation.
	InterpreterOperationAll InterpreterOperation = "*"
	// InterpreterOperationInterpretReplica returns the number of replicas and their requirements.
	InterpreterOperationInterpretReplica InterpreterOperation = "InterpretReplica"
	// InterpreterOperationInterpretComponent returns the parts of an object and their requirements.
	InterpreterOperationInterpretComponent InterpreterOperation = "InterpretComponent"
	// InterpreterOperationReviseReplica returns the object with another number of replicas.
	InterpreterOperationReviseReplica InterpreterOperation = "ReviseReplica"
	// InterpreterOperationRetain returns the desired object with what a member set kept.
	InterpreterOperationRetain InterpreterOperation = "Retain"
	// InterpreterOperationAggregateStatus returns the object with the sum of all statuses.
	InterpreterOperationAggregateStatus InterpreterOperation = "AggregateStatus"
	// InterpreterOperationInterpretDependency returns the objects that an object needs.
	InterpreterOperationInterpretDependency InterpreterOperation = "InterpretDependency"
	// InterpreterOperationInterpretStatus returns what is reported as status.
	InterpreterOperationInterpretStatus InterpreterOperation = "InterpretStatus"
	// InterpreterOperationInterpretHealth returns whether an object is healthy.
	InterpreterOperationInterpretHealth InterpreterOperation = "InterpretHealth"
)

// RuleWithOperations defines for which operations on which kinds the service is called.
type RuleWithOperations struct {
	// The questions, or "*" for all: InterpretReplica, InterpretComponent,
	// ReviseReplica, Retain, AggregateStatus, InterpretDependency, InterpretStatus,
	// InterpretHealth.
	// +required
	Operations []InterpreterOperation `json:"operations"`

	Rule `json:",inline"`
}

// Rule picks kinds.
type Rule struct {
	// The API groups, or "*" for all.
	// +required
	APIGroups []string `json:"apiGroups"`

	// The API versions, or "*" for all.
	// +required
	APIVersions []string `json:"apiVersions"`

	// The kinds, or "*" for all.
	// +required
	Kinds []string `json:"kinds"`
}
