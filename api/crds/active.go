package crds

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscalingv1alpha1 "github.com/flagship-k8s/flagship/api/autoscaling/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	remedyv1alpha1 "github.com/flagship-k8s/flagship/api/remedy/v1alpha1"
)

// NotYetActive returns the kinds that are served and stored before anything acts
// on them, each with the sentence that warns a user who creates one. The map is
// the caller's.
func NotYetActive() map[schema.GroupKind]string {
	return map[schema.GroupKind]string{
		{Group: autoscalingv1alpha1.GroupName, Kind: autoscalingv1alpha1.KindCronFederatedHPA}:  "CronFederatedHPA is stored, but nothing acts on it yet: nothing will be scaled.",
		{Group: autoscalingv1alpha1.GroupName, Kind: autoscalingv1alpha1.KindFederatedHPA}:      "FederatedHPA is stored, but nothing acts on it yet: nothing will be scaled.",
		{Group: networkingv1alpha1.GroupName, Kind: networkingv1alpha1.KindMultiClusterIngress}: "MultiClusterIngress is stored, but nothing acts on it here: it takes a load balancer controller that knows it.",
		{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterTaintPolicy}:          "ClusterTaintPolicy is stored, but nothing acts on it yet: no cluster will be tainted.",
		{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindFederatedResourceQuota}:      "FederatedResourceQuota is stored, but nothing acts on it yet: no limit will be enforced.",
		{Group: remedyv1alpha1.GroupName, Kind: remedyv1alpha1.KindRemedy}:                      "Remedy is stored, but nothing acts on it yet: no action will be taken.",
	}
}

// InactiveField is a field that is accepted and stored before anything acts on it.
type InactiveField struct {
	// Path leads to the field by the names of the schema, from the top of the object. A list stands for each of its items.
	Path []string
	// Text says what does not happen. It follows the path of the field in the warning.
	Text string
}

// NotYetActiveFields returns, for kinds that are active, the fields that nothing acts on. The map is the caller's.
func NotYetActiveFields() map[schema.GroupKind][]InactiveField {
	const (
		stays     = "is stored, but nothing acts on it yet: what runs in a cluster that fails stays there"
		tolerates = "is stored, but nothing acts on it yet: a taint evicts nothing, so that the toleration never ends"
	)
	propagation := []InactiveField{
		{Path: []string{"spec", "failover", "application"}, Text: stays},
		{Path: []string{"spec", "failover", "cluster"}, Text: stays},
		{Path: []string{"spec", "placement", "clusterTolerations", "tolerationSeconds"}, Text: tolerates},
	}
	return map[schema.GroupKind][]InactiveField{
		{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindPropagationPolicy}:        propagation,
		{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterPropagationPolicy}: propagation,
	}
}
