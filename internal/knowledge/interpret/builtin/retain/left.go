package retain

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Left returns what controllers in members change by convention, though manifests have it: fields that keep the value of the member, and
// lists in which items of others stay. Both are JSON pointers, in which `*` is any item. What a manifest does not have needs no rule: apply leaves it.
func Left(manifest *unstructured.Unstructured) (fields, lists []string) {
	switch manifest.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return nil, accountLists // registries add pull secrets, older clusters tokens
	case schema.GroupKind{Group: "ray.io", Kind: "RayCluster"}:
		if scales, _, _ := unstructured.NestedBool(manifest.Object, "spec", "enableInTreeAutoscaling"); scales {
			return []string{"/spec/workerGroupSpecs/*/replicas", "/spec/workerGroupSpecs/*/scaleStrategy"}, nil
		}
	}
	return nil, nil
}

// accountLists are the lists of a ServiceAccount to which controllers add.
var accountLists = []string{"/secrets", "/imagePullSecrets"}
