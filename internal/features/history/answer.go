package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
	"github.com/flagship-k8s/flagship/internal/features/history/visible"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// May returns whether the author of a question may get an object.
type May = func(explain.Right) bool

// Answer answers a question about a template. The author has only what may returns.
func (k *Keeper) Answer(ctx context.Context, spec fleetv1alpha1.HistorySpec, may May) (fleetv1alpha1.HistoryStatus, error) {
	kinds, err := k.kinds(spec.Group, spec.Kind, spec.Resource, spec.Name)
	if err != nil {
		return fleetv1alpha1.HistoryStatus{}, err
	}
	for _, kind := range kinds {
		ref := hubstore.Ref{GroupVersionKind: kind.GroupVersionKind, Namespace: spec.Namespace, Name: spec.Name}
		if !kind.Namespaced {
			ref.Namespace = ""
		}
		if right := rightOf(kind, ref); !may(right) {
			of := schema.GroupResource{Group: right.Group, Resource: right.Resource}
			return fleetv1alpha1.HistoryStatus{}, apierrors.NewForbidden(of, spec.Name, fmt.Errorf("a History has only what its author may get: this needs get on %s", of))
		}
		now, err := k.present(ctx, ref)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fleetv1alpha1.HistoryStatus{}, err
		}
		return k.answer(ctx, now, spec.Contents, may)
	}
	return fleetv1alpha1.HistoryStatus{}, nil
}

// kinds lists those that a question may mean, at least one.
func (k *Keeper) kinds(group, kind, resource, name string) ([]hubstore.Kind, error) {
	if name == "" || (kind == "") == (resource == "") {
		return nil, apierrors.NewBadRequest("spec needs a name, and either a kind or a resource")
	}
	found := slices.DeleteFunc(k.Templates.Kinds(), func(k hubstore.Kind) bool {
		return group != "" && group != k.GroupVersionKind.Group || kind != "" && !strings.EqualFold(kind, k.GroupVersionKind.Kind) ||
			resource != "" && !strings.EqualFold(resource, k.Resource.Resource)
	})
	if len(found) == 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is no kind that is propagated: kubectl api-resources lists those that are served", strings.TrimPrefix(group+" "+kind+resource, " ")))
	}
	slices.SortFunc(found, func(x, y hubstore.Kind) int { // the core group first
		return strings.Compare(x.GroupVersionKind.Group, y.GroupVersionKind.Group)
	})
	return found, nil
}

func rightOf(kind hubstore.Kind, ref hubstore.Ref) explain.Right {
	return explain.Right{Group: kind.Resource.Group, Resource: kind.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name}
}

// viewOf is how the author of a question sees the states of a template.
func viewOf(now *facts, may May) visible.View {
	ref := hubstore.RefOf(now.template)
	name := bindingKeys(ref)[0].Name
	if now.binding != nil {
		name = now.binding.GetName()
	}
	return visible.View{May: may, Clusters: may(bindingRight(ref, name))}
}

// answer lists the revisions of a template.
func (k *Keeper) answer(ctx context.Context, now *facts, contents []int64, may May) (fleetv1alpha1.HistoryStatus, error) {
	status := fleetv1alpha1.HistoryStatus{
		Object: explain.IdentityOf(now.template), Limit: int32(history.LimitOf(now.template.Object, k.Limit())),
	}
	kept, err := k.storage.Revisions(ctx, now.template)
	if err != nil {
		return status, err
	}
	status.Unreadable = int32(kept.Foreign)
	v := viewOf(now, may)
	hash, err := k.storage.Hash(ctx, now.template, now.state)
	if err != nil {
		return status, err
	}
	records := make([]history.Record, 0, len(kept.Records)+1)
	current := -1
	for i, r := range kept.Records {
		records = append(records, r.Record)
		if now.binding != nil && (equality.Semantic.DeepEqual(r.State, now.state) || r.Is(hash)) {
			current = i
		}
	}
	if current < 0 && now.binding != nil {
		current = len(records)
		live := history.Record{State: now.state, Part: fleetv1alpha1.RevisionTemplate}
		live.Author.Manager, live.Time = history.ManagerOf(now.template, stored.Manager)
		if len(records) > 0 { // who and when is known once it is recorded
			live.Author, live.Time = history.Author{}, time.Time{}
		}
		records = append(records, live)
	}
	for i, r := range records {
		entry := fleetv1alpha1.Revision{Revision: r.Revision, Current: i == current, TooLargeBytes: r.TooLarge}
		if !r.Time.IsZero() {
			entry.Time = &metav1.Time{Time: r.Time}
		}
		hidden := !v.Part(r.Part, r.State)
		if i > 0 {
			var some bool
			entry.Changes, some = v.Changes(&records[i-1], r)
			hidden = hidden || some
		} else if r.TooLarge > 0 {
			entry.Changes, _ = v.Changes(nil, r)
		}
		if !hidden {
			entry.User, entry.Manager = r.Author.User, r.Author.Manager
		}
		status.Revisions = append(status.Revisions, entry)
		if slices.Contains(contents, r.Revision) && r.TooLarge == 0 {
			content, err := v.Content(r)
			if err != nil {
				return status, err
			}
			status.Contents = append(status.Contents, content)
		}
	}
	if slices.Contains(contents, 0) && current >= 0 && records[current].Revision != 0 {
		content, err := v.Content(history.Record{State: now.state})
		if err != nil {
			return status, err
		}
		status.Contents = append(status.Contents, content)
	}
	return status, nil
}
