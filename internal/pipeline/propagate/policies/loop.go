package policies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Templates is the store of templates as this package uses it; *hubstore.Store is one.
type Templates interface {
	WaitForSync(context.Context) error
	Canonical(schema.GroupVersionKind) (schema.GroupVersionKind, bool)
	OtherVersions(schema.GroupVersionKind) []string
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	List(schema.GroupVersionKind, string, labels.Selector) []*metav1.PartialObjectMetadata
}

// Loop reconciles one policy at a time. All fields are required.
type Loop struct {
	// Client is that of package hubclient.
	Client    client.Client
	Templates Templates
	Events    events.Recorder
	Clock     clock.PassiveClock
	// Started is when the process started.
	Started time.Time
	// Enqueue adds templates to the queue of the template loop. It is a function since that loop's package imports this one.
	Enqueue func(priority int, templates ...hubstore.Ref)
	// Unselected is called before a template is enqueued that the policy of its claim no longer selects. It is a function for the same
	// reason.
	Unselected func(hubstore.Ref, policy.Claim)
}

// Priorities in the queue of templates. Templates that a change of a policy enqueues wait behind those that users change.
const (
	soon  = 0
	later = handler.LowPriority
)

// maxListed is how many holders an event names.
const maxListed = 8

// Request names a policy that changed, or an override policy that was created.
type Request struct {
	policy.Key
	Override bool
}

// String is the request as logs show it.
func (r Request) String() string {
	if r.Override {
		return "override policy " + r.Namespace + "/" + r.Name
	}
	return r.Key.String()
}

// Reconcile enqueues the templates that a changed policy concerns. For an override policy it does so for all policies that depend
// on it.
func (l *Loop) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	if !request.Override {
		return l.reconcile(ctx, request.Key)
	}
	keys, err := DependingOnOverride(ctx, l.Client, request.Key)
	failures := []error{err}
	for _, key := range keys {
		_, err := l.reconcile(ctx, key)
		failures = append(failures, err)
	}
	return reconcile.Result{}, errors.Join(failures...)
}

func (l *Loop) policies() hubclient.Policies { return hubclient.Policies{Reader: l.Client} }

