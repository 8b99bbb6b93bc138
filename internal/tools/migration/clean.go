package migration

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// pruner removes from an object what an API server or a controller set; interpret.Shape is one.
type pruner interface {
	Prune(obj, template *unstructured.Unstructured)
}

// cleaned returns what of an object is copied: what users wrote. What an API server or a controller set would be refused, or be wrong, in
// another control plane. Claims of policies are left out, since policies get new permanent ids.
func cleaned(pruned pruner, obj *unstructured.Unstructured) *unstructured.Unstructured {
	copied := obj.DeepCopy()
	ttl, finite, _ := unstructured.NestedFieldCopy(copied.Object, "spec", "ttlSecondsAfterFinished")
	finalizers := slices.DeleteFunc(copied.GetFinalizers(), func(f string) bool { return strings.Contains(f, "karmada.io/") || f == "kubernetes" })
	pruned.Prune(copied, nil)
	if finite && copied.GetKind() == "Job" {
		_ = unstructured.SetNestedField(copied.Object, ttl, "spec", "ttlSecondsAfterFinished") // spec is a map: it had the field
	}
	if len(finalizers) > 0 {
		copied.SetFinalizers(finalizers)
	}
	delete(copied.Object, "status")
	labels, annotations := copied.GetLabels(), copied.GetAnnotations()
	for _, key := range policy.ClaimLabels {
		delete(labels, key)
	}
	for _, key := range policy.ClaimAnnotations {
		delete(annotations, key)
	}
	if key, ok := api.PermanentIDLabel(copied.GroupVersionKind().GroupKind()); ok {
		delete(labels, key)
	}
	for _, m := range []*map[string]string{&labels, &annotations} {
		if len(*m) == 0 {
			*m = nil // which removes the field
		}
	}
	copied.SetLabels(labels)
	copied.SetAnnotations(annotations)
	return copied
}

// taintsOfReadiness are set by controllers.
var taintsOfReadiness = []string{clusterv1alpha1.TaintClusterNotReady, clusterv1alpha1.TaintClusterUnreachable}

// held returns a Cluster to which nothing is written, without what controllers set.
func held(cluster *unstructured.Unstructured, reason string) *unstructured.Unstructured {
	annotations := cluster.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, clusterv1alpha1.ResumeDispatchingAnnotation)
	delete(annotations, clusterv1alpha1.ResumeOperationsAnnotation)
	annotations[clusterv1alpha1.HoldDispatchingAnnotation] = reason
	cluster.SetAnnotations(annotations)
	dropReadinessTaints(cluster)
	return cluster
}

// withoutAccess returns a Cluster without what is needed to write to it, and without what controllers set.
func withoutAccess(cluster *unstructured.Unstructured) *unstructured.Unstructured {
	for _, key := range []string{clusterv1alpha1.ResumeDispatchingAnnotation, clusterv1alpha1.HoldDispatchingAnnotation} {
		unstructured.RemoveNestedField(cluster.Object, "metadata", "annotations", key)
	}
	for _, field := range credentialFields {
		unstructured.RemoveNestedField(cluster.Object, "spec", field)
	}
	dropReadinessTaints(cluster)
	return cluster
}

func dropReadinessTaints(cluster *unstructured.Unstructured) {
	taints, found, _ := unstructured.NestedSlice(cluster.Object, "spec", "taints")
	taints = slices.DeleteFunc(taints, func(t any) bool {
		taint, ok := t.(map[string]any)
		key, _ := taint["key"].(string)
		return ok && slices.Contains(taintsOfReadiness, key)
	})
	switch {
	case len(taints) > 0:
		_ = unstructured.SetNestedSlice(cluster.Object, taints, "spec", "taints") // spec is a map: it had the field
	case found:
		unstructured.RemoveNestedField(cluster.Object, "spec", "taints")
	}
}
