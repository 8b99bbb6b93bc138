package propagate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// policyLoop reconciles one policy at a time. It writes to no template itself:
// it finds those that the change concerns and leaves them to the propagator.
type policyLoop struct {
	*propagator
	inbox *inbox
}

// maxListed is how many holders an event names.
const maxListed = 8

// policyRequest names a policy that changed, or an override policy that was created.
type policyRequest struct {
	policy.Key
	override bool
}

// String is the request as logs show it.
func (r policyRequest) String() string {
	if r.override {
		return "override policy " + r.Namespace + "/" + r.Name
	}
	return r.Key.String()
}

// Reconcile enqueues the templates that a changed policy concerns. For an override policy it does so for all policies that depend
// on it.
func (l *policyLoop) Reconcile(ctx context.Context, request policyRequest) (reconcile.Result, error) {
	if !request.override {
		return l.reconcile(ctx, request.Key)
	}
	keys, err := dependingOnOverride(ctx, l.client, request.Key)
	failures := []error{err}
	for _, key := range keys {
		_, err := l.reconcile(ctx, key)
		failures = append(failures, err)
	}
	return reconcile.Result{}, errors.Join(failures...)
}

func (l *policyLoop) reconcile(ctx context.Context, key policy.Key) (reconcile.Result, error) {
	// What was changed shortly before a restart is found out from the templates, so they have to be known.
	if err := l.templates.WaitForSync(ctx); err != nil {
		return reconcile.Result{}, err
	}
	propagation, err := l.policies.Get(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	bound, err := boundBy(ctx, l.client, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	bound = l.canonical(bound)
	switch {
	case propagation == nil:
		l.inbox.add(later, bound...)
		return reconcile.Result{}, nil
	case propagation.GetDeletionTimestamp() != nil:
		return l.release(ctx, propagation, bound)
	}
	l.giveUp(propagation, bound)
	named, listed := l.selected(propagation)
	l.inbox.add(soon, named...)
	l.inbox.add(later, listed...)
	return reconcile.Result{}, l.reportHeld(ctx, propagation, append(named, listed...))
}

// release waits until nothing is claimed by a policy being deleted, then lets it go. Bindings and copies stay.
func (l *policyLoop) release(ctx context.Context, propagation policyv1alpha1.Propagation, bound []hubstore.Ref) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(propagation, propagation.Finalizer()) {
		l.inbox.add(later, bound...)
		return reconcile.Result{}, nil
	}
	remaining := append(bound, l.claimedBy(propagation)...)
	if len(remaining) > 0 {
		l.inbox.add(later, remaining...)
		return reconcile.Result{RequeueAfter: backoff.NotYet}, nil
	}
	return reconcile.Result{}, hubclient.RemoveFinalizer(ctx, l.client, propagation, propagation.Finalizer())
}

// claimedBy lists templates of the selected kinds that carry the policy's claim.
func (l *policyLoop) claimedBy(propagation policyv1alpha1.Propagation) []hubstore.Ref {
	id := propagation.GetLabels()[propagation.PermanentIDLabel()]
	if id == "" {
		return nil
	}
	mark := labels.SelectorFromSet(labels.Set{propagation.PermanentIDLabel(): id})
	found := map[hubstore.Ref]bool{}
	for _, selector := range propagation.PropagationSpec().ResourceSelectors {
		gvk, ok := l.templates.Canonical(policy.KindOf(selector))
		if !ok {
			continue
		}
		for _, meta := range l.templates.List(gvk, propagation.GetNamespace(), mark) {
			found[hubstore.Ref{GroupVersionKind: gvk, Namespace: meta.Namespace, Name: meta.Name}] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// giveUp marks the bound templates that the policy no longer selects, for the propagator to release them.
func (l *policyLoop) giveUp(propagation policyv1alpha1.Propagation, bound []hubstore.Ref) {
	for _, ref := range bound {
		meta, ok := l.templates.Meta(ref)
		if !ok || policy.Match(l.subject(ref, meta), propagation) != policy.RankNone {
			continue
		}
		if claim := policy.ClaimOn(meta); claim.Policy == policy.KeyOf(propagation) {
			l.outgrown.Store(ref, claim)
		}
		l.inbox.add(later, ref)
	}
}

// selected lists the templates there are that a policy selects: by name, and by labels or kind.
func (l *policyLoop) selected(propagation policyv1alpha1.Propagation) (named, listed []hubstore.Ref) {
	for _, selector := range propagation.PropagationSpec().ResourceSelectors {
		gvk, ok := l.templates.Canonical(policy.KindOf(selector))
		if !ok {
			continue
		}
		namespace := selector.Namespace
		if propagation.GetNamespace() != "" {
			namespace = propagation.GetNamespace()
		}
		if selector.Name != "" && namespace != "" {
			ref := hubstore.Ref{GroupVersionKind: gvk, Namespace: namespace, Name: selector.Name}
			if _, ok := l.templates.Meta(ref); ok {
				named = append(named, ref)
			}
			continue
		}
		for _, meta := range l.templates.List(gvk, namespace, labels.Everything()) {
			ref := hubstore.Ref{GroupVersionKind: gvk, Namespace: meta.Namespace, Name: meta.Name}
			if policy.Match(l.subject(ref, meta), propagation) != policy.RankNone {
				listed = append(listed, ref)
			}
		}
	}
	return named, listed
}

// reportHeld tells the owner of a new or changed policy which selected objects it does not get, because other policies hold them.
func (l *policyLoop) reportHeld(ctx context.Context, propagation policyv1alpha1.Propagation, selected []hubstore.Ref) error {
	if hubAge := l.clock.Since(l.started); hubAge < time.Minute && l.clock.Since(propagation.GetCreationTimestamp().Time) > hubAge {
		return nil // what a restart finds again is no news
	}
	holders := map[string]int{}
	total := 0
	for _, ref := range selected {
		meta, ok := l.templates.Meta(ref)
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
		holder, err := l.holder(ctx, claim)
		if err != nil {
			return err
		}
		if holder == nil {
			continue
		}
		subject := l.subject(ref, meta)
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
	l.events.Publish(events.Warning(events.Reference(policyv1alpha1.SchemeGroupVersion.WithKind(kind), propagation), events.ApplyPolicyFailed,
		fmt.Sprintf("%d of %d selected objects belong to others, which this policy may not preempt: %s",
			total, len(selected), strings.Join(parts, ", "))))
	return nil
}

// canonical gives references the version under which the store knows them.
func (l *policyLoop) canonical(refs []hubstore.Ref) []hubstore.Ref {
	for i := range refs {
		refs[i] = canonicalRef(l.templates, refs[i])
	}
	return refs
}

func canonicalRef(templates Templates, ref hubstore.Ref) hubstore.Ref {
	if gvk, ok := templates.Canonical(ref.GroupVersionKind); ok {
		ref.GroupVersionKind = gvk
	}
	return ref
}