func (l *Loop) reconcile(ctx context.Context, key policy.Key) (reconcile.Result, error) {
	// What was changed shortly before a restart is found out from the templates, so they have to be known.
	if err := l.Templates.WaitForSync(ctx); err != nil {
		return reconcile.Result{}, err
	}
	propagation, err := l.policies().Get(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	bound, err := boundBy(ctx, l.Client, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	bound = l.canonical(bound)
	switch {
	case propagation == nil:
		l.Enqueue(later, bound...)
		return reconcile.Result{}, nil
	case propagation.GetDeletionTimestamp() != nil:
		return l.release(ctx, propagation, bound)
	}
	l.unselect(propagation, bound)
	named, listed := l.selected(propagation)
	l.Enqueue(soon, named...)
	l.Enqueue(later, listed...)
	return reconcile.Result{}, l.reportHeld(ctx, propagation, append(named, listed...))
}

// release waits until no template is claimed by a policy that is being deleted, then removes its finalizer. Bindings and copies stay.
func (l *Loop) release(ctx context.Context, propagation policyv1alpha1.Propagation, bound []hubstore.Ref) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(propagation, propagation.Finalizer()) {
		l.Enqueue(later, bound...)
		return reconcile.Result{}, nil
	}
	remaining := append(bound, l.claimedBy(propagation)...)
	if len(remaining) > 0 {
		l.Enqueue(later, remaining...)
		return reconcile.Result{RequeueAfter: backoff.NotYet}, nil
	}
	return reconcile.Result{}, hubclient.RemoveFinalizer(ctx, l.Client, propagation, propagation.Finalizer())
}

// claimedBy lists templates of the selected kinds that carry the policy's claim.
func (l *Loop) claimedBy(propagation policyv1alpha1.Propagation) []hubstore.Ref {
	id := propagation.GetLabels()[propagation.PermanentIDLabel()]
	if id == "" {
		return nil
	}
	mark := labels.SelectorFromSet(labels.Set{propagation.PermanentIDLabel(): id})
	found := map[hubstore.Ref]bool{}
	for _, selector := range propagation.PropagationSpec().ResourceSelectors {
		gvk, ok := l.Templates.Canonical(policy.KindOf(selector))
		if !ok {
			continue
		}
		for _, meta := range l.Templates.List(gvk, propagation.GetNamespace(), mark) {
			found[hubstore.Ref{GroupVersionKind: gvk, Namespace: meta.Namespace, Name: meta.Name}] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// unselect enqueues the bound templates that the policy no longer selects, for the propagator to release them.
func (l *Loop) unselect(propagation policyv1alpha1.Propagation, bound []hubstore.Ref) {
	for _, ref := range bound {
		meta, ok := l.Templates.Meta(ref)
		if !ok || policy.Match(policy.SubjectOf(ref.GroupVersionKind, meta, l.Templates.OtherVersions(ref.GroupVersionKind)), propagation) != policy.RankNone {
			continue
		}
		if claim := policy.ClaimOn(meta); claim.Policy == policy.KeyOf(propagation) {
			l.Unselected(ref, claim)
		}
		l.Enqueue(later, ref)
	}
}

// selected lists the templates there are that a policy selects: by name, and by labels or kind.
func (l *Loop) selected(propagation policyv1alpha1.Propagation) (named, listed []hubstore.Ref) {
	for _, selector := range propagation.PropagationSpec().ResourceSelectors {
		gvk, ok := l.Templates.Canonical(policy.KindOf(selector))
		if !ok {
			continue
		}
		namespace := selector.Namespace
		if propagation.GetNamespace() != "" {
			namespace = propagation.GetNamespace()
		}
		if selector.Name != "" && namespace != "" {
			ref := hubstore.Ref{GroupVersionKind: gvk, Namespace: namespace, Name: selector.Name}
			if _, ok := l.Templates.Meta(ref); ok {
				named = append(named, ref)
			}
			continue
		}
		for _, meta := range l.Templates.List(gvk, namespace, labels.Everything()) {
			ref := hubstore.Ref{GroupVersionKind: gvk, Namespace: meta.Namespace, Name: meta.Name}
			if policy.Match(policy.SubjectOf(ref.GroupVersionKind, meta, l.Templates.OtherVersions(ref.GroupVersionKind)), propagation) != policy.RankNone {
				listed = append(listed, ref)
			}
		}
	}
	return named, listed
}

// reportHeld publishes an event for a new or changed policy with the selected objects that other policies hold.
func (l *Loop) reportHeld(ctx context.Context, propagation policyv1alpha1.Propagation, selected []hubstore.Ref) error {
	if hubAge := l.Clock.Since(l.Started); hubAge < time.Minute && l.Clock.Since(propagation.GetCreationTimestamp().Time) > hubAge {
		return nil // a restart publishes no event
	}
	holders := map[string]int{}
	total := 0
	for _, ref := range selected {
		meta, ok := l.Templates.Meta(ref)
		if !ok {
			continue
		}
		if other := policy.OtherOwner(meta); other != "" {
			holders[other]++
			total++
			continue
		}
		claim := policy.ClaimOn(meta)
		if claim == (policy.Claim{}) || claim.Policy == policy.KeyOf(propagation) {
			continue
		}
		holder, err := l.policies().Holder(ctx, claim)
		if err != nil {
			return err
		}
		if holder == nil {
			continue
		}
		subject := policy.SubjectOf(ref.GroupVersionKind, meta, l.Templates.OtherVersions(ref.GroupVersionKind))
		if policy.Match(subject, holder) == policy.RankNone || policy.Preempt(subject, holder, []policyv1alpha1.Propagation{propagation}) != nil {
			continue
		}
		holders[claim.Policy.String()]++
		total++
	}
	if total == 0 {
		return nil
	}
	var parts []string
	for holder, n := range holders {
		parts = append(parts, fmt.Sprintf("%s (%d)", holder, n))
	}
	slices.Sort(parts)
	if len(parts) > maxListed {
		parts = append(parts[:maxListed], fmt.Sprintf("and %d more", len(parts)-maxListed))
	}
	kind := "PropagationPolicy"
	if propagation.GetNamespace() == "" {
		kind = "ClusterPropagationPolicy"
	}
	l.Events.Publish(events.Warning(events.Reference(policyv1alpha1.SchemeGroupVersion.WithKind(kind), propagation), events.ApplyPolicyFailed,
		fmt.Sprintf("%d of %d selected objects belong to others, which this policy may not preempt: %s",
			total, len(selected), strings.Join(parts, ", "))))
	return nil
}

// canonical gives references the version that the store uses.
func (l *Loop) canonical(refs []hubstore.Ref) []hubstore.Ref {
	for i := range refs {
		refs[i] = refs[i].Canonical(l.Templates)
	}
	return refs
}
