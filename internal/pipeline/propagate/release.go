package propagate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// policyLoop reconciles one policy at a time. It writes to no template itself:
// it finds those that the change concerns and leaves them to the propagator.
type policyLoop struct {
	*propagator
	inbox *inbox
}

// releasing is how often a policy being deleted is looked at again while its
// templates are being released.
const releasing = 250 * time.Millisecond

// Reconcile hands on the templates that a changed policy concerns.
func (l *policyLoop) Reconcile(ctx context.Context, key PolicyKey) (reconcile.Result, error) {
	// What was changed shortly before a restart is found out from the templates, so they have to be known.
	if err := l.templates.WaitForSync(ctx); err != nil {
		return reconcile.Result{}, err
	}
	policy, err := l.policies.get(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	bound, err := l.policies.boundBy(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	bound = l.canonical(bound)
	switch {
	case policy == nil:
		l.inbox.add(later, bound...)
		return reconcile.Result{}, nil
	case policy.GetDeletionTimestamp() != nil:
		return l.release(ctx, policy, bound)
	}
	l.giveUp(policy, bound)
	named, listed := l.selected(policy)
	l.inbox.add(soon, named...)
	l.inbox.add(later, listed...)
	l.reportHeld(ctx, policy, append(named, listed...))
	return reconcile.Result{}, nil
}

// release waits until nothing is claimed by a policy being deleted, then lets it
// go. Bindings and copies stay.
func (l *policyLoop) release(ctx context.Context, policy policyv1alpha1.Propagation, bound []hubstore.Ref) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(policy.(client.Object), policy.Finalizer()) {
		l.inbox.add(later, bound...)
		return reconcile.Result{}, nil
	}
	remaining := append(bound, l.claimedBy(policy)...)
	if len(remaining) > 0 {
		l.inbox.add(later, remaining...)
		return reconcile.Result{RequeueAfter: releasing}, nil
	}
	before := policy.DeepCopyObject().(client.Object)
	after := policy.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(after, policy.Finalizer())
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := l.client.Patch(ctx, after, patch); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("letting %s go: %w", keyOf(policy), err)
	}
	return reconcile.Result{}, nil
}

// claimedBy lists templates of the selected kinds that carry the policy's claim.
func (l *policyLoop) claimedBy(policy policyv1alpha1.Propagation) []hubstore.Ref {
	id := policy.GetLabels()[policy.PermanentIDLabel()]
	if id == "" {
		return nil
	}
	mark := labels.SelectorFromSet(labels.Set{policy.PermanentIDLabel(): id})
	found := map[hubstore.Ref]bool{}
	for _, selector := range policy.PropagationSpec().ResourceSelectors {
		gvk, ok := l.templates.Canonical(gvkOf(selector))
		if !ok {
			continue
		}
		for _, meta := range l.templates.List(gvk, policy.GetNamespace(), mark) {
			found[hubstore.Ref{GroupVersionKind: gvk, Namespace: meta.Namespace, Name: meta.Name}] = true
		}
	}
	return slices.Collect(maps.Keys(found))
}

// giveUp marks the bound templates that the policy no longer selects, for the
// propagator to release them.
func (l *policyLoop) giveUp(policy policyv1alpha1.Propagation, bound []hubstore.Ref) {
	for _, ref := range bound {
		meta, ok := l.templates.Meta(ref)
		if !ok || Match(l.subject(ref, meta), policy) != RankNone {
			continue
		}
		if claim := ClaimOn(meta); claim.Policy == keyOf(policy) {
			l.outgrown.Store(ref, claim)
		}
		l.inbox.add(later, ref)
	}
}

// selected lists the templates there are that a policy selects: by name, and by
// labels or kind.
func (l *policyLoop) selected(policy policyv1alpha1.Propagation) (named, listed []hubstore.Ref) {
	for _, selector := range policy.PropagationSpec().ResourceSelectors {
		gvk, ok := l.templates.Canonical(gvkOf(selector))
		if !ok {
			continue
		}
		namespace := selector.Namespace
		if policy.GetNamespace() != "" {
			namespace = policy.GetNamespace()
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
			if Match(l.subject(ref, meta), policy) != RankNone {
				listed = append(listed, ref)
			}
		}
	}
	return named, listed
}

// reportHeld tells the owner of a new or changed policy which selected objects
// it does not get, because other policies hold them.
func (l *policyLoop) reportHeld(ctx context.Context, policy policyv1alpha1.Propagation, selected []hubstore.Ref) {
	if hubAge := l.clock.Since(l.started); hubAge < time.Minute && l.clock.Since(policy.GetCreationTimestamp().Time) > hubAge {
		return // a restart is no news
	}
	holders := map[string]int{}
	total := 0
	for _, ref := range selected {
		meta, ok := l.templates.Meta(ref)
		if !ok {
			continue
		}
		if other := ownerKind(meta); other != "" {
			holders[other]++
			total++
			continue
		}
		claim := ClaimOn(meta)
		if claim == (Claim{}) || claim.Policy == keyOf(policy) {
			continue
		}
		holder, err := l.holder(ctx, claim)
		if err != nil || holder == nil {
			continue
		}
		subject := l.subject(ref, meta)
		if Match(subject, holder) == RankNone || Preempt(subject, holder, []policyv1alpha1.Propagation{policy}) != nil {
			continue
		}
		holders[claim.Policy.String()]++
		total++
	}
	if total == 0 {
		return
	}
	var parts []string
	for holder, n := range holders {
		parts = append(parts, fmt.Sprintf("%s (%d)", holder, n))
	}
	slices.Sort(parts)
	if len(parts) > explained {
		parts = append(parts[:explained], fmt.Sprintf("and %d more", len(parts)-explained))
	}
	kind := "PropagationPolicy"
	if policy.GetNamespace() == "" {
		kind = "ClusterPropagationPolicy"
	}
	l.events.Publish(events.Warning(events.Reference(policyv1alpha1.SchemeGroupVersion.WithKind(kind), policy), events.ApplyPolicyFailed,
		fmt.Sprintf("%d of %d selected objects belong to others, which this policy may not preempt: %s",
			total, len(selected), strings.Join(parts, ", "))))
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
