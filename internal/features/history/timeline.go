package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const (
	// maxEntries is how many entries one answer has.
	maxEntries = 1000
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
	events.BrakeEngaged, events.BrakeReleased, events.FieldPutBack, events.RestoreBinding, events.RestoreWork,
)

// Timeline answers what happened lately.
func (k *Keeper) Timeline(ctx context.Context, spec fleetv1alpha1.TimelineSpec, may May) (fleetv1alpha1.TimelineStatus, error) {
	since := time.Duration(spec.SinceSeconds) * time.Second
	if since <= 0 {
		since = defaultSince
	}
	from := k.Clock.Now().Add(-since)
	all, err := k.revised(ctx, spec.Namespace, from, may)
	if err != nil {
		return fleetv1alpha1.TimelineStatus{}, err
	}
	removed, err := k.deletedObjects(ctx, spec.Namespace, may)
	if err != nil {
		return fleetv1alpha1.TimelineStatus{}, err
	}
	for _, d := range removed {
		all = append(all, fleetv1alpha1.TimelineEntry{
			Time: metav1.NewTime(d.Time), Source: fleetv1alpha1.TimelineDeletion, Object: identityOf(d.ref), User: d.Author.User, Message: "deleted",
		})
	}
	happened, err := k.happened(ctx, spec.Namespace, may)
	if err != nil {
		return fleetv1alpha1.TimelineStatus{}, err
	}
	return timeline(append(all, happened...), from), nil
}

// timeline is the newest of some entries since a time, in order.
func timeline(all []fleetv1alpha1.TimelineEntry, from time.Time) fleetv1alpha1.TimelineStatus {
	all = slices.DeleteFunc(all, func(e fleetv1alpha1.TimelineEntry) bool { return e.Time.Time.Before(from) })
	slices.SortStableFunc(all, func(a, b fleetv1alpha1.TimelineEntry) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Object.Namespace+"/"+a.Object.Name, b.Object.Namespace+"/"+b.Object.Name), cmp.Compare(a.Reason, b.Reason))
	})
	status := fleetv1alpha1.TimelineStatus{Entries: all}
	if surplus := len(all) - maxEntries; surplus > 0 {
		status.Entries, status.Truncated = all[surplus:], true
	}
	return status
}

// revised are the revisions that came to be since a time, with what changed in each.
func (k *Keeper) revised(ctx context.Context, namespace string, from time.Time, may May) ([]fleetv1alpha1.TimelineEntry, error) {
	byOwner, err := k.storage.All(ctx, namespace)
	if err != nil {
		return nil, err
	}
	kinds := map[string]hubstore.Kind{}
	for _, kind := range k.Templates.Kinds() {
		kinds[kind.GroupVersionKind.GroupKind().String()] = kind
	}
	var all []fleetv1alpha1.TimelineEntry
	for owner, records := range byOwner {
		of := &unstructured.Unstructured{Object: records[0].State.Template}
		ref := hubstore.RefOf(of)
		kind, served := kinds[ref.GroupVersionKind.GroupKind().String()]
		if !served || !may(rightOf(kind, ref)) {
			continue
		}
		if meta, ok := k.Templates.Meta(ref); !ok || meta.UID != owner {
			continue // its history goes with it
		}
		v := viewer{may: may, clusters: may(bindingRight(ref, bindingKeys(ref)[0].Name))}
		for i, r := range records {
			if i == 0 || r.Time.Before(from) {
				continue // the first has nothing to be compared with
			}
			changes, hidden := v.changes(records[i-1].State, r.State)
			entry := fleetv1alpha1.TimelineEntry{
				Time: metav1.NewTime(r.Time), Source: fleetv1alpha1.TimelineRevision, Object: identityOf(ref), Reason: strconv.FormatInt(r.Revision, 10), Message: messageOf(changes),
			}
			if !hidden && v.part(r.Part, r.State) {
				entry.User, entry.Manager = r.Author.User, r.Author.Manager
			}
			all = append(all, entry)
		}
	}
	return all, nil
}

func messageOf(changes []fleetv1alpha1.RevisionChange) string {
	texts := make([]string, 0, len(changes))
	for _, change := range changes {
		if change.Hidden {
			texts = append(texts, strings.ToLower(string(change.Part))+" (hidden)")
			continue
		}
		texts = append(texts, change.Text)
	}
	return strings.Join(texts, "; ")
}

// happened are the Events of the control plane about where objects go. Who may get an Event sees it.
func (k *Keeper) happened(ctx context.Context, namespace string, may May) ([]fleetv1alpha1.TimelineEntry, error) {
	var all []fleetv1alpha1.TimelineEntry
	list := &corev1.EventList{}
	for {
		if err := k.Live.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(list.Continue)); err != nil {
			return nil, fmt.Errorf("listing events: %w", err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			if !reasons.Has(e.Reason) || !may(explain.Right{Resource: "events", Namespace: e.Namespace, Name: e.Name}) {
				continue
			}
			of := e.InvolvedObject
			all = append(all, fleetv1alpha1.TimelineEntry{
				Time: lastOf(e), Source: fleetv1alpha1.TimelineEvent, Manager: cmp.Or(e.ReportingController, e.Source.Component), Reason: e.Reason, Message: e.Message,
				Object: fleetv1alpha1.ObjectIdentity{APIVersion: of.APIVersion, Kind: of.Kind, Namespace: of.Namespace, Name: of.Name},
			})
		}
		if list.Continue == "" {
			return all, nil
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
