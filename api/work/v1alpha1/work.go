package v1alpha1

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// NewWork returns the Work to be written under a name: a copy of the existing one, or a new one if that is nil. It has the
// finalizer that keeps a Work until its objects are gone from the member.
func NewWork(key types.NamespacedName, existing *Work) *Work {
	work := NewRecord(key, existing)
	if work.DeletionTimestamp == nil && !slices.Contains(work.Finalizers, ExecutionFinalizer) {
		work.Finalizers = append(work.Finalizers, ExecutionFinalizer)
	}
	return work
}

// NewRecord is NewWork without a finalizer, for Works that are never applied.
func NewRecord(key types.NamespacedName, existing *Work) *Work {
	if existing != nil {
		return existing.DeepCopy()
	}
	return &Work{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

// SetPermanentID gives the Work an id if it has none.
func (w *Work) SetPermanentID(newID func() string) {
	if w.Labels[WorkPermanentIDLabel] == "" {
		w.AddLabels(map[string]string{WorkPermanentIDLabel: newID()})
	}
}

// AddLabels sets labels beside those that the Work has.
func (w *Work) AddLabels(labels ...map[string]string) {
	w.Labels = joined(append([]map[string]string{w.Labels}, labels...)...)
}

// AddAnnotations sets annotations beside those that the Work has.
func (w *Work) AddAnnotations(annotations ...map[string]string) {
	w.Annotations = joined(append([]map[string]string{w.Annotations}, annotations...)...)
}

// SetManifest makes an object the only manifest of the Work, and keeps the bytes of one that means the same.
func (w *Work) SetManifest(raw []byte) {
	manifest := Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
	if present := w.Spec.Workload.Manifests; len(present) == 1 && SameRaw(&present[0].RawExtension, &manifest.RawExtension) {
		return
	}
	w.Spec.Workload.Manifests = []Manifest{manifest}
}

// Stamp marks an object that the Work will carry as managed by the control plane, with the Work's permanent id, the given labels
// and annotations, and the lists of all keys that come from the control plane, so that the member's own are known.
func (w *Work) Stamp(object, template metav1.Object, labels, annotations map[string]string) {
	labels = joined(object.GetLabels(), labels, map[string]string{
		ManagedLabel: ManagedLabelValue, WorkPermanentIDLabel: w.Labels[WorkPermanentIDLabel],
	})
	annotations = joined(object.GetAnnotations(), annotations, map[string]string{
		WorkNamespaceAnnotation:      w.Namespace,
		WorkNameAnnotation:           w.Name,
		TemplateUIDAnnotation:        string(template.GetUID()),
		TemplateGenerationAnnotation: strconv.FormatInt(template.GetGeneration(), 10),
		ManagedLabelsAnnotation:      keysOf(labels),
		ManagedAnnotationsAnnotation: "", // the list of annotations names itself
	})
	annotations[ManagedAnnotationsAnnotation] = keysOf(annotations)
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
}

func joined(groups ...map[string]string) map[string]string {
	result := map[string]string{}
	for _, group := range groups {
		maps.Copy(result, group)
	}
	return result
}

func keysOf(m map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ",")
}

// HasNoStatus returns whether a cluster reports nothing as the status of an object.
func HasNoStatus(status *runtime.RawExtension) bool {
	return status == nil || slices.Contains([]string{"", "{}", "null"}, string(status.Raw))
}
