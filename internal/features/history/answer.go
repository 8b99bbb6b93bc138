package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
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

// viewer knows which parts of states the author of a question may see. The template is what the question is about.
type viewer struct {
	may May
	// clusters is whether the binding, which has the targets, may be read.
	clusters bool
}

func viewerOf(now *facts, may May) viewer {
	ref := hubstore.RefOf(now.template)
	name := bindingKeys(ref)[0].Name
	if now.binding != nil {
		name = now.binding.GetName()
	}
	return viewer{may: may, clusters: may(bindingRight(ref, name))}
}

// policyResources are the resources of the policies in states.
var policyResources = map[string]string{
	policyv1alpha1.KindPropagationPolicy:        policyv1alpha1.ResourcePluralPropagationPolicy,
	policyv1alpha1.KindClusterPropagationPolicy: policyv1alpha1.ResourcePluralClusterPropagationPolicy,
	policyv1alpha1.KindOverridePolicy:           policyv1alpha1.ResourcePluralOverridePolicy,
	policyv1alpha1.KindClusterOverridePolicy:    policyv1alpha1.ResourcePluralClusterOverridePolicy,
}

// policy returns whether a policy may be read.
func (v viewer) policy(object map[string]any) bool {
	of := &unstructured.Unstructured{Object: object}
	return v.may(explain.Right{Group: policyv1alpha1.GroupName, Resource: policyResources[of.GetKind()], Namespace: of.GetNamespace(), Name: of.GetName()})
}

func (v viewer) policies(objects []map[string]any) bool {
	return !slices.ContainsFunc(objects, func(o map[string]any) bool { return !v.policy(o) })
}

// part returns whether a part of a state may be seen.
func (v viewer) part(part fleetv1alpha1.RevisionPart, state history.State) bool {
	switch part {
	case fleetv1alpha1.RevisionPolicy:
		return state.Policy == nil || v.policy(state.Policy)
	case fleetv1alpha1.RevisionOverride:
		return v.policies(state.Overrides)
	case fleetv1alpha1.RevisionClusters:
		return v.clusters
	}
	return true
}

// changes are the differences between two states, with the text of those that may be seen.
func (v viewer) changes(before, after history.State) (all []fleetv1alpha1.RevisionChange, hidden bool) {
	for _, d := range history.Differences(before, after) {
		change := fleetv1alpha1.RevisionChange{Part: d.Part, Text: d.Text}
		if !v.policies(d.Objects) || d.Part == fleetv1alpha1.RevisionClusters && !v.clusters {
			change.Text, change.Hidden, hidden = "", true, true
		}
		if last := len(all) - 1; change.Hidden && last >= 0 && all[last] == change {
			continue // not how many there are
		}
		all = append(all, change)
	}
	return all, hidden
}

// answer lists the revisions of a template.
func (k *Keeper) answer(ctx context.Context, now *facts, contents []int64, may May) (fleetv1alpha1.HistoryStatus, error) {
	status := fleetv1alpha1.HistoryStatus{
		Object: explain.IdentityOf(now.template), Limit: int32(history.LimitOf(now.template.Object, k.Limit)),
	}
	kept, err := k.storage.Revisions(ctx, now.template)
	if err != nil {
		return status, err
	}
	status.Unreadable = int32(kept.Foreign)
	v := viewerOf(now, may)
	records := make([]history.Record, 0, len(kept.Records)+1)
	current := -1
	for i, r := range kept.Records {
		records = append(records, r.Record)
		if now.binding != nil && equality.Semantic.DeepEqual(r.State, now.state) {
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
		entry := fleetv1alpha1.Revision{Revision: r.Revision, Current: i == current}
		if !r.Time.IsZero() {
			entry.Time = &metav1.Time{Time: r.Time}
		}
		hidden := !v.part(r.Part, r.State)
		if i > 0 {
			var some bool
			entry.Changes, some = v.changes(records[i-1].State, r.State)
			hidden = hidden || some
		}
		if !hidden {
			entry.User, entry.Manager = r.Author.User, r.Author.Manager
		}
		status.Revisions = append(status.Revisions, entry)
		if slices.Contains(contents, r.Revision) {
			content, err := v.content(r)
			if err != nil {
				return status, err
			}
			status.Contents = append(status.Contents, content)
		}
	}
	if slices.Contains(contents, 0) && current >= 0 && records[current].Revision != 0 {
		r := records[current]
		r.Revision = 0
		content, err := v.content(r)
		if err != nil {
			return status, err
		}
		status.Contents = append(status.Contents, content)
	}
	return status, nil
}

// content is a revision without what may not be seen.
func (v viewer) content(r history.Record) (fleetv1alpha1.RevisionContent, error) {
	content := fleetv1alpha1.RevisionContent{Revision: r.Revision}
	var err error
	encode := func(object map[string]any) *runtime.RawExtension {
		raw, failed := json.Marshal(object)
		err = cmp.Or(err, failed)
		return &runtime.RawExtension{Raw: raw}
	}
	content.Template = encode(r.State.Template)
	if r.State.Policy != nil {
		if v.policy(r.State.Policy) {
			content.Policy = encode(r.State.Policy)
		} else {
			content.Hidden = append(content.Hidden, fleetv1alpha1.RevisionPolicy)
		}
	}
	for _, o := range r.State.Overrides {
		if v.policy(o) {
			content.Overrides = append(content.Overrides, fleetv1alpha1.RevisionObject{Object: encode(o)})
		}
	}
	if !v.policies(r.State.Overrides) {
		content.Hidden = append(content.Hidden, fleetv1alpha1.RevisionOverride)
	}
	if v.clusters {
		content.Clusters = r.State.Clusters
	} else {
		content.Hidden = append(content.Hidden, fleetv1alpha1.RevisionClusters)
	}
	if err != nil {
		return content, fmt.Errorf("encoding revision %d: %w", r.Revision, err)
	}
	return content, nil
}
