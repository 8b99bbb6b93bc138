package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

// untyped decodes items of lists without their kind, which the list has. Objects of a watch have none either, so that an answer is
// the same with and without a watch cache.
type untyped struct{ etcd3.Decoder }

// DecodeListItem implements etcd3.Decoder.
func (u untyped) DecodeListItem(ctx context.Context, data []byte, revision uint64, newItem func() runtime.Object) (runtime.Object, error) {
	item, err := u.Decoder.DecodeListItem(ctx, data, revision, newItem)
	if err != nil {
		return item, err
	}
	if _, generic := item.(runtime.Unstructured); !generic { // a custom resource is nothing without its kind
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return item, nil
}
