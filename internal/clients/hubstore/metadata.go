package hubstore

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// MetadataPatch is a merge patch of labels and annotations; a nil value removes the key. With a uid it cannot hit a
// successor of the object it is meant for.
type MetadataPatch struct {
	UID         types.UID          `json:"uid,omitempty"`
	Labels      map[string]*string `json:"labels,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
}

// Difference is what makes the owned keys of have what they are in want; other keys are left alone.
func Difference(have, want map[string]string, owned ...[]string) map[string]*string {
	changes := map[string]*string{}
	for _, keys := range owned {
		for _, key := range keys {
			value, wanted := want[key]
			present, exists := have[key]
			switch {
			case wanted && (!exists || present != value):
				changes[key] = &value
			case !wanted && exists:
				changes[key] = nil
			}
		}
	}
	return changes
}

// Empty returns whether the patch changes nothing.
func (p MetadataPatch) Empty() bool { return len(p.Labels) == 0 && len(p.Annotations) == 0 }

// Bytes is the patch as it is sent.
func (p MetadataPatch) Bytes() ([]byte, error) {
	raw, err := json.Marshal(map[string]MetadataPatch{"metadata": p})
	if err != nil {
		return nil, fmt.Errorf("encoding metadata: %w", err)
	}
	return raw, nil
}

// Reader reads single templates. *Store is one.
type Reader interface {
	Meta(Ref) (*metav1.PartialObjectMetadata, bool)
	Get(context.Context, Ref) (*unstructured.Unstructured, error)
}

// VersionReader also reads templates in versions that a watch has seen. *Store is one.
type VersionReader interface {
	Reader
	Read(ctx context.Context, ref Ref, notBefore string) (*unstructured.Unstructured, error)
}

// Present returns the metadata of a template; nil if it does not exist or is being deleted. One that is not in the cache is read from
// the API server, so that a start never costs a running copy.
func Present(ctx context.Context, templates Reader, ref Ref) (*metav1.PartialObjectMetadata, error) {
	meta, ok := templates.Meta(ref)
	if !ok {
		obj, err := templates.Get(ctx, ref)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		meta = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID: obj.GetUID(), Name: obj.GetName(), Namespace: obj.GetNamespace(), DeletionTimestamp: obj.GetDeletionTimestamp(),
			Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(),
		}}
	}
	if meta.DeletionTimestamp != nil {
		return nil, nil
	}
	return meta, nil
}
