package ssa

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// Domains of the labels and annotations that are ours and our predecessors'.
var (
	labelDomains = []string{
		"resourcebinding.karmada.io", "clusterresourcebinding.karmada.io", "work.karmada.io",
		"propagationpolicy.karmada.io", "clusterpropagationpolicy.karmada.io",
	}
	annotationDomains = append(slices.Clone(labelDomains), "resourcetemplate.karmada.io")
)

// IsOurs returns whether an annotation in a member is ours or our predecessors'.
func IsOurs(key string) bool {
	return slices.Contains(ownAnnotations, key) || inDomain(key, annotationDomains)
}

type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// ReleasePatch is the JSON patch that takes our marks off exactly this object, and writes who released it. It fails on another one of the same
// name. That the object was there before us stays on it for when it is taken back.
func ReleasePatch(self ownership.ControlPlane, live *unstructured.Unstructured) ([]byte, error) {
	patch := []Operation{{Op: "test", Path: "/metadata/uid", Value: string(live.GetUID())}}
	for _, key := range slices.Sorted(maps.Keys(live.GetLabels())) {
		if key == workv1alpha1.ManagedLabel || inDomain(key, labelDomains) {
			patch = append(patch, Operation{Op: "remove", Path: "/metadata/labels/" + Pointer(key)})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(live.GetAnnotations())) {
		if IsOurs(key) && (key != workv1alpha1.AdoptedAnnotation || self.ID == "") {
			patch = append(patch, Operation{Op: "remove", Path: "/metadata/annotations/" + Pointer(key)})
		}
	}
	if self.ID != "" { // an object of ours has a label
		patch = append(patch, Operation{Op: "add", Path: "/metadata/labels/" + Pointer(workv1alpha1.ReleasedByLabel), Value: self.ID})
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	return raw, nil
}

// ClaimOperations are those of a JSON patch that mark an object as one of a Work again.
func ClaimOperations(self ownership.ControlPlane, work types.NamespacedName, live *unstructured.Unstructured) []Operation {
	var claim []Operation
	if live.GetAnnotations() == nil {
		claim = append(claim, Operation{Op: "add", Path: "/metadata/annotations", Value: map[string]any{}})
	}
	for _, mark := range [][2]string{
		{workv1alpha1.ControlPlaneAnnotation, self.ID}, {workv1alpha1.WorkNamespaceAnnotation, work.Namespace}, {workv1alpha1.WorkNameAnnotation, work.Name},
	} {
		claim = append(claim, Operation{Op: "add", Path: "/metadata/annotations/" + Pointer(mark[0]), Value: mark[1]})
	}
	return append(claim, Operation{Op: "add", Path: "/metadata/labels/" + Pointer(workv1alpha1.ManagedLabel), Value: workv1alpha1.ManagedLabelValue})
}

func inDomain(key string, domains []string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.Contains(domains, domain)
}

// pointer escapes a key for use in a JSON pointer.
func Pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// IsMark returns whether a path is one of the marks that make an object ours.
func IsMark(path string) bool {
	switch path {
	case "/metadata/labels/" + workv1alpha1.ManagedLabel,
		"/metadata/labels/" + workv1alpha1.WorkPermanentIDLabel,
		"/metadata/annotations/" + workv1alpha1.WorkNamespaceAnnotation,
		"/metadata/annotations/" + workv1alpha1.WorkNameAnnotation,
		"/metadata/annotations/" + workv1alpha1.LastAppliedAnnotation,
		"/metadata/annotations/" + workv1alpha1.AdoptedAnnotation,
		"/metadata/annotations/" + workv1alpha1.ControlPlaneAnnotation,
		"/metadata/annotations/" + workv1alpha1.TakenFromAnnotation:
		return true
	default:
		return false
	}
}

func IsNamespace(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Namespace" && obj.GetAPIVersion() == "v1"
}

func SetAnnotation(obj *unstructured.Unstructured, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
