package stored

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// Tombstones are Secrets in ownNamespace, each with the objects of one namespace that were deleted at about the same time.
const (
	tombstoneType corev1.SecretType = "flagship.io/deleted-objects"
	// tombstoneLabel is on all of them; its value is the namespace of the objects, or wide for cluster-scoped ones.
	tombstoneLabel = "flagship.io/deleted-from"
	wide           = "-"
	tombstoneName  = "flagship-deleted-"
	// countAnnotation is how many objects a tombstone has; bytesAnnotation how large it is.
	countAnnotation = "flagship.io/deleted-objects"
	bytesAnnotation = "flagship.io/deleted-bytes"

	// maxBatch and maxBatchBytes bound one tombstone.
	maxBatch, maxBatchBytes = 100, 400 << 10
)

// bounds are how much is kept of what was deleted.
type bounds struct{ objects, bytes int64 }

var (
	ofNamespace = bounds{1000, 8 << 20}
	ofAll       = bounds{10_000, 64 << 20}
)

// Deleted is a deleted template.
type Deleted struct {
	history.Record
	UID types.UID `json:"uid"`
	// NamespaceUID is that of its namespace.
	NamespaceUID types.UID `json:"namespaceUID,omitempty"`
}

// Keep stores what was deleted in a namespace, "" for cluster-scoped objects, and deletes what exceeds the bounds.
func (k *Storage) Keep(ctx context.Context, namespace string, all []Deleted) error {
	key, err := k.key(ctx, true)
	if err != nil {
		return err
	}
	data, size := map[string][]byte{}, 0
	for _, d := range all {
		content, err := key.Seal(string(tombstoneType), d)
		if err != nil {
			return err
		}
		if len(content) > maxBatchBytes {
			continue
		}
		if len(data) == maxBatch || size+len(content) > maxBatchBytes {
			if err := k.store(ctx, namespace, data, size); err != nil {
				return err
			}
			data, size = map[string][]byte{}, 0
		}
		data[strconv.Itoa(len(data))] = content
		size += len(content)
	}
	if len(data) > 0 {
		if err := k.store(ctx, namespace, data, size); err != nil {
			return err
		}
	}
	return k.bound(ctx)
}

// Deleted reads what was deleted in a namespace, or everything.
func (k *Storage) Deleted(ctx context.Context, namespace string) ([]Deleted, error) {
	key, err := k.key(ctx, false)
	if err != nil {
		return nil, err
	}
	options := metav1.ListOptions{LabelSelector: tombstoneLabel, Limit: page}
	if namespace != "" {
		options.LabelSelector += "=" + namespace
	}
	var all []Deleted
	for {
		list, err := k.kube.CoreV1().Secrets(ownNamespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing what was deleted: %w", err)
		}
		for i := range list.Items {
			for _, content := range list.Items[i].Data {
				var d Deleted
				if list.Items[i].Type == tombstoneType && key.Open(string(tombstoneType), content, &d) == nil {
					all = append(all, d)
				}
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// store writes one tombstone.
func (k *Storage) store(ctx context.Context, namespace string, data map[string][]byte, size int) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: tombstoneName, Labels: map[string]string{tombstoneLabel: cmp.Or(namespace, wide)},
			Annotations: map[string]string{countAnnotation: strconv.Itoa(len(data)), bytesAnnotation: strconv.Itoa(size)},
		},
		Type: tombstoneType, Data: data,
	}
	if _, err := k.kube.CoreV1().Secrets(ownNamespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: Manager}); err != nil {
		return fmt.Errorf("keeping what was deleted in %q: %w", namespace, err)
	}
	return nil
}

// tombstones lists the metadata of all tombstones, the oldest first.
func (k *Storage) tombstones(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := k.live.List(ctx, list, client.InNamespace(ownNamespace), client.HasLabels{tombstoneLabel}); err != nil {
		return nil, fmt.Errorf("listing what was deleted: %w", err)
	}
	slices.SortStableFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return list.Items, nil
}

// bound deletes the oldest tombstones of namespaces that have too many and, if there are too many in all, of those that have most.
func (k *Storage) bound(ctx context.Context) error {
	all, err := k.tombstones(ctx)
	if err != nil {
		return err
	}
	for _, name := range surplus(all) {
		if err := k.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// surplus are the names of tombstones that exceed the bounds.
func surplus(all []metav1.PartialObjectMetadata) []string {
	sizeOf := func(o metav1.PartialObjectMetadata) bounds {
		objects, _ := strconv.ParseInt(o.Annotations[countAnnotation], 10, 64) // 0 for what is not a number
		size, _ := strconv.ParseInt(o.Annotations[bytesAnnotation], 10, 64)
		return bounds{objects, size}
	}
	used, total := map[string]bounds{}, bounds{}
	kept := map[string][]metav1.PartialObjectMetadata{}
	for _, o := range all {
		namespace, size := o.Labels[tombstoneLabel], sizeOf(o)
		used[namespace], total = used[namespace].plus(size), total.plus(size)
		kept[namespace] = append(kept[namespace], o)
	}
	var names []string
	drop := func(namespace string) {
		oldest := kept[namespace][0]
		kept[namespace] = kept[namespace][1:]
		used[namespace], total = used[namespace].minus(sizeOf(oldest)), total.minus(sizeOf(oldest))
		names = append(names, oldest.Name)
	}
	for _, namespace := range slices.Sorted(maps.Keys(kept)) {
		for used[namespace].exceeds(ofNamespace) && len(kept[namespace]) > 0 {
			drop(namespace)
		}
	}
	for total.exceeds(ofAll) {
		largest := ""
		for _, namespace := range slices.Sorted(maps.Keys(kept)) {
			if len(kept[namespace]) > 0 && (largest == "" || used[namespace].bytes > used[largest].bytes) {
				largest = namespace
			}
		}
		if largest == "" {
			break
		}
		drop(largest)
	}
	return names
}

func (b bounds) plus(c bounds) bounds      { return bounds{b.objects + c.objects, b.bytes + c.bytes} }
func (b bounds) minus(c bounds) bounds     { return bounds{b.objects - c.objects, b.bytes - c.bytes} }
func (b bounds) exceeds(limit bounds) bool { return b.objects > limit.objects || b.bytes > limit.bytes }

// Expire deletes what was deleted before a time.
func (k *Storage) Expire(ctx context.Context, before time.Time) error {
	all, err := k.tombstones(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if !all[i].CreationTimestamp.Time.Before(before) {
			continue
		}
		if err := k.remove(ctx, all[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func (k *Storage) remove(ctx context.Context, name string) error {
	err := k.kube.CoreV1().Secrets(ownNamespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}
