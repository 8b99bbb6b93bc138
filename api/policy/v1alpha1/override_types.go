package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OverridePolicy edits objects of its own namespace on their way into member clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=overridepolicies,scope=Namespaced,shortName=op,categories={karmada-io}
type OverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which objects are edited, where, and how.
	// +required
	Spec OverrideSpec `json:"spec"`
}

// OverridePolicyList is a list of OverridePolicy.
//
// +kubebuilder:object:root=true
type OverridePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OverridePolicy `json:"items"`
}

// ClusterOverridePolicy edits objects of any namespace, and cluster-scoped
// objects, on their way into member clusters. It acts before any OverridePolicy.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusteroverridepolicies,scope=Cluster,shortName=cop,categories={karmada-io}
type ClusterOverridePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Which objects are edited, where, and how.
	// +required
	Spec OverrideSpec `json:"spec"`
}

// ClusterOverridePolicyList is a list of ClusterOverridePolicy.
//
// +kubebuilder:object:root=true
type ClusterOverridePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterOverridePolicy `json:"items"`
}

// OverrideSpec is what both kinds of override policy say.
//
// +kubebuilder:validation:XValidation:rule="!has(self.overrideRules) || size(self.overrideRules) == 0 || !has(self.targetCluster)",fieldPath=".targetCluster",message="targetCluster cannot be combined with overrideRules"
// +kubebuilder:validation:XValidation:rule="!has(self.overrideRules) || size(self.overrideRules) == 0 || !has(self.overriders) || !(has(self.overriders.plaintext) || has(self.overriders.imageOverrider) || has(self.overriders.commandOverrider) || has(self.overriders.argsOverrider) || has(self.overriders.labelsOverrider) || has(self.overriders.annotationsOverrider) || has(self.overriders.fieldOverrider))",fieldPath=".overriders",message="overriders cannot be combined with overrideRules"
type OverrideSpec struct {
	// The objects to edit. Unset means every object that reaches a member cluster.
	// +optional
	ResourceSelectors []ResourceSelector `json:"resourceSelectors,omitempty"`

	// Edits, each for some clusters. All rules that match a cluster apply, in order.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	OverrideRules []RuleWithCluster `json:"overrideRules,omitempty"`

	// Deprecated: use overrideRules.
	// +optional
	TargetCluster *ClusterAffinity `json:"targetCluster,omitempty"`

	// Deprecated: use overrideRules.
	// +optional
	Overriders Overriders `json:"overriders,omitempty"`
}

// RuleWithCluster is a set of edits for some clusters.
type RuleWithCluster struct {
	// The clusters in which the edits show. Unset means every cluster.
	// +optional
	TargetCluster *ClusterAffinity `json:"targetCluster,omitempty"`

	// The edits.
	// +required
	Overriders Overriders `json:"overriders"`
}

// Overriders is a set of edits. They run in this order: image, command, args,
// labels, annotations, field, plaintext.
type Overriders struct {
	// JSON patches on any field.
	// +optional
	Plaintext []PlaintextOverrider `json:"plaintext,omitempty"`

	// Edits of container images.
	// +optional
	ImageOverrider []ImageOverrider `json:"imageOverrider,omitempty"`

	// Edits of the commands of containers.
	// +optional
	CommandOverrider []CommandArgsOverrider `json:"commandOverrider,omitempty"`

	// Edits of the arguments of containers.
	// +optional
	ArgsOverrider []CommandArgsOverrider `json:"argsOverrider,omitempty"`

	// Edits of the object's labels.
	// +optional
	LabelsOverrider []LabelAnnotationOverrider `json:"labelsOverrider,omitempty"`

	// Edits of the object's annotations.
	// +optional
	AnnotationsOverrider []LabelAnnotationOverrider `json:"annotationsOverrider,omitempty"`

	// Edits inside a string field that holds a JSON or YAML document, such as a
	// key of a ConfigMap's data.
	// +optional
	FieldOverrider []FieldOverrider `json:"fieldOverrider,omitempty"`
}

// OverriderOperator describes what an edit does.
type OverriderOperator string

// The values of OverriderOperator.
const (
	OverriderOpAdd     OverriderOperator = "add"
	OverriderOpRemove  OverriderOperator = "remove"
	OverriderOpReplace OverriderOperator = "replace"
)

