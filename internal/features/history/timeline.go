package history

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/history/latest"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
	"github.com/flagship-k8s/flagship/internal/features/history/visible"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const (
	// defaultSince is how far an answer reaches back.
	defaultSince = time.Hour
	// page is how many objects are read at once.
	page = 500
)

// reasons are those of Events that are in a timeline: where objects go and why, and what holds them.
var reasons = sets.New(
	events.ScheduleBindingSucceed, events.ScheduleBindingFailed, events.DescheduleBindingSucceed, events.DescheduleBindingFailed,
	events.EvictWorkloadFromClusterSucceed, events.EvictWorkloadFromClusterFailed, events.ApplyPolicySucceed, events.ApplyPolicyFailed,
	events.ApplyOverridePolicyFailed, events.PreemptPolicySucceed, events.TaintClusterSucceed, events.TaintClusterFailed,
	events.BrakeEngaged, events.BrakeReleased, events.FieldPutBack, events.ObjectCreatedAgain, events.RestoreBinding, events.RestoreWork,
)

// Timeline answers what happened lately. What it reads is bounded by what it answers: contents of revisions are read for those that are in
// the answer, one after the other, and none of deletions.
func (k *Keeper) Timeline(ctx context.Context, spec fleetv1alpha1.TimelineSpec, may May) (fleetv1alpha1.TimelineStatus, error) {
	since := time.Duration(spec.SinceSeconds) * time.Second
	if since <= 0 {
		since = defaultSince
	}
	all := latest.Entries{From: k.Clock.Now().Add(-since)}
	if err := k.revised(ctx, spec.Namespace, &all, may); err != nil {
		return fleetv1alpha1.TimelineStatus{}, err
	}
	removed, err := k.deletedObjects(ctx, spec.Namespace, may)
	if err != nil {
		return fleetv1alpha1.TimelineStatus{}, err
	}
	for _, d := range removed {
		all.Add(fleetv1alpha1.TimelineEntry{
			Time: metav1.NewTime(d.Time), Source: fleetv1alpha1.TimelineDeletion, Object: d.Object, User: d.User, Message: "deleted",
		})
	}
	if err := k.happened(ctx, spec.Namespace, &all, may); err != nil {
		return fleetv1alpha1.TimelineStatus{}, err
	}
	return all.Status(), nil
}

// revised adds the revisions that came to be, with what changed in each.
func (k *Keeper) revised(ctx context.Context, namespace string, all *latest.Entries, may May) error {
	kinds := k.byKind()
	refOf := func(o stored.Owner) (ref hubstore.Ref, visible bool) {
		ref = hubstore.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(o.Object.APIVersion, o.Object.Kind), Name: o.Object.Name}
		kind, served := kinds[ref.GroupVersionKind.GroupKind()]
		if kind.Namespaced {
			ref.Namespace = o.Object.Namespace
		}
		if !served || !may(rightOf(kind, ref)) {
			return ref, false
		}
		meta, ok := k.Templates.Meta(ref.Canonical(k.Templates))
		return ref, ok && meta.UID == o.UID // its history goes with it; and the name is that of the uid, for which the content is sealed
	}
	wanted := func(o stored.Owner) bool { _, visible := refOf(o); return visible }
	more, err := k.storage.Since(ctx, namespace, all.From, latest.Max, wanted, func(c stored.Change) {
		ref, _ := refOf(c.Owner)
		v := visible.View{May: may, Clusters: may(bindingRight(ref, bindingKeys(ref)[0].Name))}
		changes, hidden := v.Changes(c.Before, c.After)
		entry := fleetv1alpha1.TimelineEntry{
			Time: metav1.NewTime(c.After.Time), Source: fleetv1alpha1.TimelineRevision, Object: identityOf(ref), Reason: strconv.FormatInt(c.After.Revision, 10), Message: visible.Message(changes),
		}
		if !hidden && v.Part(c.After.Part, c.After.State) {
			entry.User, entry.Manager = c.After.Author.User, c.After.Author.Manager
		}
		all.Add(entry)
	})
	all.Truncated = all.Truncated || more
	return err
}

// byKind are the kinds of templates.
func (k *Keeper) byKind() map[schema.GroupKind]hubstore.Kind {
	kinds := map[schema.GroupKind]hubstore.Kind{}
	for _, kind := range k.Templates.Kinds() {
		kinds[kind.GroupVersionKind.GroupKind()] = kind
	}
	return kinds
}

// happened adds the Events of the control plane about where objects go. Who may get an Event sees it.
func (k *Keeper) happened(ctx context.Context, namespace string, all *latest.Entries, may May) error {
	list := &corev1.EventList{}
	for {
		if err := k.Live.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(list.Continue)); err != nil {
			return fmt.Errorf("listing events: %w", err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			if !reasons.Has(e.Reason) || lastOf(e).Time.Before(all.From) || !may(explain.Right{Resource: "events", Namespace: e.Namespace, Name: e.Name}) {
				continue
			}
			of := e.InvolvedObject
			all.Add(fleetv1alpha1.TimelineEntry{
				Time: lastOf(e), Source: fleetv1alpha1.TimelineEvent, Manager: cmp.Or(e.ReportingController, e.Source.Component), Reason: e.Reason, Message: e.Message,
				Object: fleetv1alpha1.ObjectIdentity{APIVersion: of.APIVersion, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name},
			})
		}
		if list.Continue == "" {
			return nil
		}
	}
}

// lastOf is when an Event happened last.
func lastOf(e *corev1.Event) metav1.Time {
	switch {
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	}
	return e.CreationTimestamp
}
