package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

// boundReport cuts what an agent reports in a status to what may be stored of it. It is not refused: an agent of Karmada bounds nothing,
// and its other reports count. Remedies are of the control plane.
func boundReport(a admission.Attributes, now time.Time) {
	if a.GetSubresource() != "status" {
		return
	}
	switch object := a.GetObject().(type) {
	case *workv1alpha1.Work:
		reports.Work(object, &object.Status, now)
	case *clusterv1alpha1.Cluster:
		reports.Cluster(&object.Status, now)
		if before, ok := a.GetOldObject().(*clusterv1alpha1.Cluster); ok {
			object.Status.RemedyActions = before.Status.RemedyActions
		}
	}
}

// checkMetadata returns an error if an agent changes who owns an object, but to its own Cluster, or what keeps the object from being
// deleted, or makes its metadata large. The garbage collector deletes what has an owner that is gone, and an owner that is deleted in the
// foreground waits for what it owns.
func checkMetadata(object, before metav1.Object, cluster string) error {
	var owners []metav1.OwnerReference
	var finalizers []string
	var had int
	if before != nil {
		owners, finalizers, had = before.GetOwnerReferences(), before.GetFinalizers(), metadataBytes(before)
	}
	for _, owner := range object.GetOwnerReferences() {
		own := owner.APIVersion == clusterv1alpha1.SchemeGroupVersion.String() && owner.Kind == clusterv1alpha1.KindCluster && owner.Name == cluster
		known := slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return reflect.DeepEqual(o, owner) })
		if !own && !known {
			return fmt.Errorf("metadata.ownerReferences: the owner of what the agent of cluster %q writes is its Cluster", cluster)
		}
	}
	for _, finalizer := range object.GetFinalizers() {
		if !slices.Contains(finalizers, finalizer) && finalizer != workv1alpha1.ExecutionFinalizer {
			return errors.New("metadata.finalizers: an agent adds none")
		}
	}
	if has := metadataBytes(object); has > max(bounds.MaxMetadataBytes, had) {
		return fmt.Errorf("metadata: labels, annotations and managed fields have %d bytes, of an agent they may have %d", has, bounds.MaxMetadataBytes)
	}
	return nil
}

func metadataBytes(object metav1.Object) int {
	size := 0
	for _, texts := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
		for key, value := range texts {
			size += len(key) + len(value)
		}
	}
	for _, entry := range object.GetManagedFields() {
		size += len(entry.Manager) + len(entry.APIVersion) + len(entry.Subresource)
		if entry.FieldsV1 != nil {
			size += len(entry.FieldsV1.GetRawBytes())
		}
	}
	return size
}

// checkWorkMetadata returns an error if an agent changes more of a Work than its status and the finalizer of package apply: its labels and
// annotations name what it belongs to, and the Work would go with an owner that the agent chooses, before its objects do.
func checkWorkMetadata(work, before *workv1alpha1.Work) error {
	others := func(finalizers []string) []string {
		return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == workv1alpha1.ExecutionFinalizer })
	}
	switch {
	case !sameTexts(work.Labels, before.Labels) || !sameTexts(work.Annotations, before.Annotations):
		return errors.New("metadata: it changes no labels and no annotations")
	case len(work.OwnerReferences)+len(before.OwnerReferences) > 0 && !reflect.DeepEqual(work.OwnerReferences, before.OwnerReferences):
		return errors.New("metadata.ownerReferences: it changes no owners")
	case !slices.Equal(others(work.Finalizers), others(before.Finalizers)):
		return fmt.Errorf("metadata.finalizers: it changes %s only", workv1alpha1.ExecutionFinalizer)
	}
	return nil
}

func sameTexts(a, b map[string]string) bool {
	return len(a)+len(b) == 0 || reflect.DeepEqual(a, b)
}

// checkBytes returns an error if an object is larger than an agent writes them.
func checkBytes(object runtime.Object, most int) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encoding the object: %w", err)
	}
	if len(raw) > most {
		return fmt.Errorf("the object has %d bytes, of an agent it may have %d", len(raw), most)
	}
	return nil
}