// PlaintextOverrider is one JSON patch operation.
type PlaintextOverrider struct {
	// Where to edit, as a JSON pointer (RFC 6901), for example "/spec/replicas".
	// +required
	Path string `json:"path"`

	// "add", "remove" or "replace", as in a JSON patch (RFC 6902): remove and
	// replace fail if there is nothing at the path.
	// +required
	// +kubebuilder:validation:Enum=add;remove;replace
	Operator OverriderOperator `json:"operator"`

	// The new value, any JSON. Not used by remove.
	// +optional
	Value apiextensionsv1.JSON `json:"value,omitempty"`
}

// ImageComponent is a part of an image reference.
type ImageComponent string

// The values of ImageComponent.
const (
	Registry   ImageComponent = "Registry"
	Repository ImageComponent = "Repository"
	Tag        ImageComponent = "Tag"
)

// ImageOverrider edits one part of image references.
type ImageOverrider struct {
	// The field that holds the image. Unset means the image of every container and init
	// container of a Pod and of the built-in kinds that make Pods, not of ephemeral ones.
	// +optional
	Predicate *ImagePredicate `json:"predicate,omitempty"`

	// The part to edit: "Registry", "Repository" or "Tag" (which is also a digest).
	// For registry.example/lib/nginx:1.2 these are registry.example, lib/nginx and 1.2.
	// +required
	// +kubebuilder:validation:Enum=Registry;Repository;Tag
	Component ImageComponent `json:"component"`

	// "add" appends value to the part, "remove" removes the part, "replace" puts
	// value in its place.
	// +required
	// +kubebuilder:validation:Enum=add;remove;replace
	Operator OverriderOperator `json:"operator"`

	// The text to append or to put in. Not used by remove.
	// +optional
	Value string `json:"value,omitempty"`
}

// ImagePredicate names a field that holds an image.
type ImagePredicate struct {
	// JSON pointer (RFC 6901) to the field, for example "/spec/template/spec/containers/0/image".
	// +required
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="path must be a JSON pointer that starts with a slash"
	Path string `json:"path"`
}

// CommandArgsOverrider edits the command or the arguments of one container.
type CommandArgsOverrider struct {
	// Name of the container.
	// +required
	ContainerName string `json:"containerName"`

	// "add" appends the values, "remove" deletes every item equal to one of them.
	// +required
	// +kubebuilder:validation:Enum=add;remove
	Operator OverriderOperator `json:"operator"`

	// The items to add or remove.
	// +optional
	Value []string `json:"value,omitempty"`
}

// LabelAnnotationOverrider edits labels or annotations.
type LabelAnnotationOverrider struct {
	// "add" sets the pairs, "replace" sets those whose key exists, "remove" deletes
	// those whose key exists.
	// +required
	// +kubebuilder:validation:Enum=add;remove;replace
	Operator OverriderOperator `json:"operator"`

	// The pairs. For remove the values do not matter.
	// +required
	Value map[string]string `json:"value"`
}

// FieldOverrider edits a JSON or YAML document inside a string field.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.json) && size(self.json) > 0 && has(self.yaml) && size(self.yaml) > 0)",message="json and yaml are mutually exclusive"
type FieldOverrider struct {
	// JSON pointer (RFC 6901) to the string field, for example "/data/config.yaml".
	// +required
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/')",message="fieldPath must be a JSON pointer that starts with a slash"
	FieldPath string `json:"fieldPath"`

	// Edits of the field's content read as JSON. Cannot be combined with yaml.
	// +optional
	JSON []JSONPatchOperation `json:"json,omitempty"`

	// Edits of the field's content read as YAML. Cannot be combined with json.
	// +optional
	YAML []YAMLPatchOperation `json:"yaml,omitempty"`
}

// JSONPatchOperation is one edit of a JSON document.
type JSONPatchOperation struct {
	// Where to edit inside the document, as a JSON pointer (RFC 6901).
	// +required
	SubPath string `json:"subPath"`

	// "add", "remove" or "replace", as in a JSON patch (RFC 6902).
	// +required
	// +kubebuilder:validation:Enum=add;remove;replace
	Operator OverriderOperator `json:"operator"`

	// The new value, any JSON. Not used by remove.
	// +optional
	Value apiextensionsv1.JSON `json:"value,omitempty"`
}

// YAMLPatchOperation is one edit of a YAML document.
type YAMLPatchOperation struct {
	// Where to edit inside the document, as a JSON pointer (RFC 6901).
	// +required
	SubPath string `json:"subPath"`

	// "add", "remove" or "replace", as in a JSON patch (RFC 6902).
	// +required
	// +kubebuilder:validation:Enum=add;remove;replace
	Operator OverriderOperator `json:"operator"`

	// The new value, any JSON. Not used by remove.
	// +optional
	Value apiextensionsv1.JSON `json:"value,omitempty"`
}
