package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const (
	// maxDeleted is how many deleted objects one answer has, and maxContents how many with their contents.
	maxDeleted, maxContents = 1000, 100
)

// Undelete answers which deleted objects can be brought back.
func (k *Keeper) Undelete(ctx context.Context, spec fleetv1alpha1.UndeletionSpec, may May) (fleetv1alpha1.UndeletionStatus, error) {
	status := fleetv1alpha1.UndeletionStatus{}
	if spec.Group != "" && spec.Resource == "" {
		return status, apierrors.NewBadRequest("spec.group counts with a spec.resource only")
	}
	all, err := k.deletedObjects(ctx, spec.Namespace, may)
	if err != nil {
		return status, err
	}
	limit := maxDeleted
	if spec.Contents {
		limit = maxContents
	}
	for _, d := range all {
		if spec.Resource != "" && (spec.Resource != d.kind.Resource.Resource || spec.Group != d.kind.Resource.Group) || spec.Name != "" && spec.Name != d.ref.Name {
			continue
		}
		if len(status.Objects) == limit {
			status.Truncated = true
			break
		}
		object := fleetv1alpha1.DeletedObject{
			Object: identityOf(d.ref), UID: d.UID, Time: metav1.NewTime(d.Time), Expires: metav1.NewTime(d.Time.Add(k.Period)), User: d.Author.User,
		}
		_, object.Exists = k.Templates.Meta(d.ref)
		if spec.Contents {
			content, err := d.viewer(may).content(d.Record)
			if err != nil {
				return status, err
			}
			object.Content = &content
		}
		status.Objects = append(status.Objects, object)
	}
	return status, nil
}

// found is a deleted object that the author of a question may get.
type found struct {
	stored.Deleted
	ref  hubstore.Ref
	kind hubstore.Kind
	// foreign is whether its namespace is another one now, or there is none.
	foreign bool
}

func (f *found) viewer(may May) viewer {
	if f.foreign {
		here := may
		may = func(r explain.Right) bool { return here(explain.Right{Group: r.Group, Resource: r.Resource}) }
	}
	return viewer{may: may, clusters: may(bindingRight(f.ref, bindingKeys(f.ref)[0].Name))}
}

// deletedObjects lists the deleted objects of a namespace, or all, that the author of a question may get, those that were deleted last
// first. An object whose namespace was deleted, too, belongs to those who may get the kind in every namespace: the namespace of that name
// may be that of another tenant by now.
func (k *Keeper) deletedObjects(ctx context.Context, namespace string, may May) ([]found, error) {
	kept, err := k.storage.Deleted(ctx, namespace)
	if err != nil {
		return nil, err
	}
	kinds := map[string]hubstore.Kind{}
	for _, kind := range k.Templates.Kinds() {
		kinds[kind.GroupVersionKind.GroupKind().String()] = kind
	}
	uids := map[string]string{}
	var all []found
	for _, d := range kept {
		if k.Clock.Since(d.Time) > k.Period {
			continue
		}
		of := &unstructured.Unstructured{Object: d.State.Template}
		kind, served := kinds[of.GroupVersionKind().GroupKind().String()]
		if !served {
			continue // nothing can be created of it
		}
		f := found{Deleted: d, kind: kind, ref: hubstore.RefOf(of)}
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
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.ref.String(), b.ref.String()))
	})
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
