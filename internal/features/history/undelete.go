package history

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
	"github.com/flagship-k8s/flagship/internal/features/history/visible"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const (
	// maxDeleted is how many deleted objects one answer has, and maxContents how many with their contents.
	maxDeleted, maxContents = 1000, 100
	// maxContentBytes is how many bytes of contents end an answer.
	maxContentBytes = 8 << 20
)

// Undelete answers which deleted objects can be brought back, the newest first, a page at a time. Contents are read for those in the answer
// alone, one after the other.
func (k *Keeper) Undelete(ctx context.Context, spec fleetv1alpha1.UndeletionSpec, may May) (fleetv1alpha1.UndeletionStatus, error) {
	status := fleetv1alpha1.UndeletionStatus{}
	if spec.Group != "" && spec.Resource == "" {
		return status, apierrors.NewBadRequest("spec.group counts with a spec.resource only")
	}
	after, err := positionOf(spec.Continue)
	if err != nil {
		return status, err
	}
	all, err := k.deletedObjects(ctx, spec.Namespace, may)
	if err != nil {
		return status, err
	}
	all = slices.DeleteFunc(all, func(d found) bool {
		return spec.Resource != "" && (spec.Resource != d.kind.Resource.Resource || spec.Group != d.kind.Resource.Group) ||
			spec.Name != "" && spec.Name != d.ref.Name || spec.Continue != "" && d.Entry.Compare(after) <= 0
	})
	limit := maxDeleted
	if spec.Contents {
		limit = maxContents
	}
	if spec.Limit > 0 {
		limit = int(min(spec.Limit, int64(limit)))
	}
	answered := min(len(all), limit)
	if spec.Contents {
		if status.Objects, answered, err = k.contents(ctx, all[:answered], may); err != nil {
			return status, err
		}
	} else {
		for _, d := range all[:answered] {
			status.Objects = append(status.Objects, k.deletedObject(d))
		}
	}
	if answered < len(all) {
		status.Truncated, status.Continue = true, position(all[answered-1].Entry)
	}
	return status, nil
}

// deletedObject is a deleted object without its content.
func (k *Keeper) deletedObject(d found) fleetv1alpha1.DeletedObject {
	object := fleetv1alpha1.DeletedObject{
		Object: d.Object, UID: d.UID, Time: metav1.NewTime(d.Time), Expires: metav1.NewTime(d.Time.Add(k.Period())), User: d.User, TooLargeBytes: d.TooLarge,
	}
	_, object.Exists = k.Templates.Meta(d.ref)
	return object
}

// contents are deleted objects with their contents, as many as an answer may have, and how many of the page these are.
func (k *Keeper) contents(ctx context.Context, page []found, may May) (objects []fleetv1alpha1.DeletedObject, answered int, err error) {
	entries := make([]stored.Entry, 0, len(page))
	for _, d := range page {
		entries = append(entries, d.Entry)
	}
	size := 0
	answered = len(page) // unless it ends earlier: what was removed meanwhile is not in the answer
	err = k.storage.Contents(ctx, entries, func(i int, d stored.Deleted) (more bool, err error) {
		f := page[i]
		object := k.deletedObject(f)
		if f.TooLarge == 0 {
			content, err := f.view(may).Content(d.Record)
			if err != nil {
				return false, err
			}
			object.Content, size = &content, size+visible.Size(content)
		}
		objects = append(objects, object)
		if size >= maxContentBytes {
			answered = i + 1
			return false, nil
		}
		return true, nil
	})
	return objects, answered, err
}

// position is where an object is in the order of deletions; positionOf reads it.
func position(d stored.Entry) string {
	return strconv.FormatInt(d.Time.UnixNano(), 10) + "." + string(d.UID)
}

func positionOf(text string) (stored.Entry, error) {
	if text == "" {
		return stored.Entry{}, nil
	}
	at, uid, _ := strings.Cut(text, ".")
	nanoseconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return stored.Entry{}, apierrors.NewBadRequest("spec.continue is not one of an earlier answer")
	}
	return stored.Entry{Time: time.Unix(0, nanoseconds), UID: types.UID(uid)}, nil
}

// found is a deleted object that the author of a question may get.
type found struct {
	stored.Entry
	ref  hubstore.Ref
	kind hubstore.Kind
	// foreign is whether its namespace is another one now, or there is none.
	foreign bool
}

// view is how the author of a question sees the object.
func (f *found) view(may May) visible.View {
	if f.foreign {
		here := may
		may = func(r explain.Right) bool { return here(explain.Right{Group: r.Group, Resource: r.Resource}) }
	}
	return visible.View{May: may, Clusters: may(bindingRight(f.ref, bindingKeys(f.ref)[0].Name))}
}

// deletedObjects lists the deleted objects of a namespace, or all, that the author of a question may get, without contents, those that were
// deleted last first. An object whose namespace was deleted, too, belongs to those who may get the kind in every namespace: the namespace
// of that name may be that of another tenant by now.
func (k *Keeper) deletedObjects(ctx context.Context, namespace string, may May) ([]found, error) {
	kept, err := k.storage.Deleted(ctx, namespace)
	if err != nil {
		return nil, err
	}
	kinds := k.byKind()
	uids := map[string]string{}
	var all []found
	for _, d := range kept {
		if k.Clock.Since(d.Time) > k.Period() {
			continue
		}
		gvk := schema.FromAPIVersionAndKind(d.Object.APIVersion, d.Object.Kind)
		kind, served := kinds[gvk.GroupKind()]
		if !served {
			continue // nothing can be created of it
		}
		f := found{Entry: d, kind: kind, ref: hubstore.Ref{GroupVersionKind: gvk, Namespace: d.Object.Namespace, Name: d.Object.Name}}
		right := rightOf(kind, f.ref)
		if f.ref.Namespace != "" {
			uid, err := k.namespaceUID(ctx, uids, f.ref.Namespace)
			if err != nil {
				return nil, err
			}
			if f.foreign = uid == "" || uid != string(f.NamespaceUID); f.foreign {
				right = explain.Right{Group: right.Group, Resource: right.Resource}
			}
		}
		if may(right) {
			all = append(all, f)
		}
	}
	return all, nil
}

// namespaceUID returns the uid of a namespace, "" if there is none.
func (k *Keeper) namespaceUID(ctx context.Context, known map[string]string, name string) (string, error) {
	if uid, ok := known[name]; ok {
		return uid, nil
	}
	namespace := &corev1.Namespace{}
	if err := k.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading namespace %s: %w", name, err)
	}
	known[name] = string(namespace.UID)
	return known[name], nil
}

// bindingRight is the right to get a binding.
func bindingRight(ref hubstore.Ref, name string) explain.Right {
	resource := workv1alpha2.ResourcePluralResourceBinding
	if ref.Namespace == "" {
		resource = workv1alpha2.ResourcePluralClusterResourceBinding
	}
	return explain.Right{Group: workv1alpha2.GroupVersion.Group, Resource: resource, Namespace: ref.Namespace, Name: name}
}

func identityOf(ref hubstore.Ref) fleetv1alpha1.ObjectIdentity {
	return fleetv1alpha1.ObjectIdentity{
		APIVersion: ref.GroupVersionKind.GroupVersion().String(), Kind: ref.GroupVersionKind.Kind, Namespace: ref.Namespace, Name: ref.Name,
	}
}
