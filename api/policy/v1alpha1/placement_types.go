package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Placement defines which clusters objects go to and how replicas are shared among them.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.clusterAffinity) && has(self.clusterAffinities) && size(self.clusterAffinities) > 0)",fieldPath=".clusterAffinities",message="clusterAffinities cannot be combined with clusterAffinity"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterAffinities) || !self.clusterAffinities.exists(a, has(a.overflowAffinities) && size(a.overflowAffinities) > 0) || (has(self.replicaScheduling) && (!has(self.replicaScheduling.replicaSchedulingType) || self.replicaScheduling.replicaSchedulingType == 'Divided') && ((has(self.replicaScheduling.replicaDivisionPreference) && self.replicaScheduling.replicaDivisionPreference == 'Aggregated') || (has(self.replicaScheduling.weightPreference) && has(self.replicaScheduling.weightPreference.dynamicWeight))))",fieldPath=".clusterAffinities",message="overflowAffinities need replicaScheduling to be Divided with preference Aggregated or with a dynamic weight"
type Placement struct {
	// The clusters to choose from. Unset (and without clusterAffinities), every
	// cluster is a candidate. Cannot be combined with clusterAffinities.
	// +optional
	ClusterAffinity *ClusterAffinity `json:"clusterAffinity,omitempty"`

	// Several groups of clusters, in order of preference: the first group in which
	// the objects fit is used. Cannot be combined with clusterAffinity.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.affinityName == b.affinityName))",message="affinityName must be unique"
	ClusterAffinities []ClusterAffinityTerm `json:"clusterAffinities,omitempty"`

	// The cluster taints that the objects tolerate. The operators Lt and Gt are not supported.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator in ['', 'Exists', 'Equal'])",message="operator must be Exists or Equal"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.effect) || t.effect in ['', 'NoSchedule', 'PreferNoSchedule', 'NoExecute'])",message="effect must be NoSchedule, PreferNoSchedule or NoExecute"
	// +kubebuilder:validation:XValidation:rule="self.all(t, (has(t.key) && t.key != '') || (has(t.operator) && t.operator == 'Exists'))",message="operator must be Exists when key is empty"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value) || t.value == '')",message="value must be empty when operator is Exists"
	// +kubebuilder:validation:XValidation:rule="self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",message="effect must be NoExecute when tolerationSeconds is set"
	ClusterTolerations []corev1.Toleration `json:"clusterTolerations,omitempty"`

	// How many groups of clusters (regions, or clusters themselves) the objects are
	// spread over. Any constraint by another field needs one by "cluster" beside it.
	// Without effect where a staticWeightList divides the replicas, unless an
	// annotation has them hold.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, has(c.spreadByField) && c.spreadByField != 'cluster') || self.exists(c, has(c.spreadByField) ? c.spreadByField == 'cluster' : !has(c.spreadByLabel))",message="a constraint with spreadByField cluster is needed beside any other spreadByField"
	// +kubebuilder:validation:XValidation:rule="['cluster', 'region', 'zone', 'provider'].all(f, self.filter(c, has(c.spreadByField) && c.spreadByField == f).size() <= 1)",message="spreadByField must be unique"
	SpreadConstraints []SpreadConstraint `json:"spreadConstraints,omitempty"`

	// How replicas are shared among the chosen clusters. Without it, every cluster
	// receives all of them.
	// +optional
	ReplicaScheduling *ReplicaSchedulingStrategy `json:"replicaScheduling,omitempty"`

	// Keeps objects of one namespace together or apart by the value of one of their labels.
	// +optional
	WorkloadAffinity *WorkloadAffinity `json:"workloadAffinity,omitempty"`
}

