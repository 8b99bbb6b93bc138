package v1alpha1

import (
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// FinishedAnnotation on a Work is the run that the cluster has ended already, before the Work was created: an object that left the
// cluster and returns to it does not run again.
const FinishedAnnotation = "flagship.io/finished"

// RunOf names one run of a template whose kind runs to an end: as long as it is the same, the template runs once in a cluster. What a Job or
// a pod runs cannot be changed, so that a new generation, as of a Job whose ttlSecondsAfterFinished changes, is no new run.
func RunOf(kind schema.GroupKind, uid types.UID, generation int64) string {
	if uid == "" {
		return ""
	}
	if kind == (schema.GroupKind{Group: "batch", Kind: "Job"}) || kind == (schema.GroupKind{Kind: "Pod"}) {
		return string(uid)
	}
	return string(uid) + "/" + strconv.FormatInt(generation, 10)
}

// RunOfCopy is the run of the template that a copy, or its manifest, was made from; empty if it does not name a template.
func RunOfCopy(kind schema.GroupKind, annotations map[string]string) string {
	generation, err := strconv.ParseInt(annotations[TemplateGenerationAnnotation], 10, 64)
	if err != nil {
		return ""
	}
	return RunOf(kind, types.UID(annotations[TemplateUIDAnnotation]), generation)
}
