package stored

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// Tombstones are Secrets in ownNamespace, each with the objects of one namespace that were deleted at about the same time.
const (
	tombstoneType corev1.SecretType = "flagship.io/deleted-objects"
	// tombstoneLabel is on all of them; its value is the namespace of the objects, empty for cluster-scoped ones.
	tombstoneLabel = "flagship.io/deleted-from"
	tombstoneName  = "flagship-deleted-"
	// indexAnnotation names the objects of a tombstone, encrypted. With it a list of what was deleted is made of metadata alone: the
	// contents of all tombstones have up to 64 MiB, and many times that when they are decompressed.
	indexAnnotation = "flagship.io/deleted-index"
	// countAnnotation is how many objects a tombstone has; bytesAnnotation how large it is.
	countAnnotation = "flagship.io/deleted-objects"
	bytesAnnotation = "flagship.io/deleted-bytes"

	// maxBatch and maxBatchBytes bound one tombstone. An object may have more bytes in a tombstone of its own, up to what a Secret may have.
	maxBatch, maxBatchBytes = 100, 400 << 10
	maxContent              = corev1.MaxSecretSize
	// maxUser is how many bytes of a user name an index has: one with the longest names still fits into an annotation.
	maxUser = 256
)

// Deleted is a deleted template.
type Deleted struct {
	history.Record
	UID types.UID `json:"uid"`
	// NamespaceUID is that of its namespace.
	NamespaceUID types.UID `json:"namespaceUID,omitempty"`
}

// Entry is a deleted template without its content.
type Entry struct {
	Object       fleetv1alpha1.ObjectIdentity `json:"object"`
	UID          types.UID                    `json:"uid"`
	NamespaceUID types.UID                    `json:"namespaceUID,omitempty"`
	Time         time.Time                    `json:"time"`
	User         string                       `json:"user,omitempty"`
	// TooLarge is how many bytes it has if these are more than can be stored. It has no content then.
	TooLarge int64 `json:"tooLarge,omitempty"`
	// Key is where its content is in its tombstone.
	Key string `json:"key"`

	tombstone string
}

func entryOf(d Deleted, key string) Entry {
	of := &unstructured.Unstructured{Object: d.State.Template}
	e := Entry{
		Object: fleetv1alpha1.ObjectIdentity{APIVersion: of.GetAPIVersion(), Kind: of.GetKind(), Namespace: of.GetNamespace(), Name: of.GetName()},
		UID:    d.UID, NamespaceUID: d.NamespaceUID, Time: d.Time, User: d.Author.User, TooLarge: d.TooLarge, Key: key,
	}
	e.User = e.User[:min(len(e.User), maxUser)]
	return e
}

// Compare orders entries: those that were deleted last first.
func (e Entry) Compare(other Entry) int {
	return cmp.Or(other.Time.Compare(e.Time), cmp.Compare(e.UID, other.UID))
}

// batch is a tombstone that is being filled.
type batch struct {
	index []Entry
	data  map[string][]byte
	size  int
}

func (b *batch) add(d Deleted, content []byte) {
	if b.data == nil {
		b.data = map[string][]byte{}
	}
	key := strconv.Itoa(len(b.index))
	b.index, b.data[key], b.size = append(b.index, entryOf(d, key)), content, b.size+len(content)
}

// Keep stores what was deleted in a namespace, "" for cluster-scoped objects, and deletes what exceeds the bounds.
func (k *Storage) Keep(ctx context.Context, namespace string, all []Deleted) error {
	key, err := k.key(ctx, true)
	if err != nil {
		return err
	}
	var next batch
	for _, d := range all {
		content, err := key.Seal(string(tombstoneType), d)
		if err != nil {
			return err
		}
		if len(content) > maxContent {
			k.losses.Count(LostDeletion, TooLarge, 1)
			d.Record = d.Cut(len(content))
			if content, err = key.Seal(string(tombstoneType), d); err != nil {
				return err
			}
		}
		if len(next.index) == maxBatch || len(next.index) > 0 && next.size+len(content) > maxBatchBytes {
			if err := k.store(ctx, key, namespace, next); err != nil {
				return err
			}
			next = batch{}
		}
		next.add(d, content)
	}
	if len(next.index) > 0 {
		if err := k.store(ctx, key, namespace, next); err != nil {
			return err
		}
	}
	return k.bound(ctx)
}

// store writes one tombstone.
func (k *Storage) store(ctx context.Context, key *history.Key, namespace string, b batch) error {
	index, err := key.Seal(indexAnnotation, b.index)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: tombstoneName, Labels: map[string]string{tombstoneLabel: namespace},
			Annotations: map[string]string{
				countAnnotation: strconv.Itoa(len(b.index)), bytesAnnotation: strconv.Itoa(b.size), indexAnnotation: base64.StdEncoding.EncodeToString(index),
			},
		},
		Type: tombstoneType, Data: b.data,
	}
	if _, err := k.kube.CoreV1().Secrets(ownNamespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: Manager}); err != nil {
		return fmt.Errorf("keeping what was deleted in %q: %w", namespace, err)
	}
	return nil
}

// Deleted lists what was deleted in a namespace, or everything, without contents, those that were deleted last first. Its memory is some
// hundred bytes for each object, of which there are at most 10,000.
func (k *Storage) Deleted(ctx context.Context, namespace string) ([]Entry, error) {
	key, err := k.key(ctx, false)
	if err != nil {
		return nil, err
	}
	selector := client.MatchingLabels{}
	if namespace != "" {
		selector[tombstoneLabel] = namespace
	}
	tombstones, err := k.tombstones(ctx, selector)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for i := range tombstones {
		var index []Entry
		sealed, err := base64.StdEncoding.DecodeString(tombstones[i].Annotations[indexAnnotation])
		if err != nil || key.Open(indexAnnotation, sealed, &index) != nil {
			continue // not written by the control plane
		}
		for _, e := range index {
			e.tombstone = tombstones[i].Name
			all = append(all, e)
		}
	}
	slices.SortFunc(all, Entry.Compare)
	return all, nil
}

// Contents reads the contents of entries one after the other, as long as visit returns true; i is the index of the entry. What was removed
// meanwhile is left out.
func (k *Storage) Contents(ctx context.Context, entries []Entry, visit func(i int, d Deleted) (more bool, err error)) error {
	key, err := k.key(ctx, false)
	if err != nil {
		return err
	}
	last := &corev1.Secret{} // what was deleted together is in one tombstone
	for i, e := range entries {
		if last.Name != e.tombstone {
			last, err = k.kube.CoreV1().Secrets(ownNamespace).Get(ctx, e.tombstone, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				last = &corev1.Secret{}
				continue
			}
			if err != nil {
				return fmt.Errorf("reading what was deleted: %w", err)
			}
		}
		var d Deleted
		if key.Open(string(tombstoneType), last.Data[e.Key], &d) != nil || d.UID != e.UID {
			continue
		}
		if more, err := visit(i, d); err != nil || !more {
			return err
		}
	}
	return nil
}

// tombstones lists the metadata of tombstones, the oldest first.
func (k *Storage) tombstones(ctx context.Context, selector client.MatchingLabels) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := k.live.List(ctx, list, client.InNamespace(ownNamespace), client.HasLabels{tombstoneLabel}, selector); err != nil {
		return nil, fmt.Errorf("listing what was deleted: %w", err)
	}
	slices.SortStableFunc(list.Items, func(a, b metav1.PartialObjectMetadata) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return list.Items, nil
}

// Expire deletes what was deleted before a time.
func (k *Storage) Expire(ctx context.Context, before time.Time) error {
	all, err := k.tombstones(ctx, nil)
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
