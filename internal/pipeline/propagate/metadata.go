package propagate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// claimPatch turns the metadata of an object into that of one IsClaimed by policy,
// which must have its permanent id; a nil policy releases the object.
func claimPatch(obj metav1.Object, propagation policyv1alpha1.Propagation) hubstore.MetadataPatch {
	var labels, annotations map[string]string
	if propagation != nil {
		labels, annotations = policy.ClaimMetadata(propagation)
	}
	return hubstore.MetadataPatch{
		UID:         obj.GetUID(),
		Labels:      hubstore.Difference(obj.GetLabels(), labels, policy.ClaimLabels),
		Annotations: hubstore.Difference(obj.GetAnnotations(), annotations, policy.ClaimAnnotations),
	}
}

func refOf(subject policy.Subject) hubstore.Ref {
	return hubstore.Ref{GroupVersionKind: subject.GroupVersionKind, Namespace: subject.Namespace, Name: subject.Name}
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
