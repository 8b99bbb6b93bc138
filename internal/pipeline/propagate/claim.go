package propagate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// Claim is what the metadata of a template or binding says about the policy it
// belongs to. The zero Claim is none.
type Claim struct {
	Policy PolicyKey
	// ID is the policy's permanent id at the time of the claim.
	ID string
}

// claimLabels and claimAnnotations are all keys that a claim may consist of.
var (
	claimLabels = []string{
		policyv1alpha1.PropagationPolicyPermanentIDLabel,
		policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel,
	}
	claimAnnotations = []string{
		policyv1alpha1.PropagationPolicyNamespaceAnnotation,
		policyv1alpha1.PropagationPolicyNameAnnotation,
		policyv1alpha1.ClusterPropagationPolicyNameAnnotation,
	}
)

// ClaimOn reads the claim of a template or binding. A namespaced policy's claim
// counts before a cluster-wide one.
func ClaimOn(obj metav1.Object) Claim {
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	if id := labels[policyv1alpha1.PropagationPolicyPermanentIDLabel]; id != "" {
		return Claim{ID: id, Policy: PolicyKey{
			Namespace: annotations[policyv1alpha1.PropagationPolicyNamespaceAnnotation],
			Name:      annotations[policyv1alpha1.PropagationPolicyNameAnnotation],
		}}
	}
	if id := labels[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel]; id != "" {
		return Claim{ID: id, Policy: PolicyKey{Name: annotations[policyv1alpha1.ClusterPropagationPolicyNameAnnotation]}}
	}
	return Claim{}
}

// claimOf is the claim of a policy.
func claimOf(policy policyv1alpha1.Propagation) Claim {
	return Claim{Policy: keyOf(policy), ID: policy.GetLabels()[policy.PermanentIDLabel()]}
}

// ownerKind is what has a template instead of a policy, such as "MultiClusterService shop/web"; empty if nothing has.
func ownerKind(meta metav1.Object) string {
	kind := meta.GetLabels()[policyv1alpha1.ResourceTemplateClaimedByLabel]
	name := meta.GetAnnotations()[networkingv1alpha1.MultiClusterServiceNameLabel]
	if kind != networkingv1alpha1.KindMultiClusterService || name == "" {
		return kind
	}
	return kind + " " + meta.GetAnnotations()[networkingv1alpha1.MultiClusterServiceNamespaceLabel] + "/" + name
}

// claimed says that anything of a claim is left on an object.
func claimed(obj metav1.Object) bool {
	for _, key := range claimLabels {
		if _, ok := obj.GetLabels()[key]; ok {
			return true
		}
	}
	for _, key := range claimAnnotations {
		if _, ok := obj.GetAnnotations()[key]; ok {
			return true
		}
	}
	return false
}

// claimKeys are the labels and annotations by which a policy claims an object.
func claimKeys(policy policyv1alpha1.Propagation) (labels, annotations map[string]string) {
	labels = map[string]string{policy.PermanentIDLabel(): policy.GetLabels()[policy.PermanentIDLabel()]}
	if policy.GetNamespace() == "" {
		return labels, map[string]string{policyv1alpha1.ClusterPropagationPolicyNameAnnotation: policy.GetName()}
	}
	return labels, map[string]string{
		policyv1alpha1.PropagationPolicyNamespaceAnnotation: policy.GetNamespace(),
		policyv1alpha1.PropagationPolicyNameAnnotation:      policy.GetName(),
	}
}

// claimPatch turns the metadata of an object into that of one claimed by policy,
// which must have its permanent id; a nil policy releases the object.
func claimPatch(obj metav1.Object, policy policyv1alpha1.Propagation) hubstore.MetadataPatch {
	var labels, annotations map[string]string
	if policy != nil {
		labels, annotations = claimKeys(policy)
	}
	return hubstore.MetadataPatch{
		UID:         obj.GetUID(),
		Labels:      hubstore.Difference(obj.GetLabels(), labels, claimLabels),
		Annotations: hubstore.Difference(obj.GetAnnotations(), annotations, claimAnnotations),
	}
}

// apply gives a map the changes; it copies before it writes.
func apply(have map[string]string, changes map[string]*string) map[string]string {
	result := make(map[string]string, len(have)+len(changes))
	for key, value := range have {
		result[key] = value
	}
	for key, value := range changes {
		if value == nil {
			delete(result, key)
			continue
		}
		result[key] = *value
	}
	return result
}
