package eviction

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// IsStateful returns whether the object of a binding is a StatefulSet or a claim, or a workload whose template has persistent volumes.
// Template is called only where the kind does not show it; a template that does not exist has none.
func IsStateful(b workv1alpha2.Binding, template func() (*unstructured.Unstructured, error)) (bool, error) {
	spec := b.BindingSpec()
	if spec.Resource.Kind == "StatefulSet" || spec.Resource.Kind == "PersistentVolumeClaim" {
		return true, nil
	}
	if spec.Replicas == 0 && spec.ReplicaRequirements == nil && len(spec.Components) == 0 {
		return false, nil // no workload
	}
	obj, err := template()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the template: %w", err)
	}
	return mentionsClaims(obj.Object["spec"]), nil
}

// mentionsClaims returns whether a part of a manifest has volumes of claims, or templates of claims: pod templates are in different
// places of different kinds.
func mentionsClaims(part any) bool {
	switch part := part.(type) {
	case map[string]any:
		for key, value := range part {
			if (key == "persistentVolumeClaim" || key == "volumeClaimTemplates") && value != nil || mentionsClaims(value) {
				return true
			}
		}
	case []any:
		for _, value := range part {
			if mentionsClaims(value) {
				return true
			}
		}
	}
	return false
}
