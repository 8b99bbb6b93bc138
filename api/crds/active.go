package crds

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscalingv1alpha1 "github.com/flagship-k8s/flagship/api/autoscaling/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// NotYetActive returns the kinds that are served and stored before anything acts
// on them, each with the sentence that warns a user who creates one. The map is
// the caller's.
func NotYetActive() map[schema.GroupKind]string {
	return map[schema.GroupKind]string{
		{Group: autoscalingv1alpha1.GroupName, Kind: autoscalingv1alpha1.KindCronFederatedHPA}:  "CronFederatedHPA is stored, but nothing acts on it yet: nothing will be scaled.",
		{Group: autoscalingv1alpha1.GroupName, Kind: autoscalingv1alpha1.KindFederatedHPA}:      "FederatedHPA is stored, but nothing acts on it yet: nothing will be scaled.",
		{Group: networkingv1alpha1.GroupName, Kind: networkingv1alpha1.KindMultiClusterIngress}: "MultiClusterIngress is stored, but nothing acts on it here: it takes a load balancer controller that supports it.",
		{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindFederatedResourceQuota}:      "FederatedResourceQuota is stored, but nothing acts on it yet: no limit will be enforced.",
	}
}