// ClusterAffinity picks clusters. A cluster named in exclude is never picked;
// any other one must match labelSelector, fieldSelector and clusterNames, as far
// as they are given.
type ClusterAffinity struct {
	// Labels of the clusters. Unset means any.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// Fields of the clusters: provider, region and zone. Unset means any.
	// +optional
	FieldSelector *FieldSelector `json:"fieldSelector,omitempty"`

	// Names of the clusters. Empty means any.
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`

	// Names of clusters that are never picked.
	// +optional
	ExcludeClusters []string `json:"exclude,omitempty"`
}

// ClusterAffinityTerm is one group of clusters among several to be tried in order.
//
// +kubebuilder:validation:XValidation:rule="!has(self.overflowAffinities) || size(self.overflowAffinities) == 0 || has(self.labelSelector) || has(self.fieldSelector) || (has(self.clusterNames) && size(self.clusterNames) > 0) || (has(self.exclude) && size(self.exclude) > 0)",fieldPath=".overflowAffinities",message="overflowAffinities need a group that selects clusters itself"
type ClusterAffinityTerm struct {
	// Name of the group, unique in the policy, 1 to 32 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	AffinityName string `json:"affinityName"`

	ClusterAffinity `json:",inline"`

	// Further tiers of clusters, in order, that only receive the replicas which the
	// tiers before them cannot hold. Needs replicas that are divided by preference
	// Aggregated or by dynamic weight.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.affinityName == b.affinityName))",message="affinityName must be unique"
	OverflowAffinities []OverflowAffinityTerm `json:"overflowAffinities,omitempty"`
}

// OverflowAffinityTerm is one tier of clusters that receives what earlier tiers cannot hold.
type OverflowAffinityTerm struct {
	// Name of the tier, unique in its group, 1 to 32 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	AffinityName string `json:"affinityName"`

	ClusterAffinity `json:",inline"`
}

// FieldSelector picks clusters by their provider, region and zones.
//
// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.key in ['provider', 'region', 'zone'])",fieldPath=".matchExpressions",message="key must be provider, region or zone"
// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'])",fieldPath=".matchExpressions",message="operator must be In or NotIn"
type FieldSelector struct {
	// Requirements that must all hold. Keys are provider, region and zone, operators
	// In and NotIn. For zone, In holds if any of the cluster's zones is listed, and
	// NotIn if none is.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	MatchExpressions []corev1.NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// Keys of FieldSelector requirements.
const (
	ProviderField = "provider"
	RegionField   = "region"
	ZoneField     = "zone"
)

// SpreadFieldValue names a property of clusters by which they form groups.
type SpreadFieldValue string

// The values of SpreadFieldValue.
const (
	SpreadByFieldCluster  SpreadFieldValue = "cluster"
	SpreadByFieldRegion   SpreadFieldValue = "region"
	SpreadByFieldZone     SpreadFieldValue = "zone"
	SpreadByFieldProvider SpreadFieldValue = "provider"
)

// SpreadConstraint defines over how many groups of clusters objects are spread.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.spreadByField) && has(self.spreadByLabel) && size(self.spreadByLabel) > 0)",fieldPath=".spreadByLabel",message="spreadByField and spreadByLabel are mutually exclusive"
// +kubebuilder:validation:XValidation:rule="!has(self.minGroups) || self.minGroups >= 0",fieldPath=".minGroups",message="minGroups must not be negative"
// +kubebuilder:validation:XValidation:rule="!has(self.maxGroups) || self.maxGroups >= 0",fieldPath=".maxGroups",message="maxGroups must not be negative"
// +kubebuilder:validation:XValidation:rule="!has(self.maxGroups) || self.maxGroups == 0 || !has(self.minGroups) || self.minGroups <= self.maxGroups",fieldPath=".minGroups",message="minGroups must not be greater than maxGroups"
type SpreadConstraint struct {
	// The property by which clusters form groups. Cannot be combined with
	// spreadByLabel. Default "cluster".
	// +optional
	// +kubebuilder:validation:Enum=cluster;region;zone;provider
	SpreadByField SpreadFieldValue `json:"spreadByField,omitempty"`

	// The label by whose value clusters form groups. Cannot be combined with
	// spreadByField.
	// +optional
	SpreadByLabel string `json:"spreadByLabel,omitempty"`

	// The largest number of groups to choose. 0 means no limit.
	// +optional
	MaxGroups int `json:"maxGroups,omitempty"`

	// The smallest number of groups to choose. Default 1.
	// +optional
	MinGroups int `json:"minGroups,omitempty"`
}

// ReplicaSchedulingType defines whether clusters share replicas.
type ReplicaSchedulingType string

// The values of ReplicaSchedulingType.
const (
	ReplicaSchedulingTypeDuplicated ReplicaSchedulingType = "Duplicated"
	ReplicaSchedulingTypeDivided    ReplicaSchedulingType = "Divided"
)

// ReplicaDivisionPreference defines how replicas are divided among clusters.
type ReplicaDivisionPreference string

// The values of ReplicaDivisionPreference.
const (
	ReplicaDivisionPreferenceAggregated ReplicaDivisionPreference = "Aggregated"
	ReplicaDivisionPreferenceWeighted   ReplicaDivisionPreference = "Weighted"
)

// DynamicWeightFactor names what a cluster's weight is computed from.
type DynamicWeightFactor string

// DynamicWeightByAvailableReplicas weighs a cluster by how many more replicas fit into it.
const DynamicWeightByAvailableReplicas DynamicWeightFactor = "AvailableReplicas"

// ReplicaSchedulingStrategy defines how replicas are shared among clusters.
type ReplicaSchedulingStrategy struct {
	// "Duplicated" gives every cluster all replicas, "Divided" shares them. Default
	// "Divided" (but Duplicated if the whole of replicaScheduling is left out).
	// +optional
	// +kubebuilder:validation:Enum=Duplicated;Divided
	// +kubebuilder:default=Divided
	ReplicaSchedulingType ReplicaSchedulingType `json:"replicaSchedulingType,omitempty"`

	// How replicas are divided: "Aggregated" into as few clusters as possible,
	// "Weighted" by weightPreference. Only with Divided. Default "Weighted".
	// +optional
	// +kubebuilder:validation:Enum=Aggregated;Weighted
	ReplicaDivisionPreference ReplicaDivisionPreference `json:"replicaDivisionPreference,omitempty"`

	// The weights of the clusters. Only with Weighted. Unset means equal weights.
	// +optional
	WeightPreference *ClusterPreferences `json:"weightPreference,omitempty"`
}

// ClusterPreferences holds the weights of clusters.
type ClusterPreferences struct {
	// Fixed weights. A cluster that several entries match has the largest of their
	// weights; one that no entry matches receives nothing.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	StaticWeightList []StaticClusterWeight `json:"staticWeightList,omitempty"`

	// "AvailableReplicas" weighs each cluster by how many more replicas fit into it.
	// If set, staticWeightList is ignored.
	// +optional
	// +kubebuilder:validation:Enum=AvailableReplicas
	DynamicWeight DynamicWeightFactor `json:"dynamicWeight,omitempty"`
}

// StaticClusterWeight is the fixed weight of some clusters.
type StaticClusterWeight struct {
	// The clusters that have the weight.
	// +required
	TargetCluster ClusterAffinity `json:"targetCluster"`

	// The weight, relative to that of the other clusters. At least 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Weight int64 `json:"weight"`
}

// WorkloadAffinity keeps objects together or apart.
//
// +kubebuilder:validation:XValidation:rule="!has(self.affinity) || !has(self.antiAffinity) || self.affinity.groupByLabelKey != self.antiAffinity.groupByLabelKey",message="affinity and antiAffinity must use different label keys"
type WorkloadAffinity struct {
	// Objects of one namespace with the same value of this label go to the same clusters.
	// +optional
	Affinity *WorkloadAffinityTerm `json:"affinity,omitempty"`

	// Objects of one namespace with the same value of this label go to different clusters.
	// +optional
	AntiAffinity *WorkloadAntiAffinityTerm `json:"antiAffinity,omitempty"`
}

// WorkloadAffinityTerm names the label that keeps objects together.
type WorkloadAffinityTerm struct {
	// Key of the label. Objects without it are not affected.
	// +required
	GroupByLabelKey string `json:"groupByLabelKey"`
}

// WorkloadAntiAffinityTerm names the label that keeps objects apart.
type WorkloadAntiAffinityTerm struct {
	// Key of the label. Objects without it are not affected.
	// +required
	GroupByLabelKey string `json:"groupByLabelKey"`
}

// HasStaticWeights returns whether replicas are divided by weights that the placement has. Without them, static weights are equal.
func (p *Placement) HasStaticWeights() bool {
	s := p.ReplicaScheduling
	return s != nil && s.ReplicaSchedulingType != ReplicaSchedulingTypeDuplicated && s.ReplicaDivisionPreference != ReplicaDivisionPreferenceAggregated &&
		s.WeightPreference != nil && s.WeightPreference.DynamicWeight == "" && len(s.WeightPreference.StaticWeightList) > 0
}
