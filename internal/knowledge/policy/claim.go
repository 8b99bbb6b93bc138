package policy

import (
	"fmt"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Claim names the policy that a template or binding belongs to. It is kept in labels and annotations. The zero Claim is none.
type Claim struct {
	Policy Key
	// ID is the policy's permanent id at the time of the claim.
	ID string
}

// ClaimLabels and ClaimAnnotations are all keys of a claim.
var (
	ClaimLabels = []string{
		policyv1alpha1.PropagationPolicyPermanentIDLabel,
		policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel,
	}
	ClaimAnnotations = []string{
		policyv1alpha1.PropagationPolicyNamespaceAnnotation,
		policyv1alpha1.PropagationPolicyNameAnnotation,
		policyv1alpha1.ClusterPropagationPolicyNameAnnotation,
	}
)

// ClaimOn reads the claim of a template or binding. The claim of a namespaced policy counts before that of a cluster-wide one.
func ClaimOn(obj metav1.Object) Claim {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	if id := labels[policyv1alpha1.PropagationPolicyPermanentIDLabel]; id != "" {
		return Claim{ID: id, Policy: Key{
			Namespace: annotations[policyv1alpha1.PropagationPolicyNamespaceAnnotation],
			Name:      annotations[policyv1alpha1.PropagationPolicyNameAnnotation],
		}}
	}
	if id := labels[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel]; id != "" {
		return Claim{ID: id, Policy: Key{Name: annotations[policyv1alpha1.ClusterPropagationPolicyNameAnnotation]}}
	}
	return Claim{}
}

// ClaimOf returns the claim that a policy makes.
func ClaimOf(policy policyv1alpha1.Propagation) Claim {
	return Claim{Policy: KeyOf(policy), ID: policy.GetLabels()[policy.PermanentIDLabel()]}
}

// OtherOwner returns what owns a template instead of a policy, such as "MultiClusterService shop/web"; empty if nothing does.
func OtherOwner(meta metav1.Object) string {
	kind := meta.GetLabels()[policyv1alpha1.ResourceTemplateClaimedByLabel]
	name := meta.GetAnnotations()[networkingv1alpha1.MultiClusterServiceNameLabel]
	if kind != networkingv1alpha1.KindMultiClusterService || name == "" {
		return kind
	}
	return kind + " " + meta.GetAnnotations()[networkingv1alpha1.MultiClusterServiceNamespaceLabel] + "/" + name
}

// IsClaimed returns whether an object has any label or annotation of a claim.
func IsClaimed(obj metav1.Object) bool {
	for _, key := range ClaimLabels {
		if _, ok := obj.GetLabels()[key]; ok {
			return true
		}
	}
	for _, key := range ClaimAnnotations {
		if _, ok := obj.GetAnnotations()[key]; ok {
			return true
		}
	}
	return false
}

// ClaimMetadata returns the labels and annotations by which a policy claims an object. The policy has its permanent id.
func ClaimMetadata(policy policyv1alpha1.Propagation) (labels, annotations map[string]string) {
	labels = map[string]string{policy.PermanentIDLabel(): policy.GetLabels()[policy.PermanentIDLabel()]}
	if policy.GetNamespace() == "" {
		return labels, map[string]string{policyv1alpha1.ClusterPropagationPolicyNameAnnotation: policy.GetName()}
	}
	return labels, map[string]string{
		policyv1alpha1.PropagationPolicyNamespaceAnnotation: policy.GetNamespace(),
		policyv1alpha1.PropagationPolicyNameAnnotation:      policy.GetName(),
	}
}

// claimBytes bounds what a claim adds to the annotations of a template: the names of a policy and its namespace, with their keys.
const claimBytes = 1 << 10

// CheckAnnotations returns an error for a template whose annotations are so large that the API server may refuse a claim beside them. It is
// bound to no policy then, and goes to no member.
func CheckAnnotations(template metav1.Object) error {
	size := 0
	for key, value := range template.GetAnnotations() {
		size += len(key) + len(value)
	}
	if size > apivalidation.TotalAnnotationSizeLimitB-claimBytes {
		return fmt.Errorf("metadata.annotations: they have %d bytes, and those of the control plane need %d of the %d that an object may have: shorten them, or no policy applies",
			size, claimBytes, apivalidation.TotalAnnotationSizeLimitB)
	}
	return nil
}
