package propagate

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/dependencies"
)

// Templates is the store of templates as this package uses it; *hubstore.Store is one.
type Templates interface {
	Subscribe(func(hubstore.Ref))
	WaitForSync(context.Context) error
	Canonical(schema.GroupVersionKind) (schema.GroupVersionKind, bool)
	OtherVersions(schema.GroupVersionKind) []string
	Mapping(schema.GroupVersionKind) (gvr schema.GroupVersionResource, namespaced, ok bool)
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	Deleted(types.UID) bool
	List(schema.GroupVersionKind, string, labels.Selector) []*metav1.PartialObjectMetadata
	Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
	Read(ctx context.Context, ref hubstore.Ref, notBefore string) (*unstructured.Unstructured, error)
	PatchMetadata(context.Context, hubstore.Ref, []byte) (*unstructured.Unstructured, error)
}

// workloads is the part of the interpreter that is about replicas.
type workloads interface {
	interpret.Workload
	Supports(schema.GroupVersionKind, configv1alpha1.InterpreterOperation) bool
}

// propagator reconciles one template at a time.
type propagator struct {
	client     client.Client
	bindings   bindings.Writer
	policies   hubclient.Policies
	templates  Templates
	workload   workloads
	shape      interpret.Shape
	conversion conversion.Adviser
	// customized is Deps.Customized.
	customized func(schema.GroupVersionKind) string
	// hasWorks is Deps.HasWorks.
	hasWorks func(context.Context, client.ObjectKey) (bool, error)
	events   events.Recorder
	clock    clock.PassiveClock
	started  time.Time

	// unmatched bounds the events about templates that no policy selects: who creates thousands at once needs only some.
	unmatched flowcontrol.PassiveRateLimiter

	// deleted has bindings that were deleted while their template stays, until they are created again: what the scheduler
	// decided for them is kept, so that creating them again moves nothing.
	deleted sync.Map // template.Ref → workv1alpha2.Binding

	// unselected has templates that a changed policy no longer selects. Only then is a template released: a template whose own labels
	// moved away stays where it is until its policy changes. A start counts as a change of every policy: it is unknown which were
	// changed shortly before.
	unselected sync.Map // template.Ref → policy.Claim
}

// unmatchedGrace is how long a new template may be without a policy before an event reports it: policies are often created a moment later.
const unmatchedGrace = 5 * time.Second

// Reconcile brings claim and binding of one template up to date.
func (p *propagator) Reconcile(ctx context.Context, ref hubstore.Ref) (reconcile.Result, error) {
	meta, ok := p.templates.Meta(ref)
	if !ok {
		return reconcile.Result{}, p.collect(ctx, ref)
	}
	if meta.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if meta.Labels[policyv1alpha1.ResourceTemplateClaimedByLabel] != "" {
		p.deleted.Delete(ref)
		return reconcile.Result{}, p.explainClaim(ctx, ref, meta)
	}
	binding, err := p.bindingOf(ctx, ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	name := workv1alpha2.BindingName(ref.GroupVersionKind.Kind, ref.Name)
	if binding != nil {
		p.deleted.Delete(ref)
		name = binding.GetName()
	}
	controlloop.About(ctx, ref.Namespace+"/"+name)
	subject := p.subject(ref, meta)
	dependants, err := p.dependants(ctx, subject)
	if err != nil {
		return reconcile.Result{}, err
	}
	back, err := p.returning(ctx, binding, dependants, maxChain)
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := p.claimAndBind(ctx, &claimant{ref: ref, meta: meta, dependants: dependencies.InOrder(append(dependants, back...))}, subject, binding)
	if len(back) > 0 && result.RequeueAfter == 0 {
		result.RequeueAfter = backoff.NotYet // the Works of a dependant that is deleted for good go without an event for this package
	}
	return result, err
}

// claimAndBind finds the policy of a template, and updates claim and binding accordingly.
func (p *propagator) claimAndBind(ctx context.Context, c *claimant, subject policy.Subject, binding workv1alpha2.Binding) (reconcile.Result, error) {
	propagation, contest, keep, err := p.policyFor(ctx, subject, c.meta, binding)
	switch {
	case err != nil:
		return reconcile.Result{}, err
	case keep:
		return reconcile.Result{}, p.attach(ctx, c.ref, c.meta, binding, c.dependants)
	case propagation == nil:
		return p.unclaimed(ctx, c.ref, c.meta, binding, c.dependants)
	}
	c.policy, c.contest = propagation, contest
	return p.adopt(ctx, c, binding)
}

// collect deletes the binding of a template that is gone. The API server is read before, so that a cache that is behind never costs a
// running copy. A template that was created again keeps the binding.
func (p *propagator) collect(ctx context.Context, ref hubstore.Ref) error {
	p.unselected.Delete(ref)
	p.deleted.Delete(ref)
	binding, err := p.bindingOf(ctx, ref)
	if err != nil || binding == nil {
		return err
	}
	if binding.GetDeletionTimestamp() != nil || p.bindsOther(binding, ref) || !bindings.IsOwned(binding) {
		return nil
	}
	if _, err := p.templates.Get(ctx, ref); !apierrors.IsNotFound(err) {
		return err
	}
	return p.deleteBinding(ctx, binding)
}

func (p *propagator) deleteBinding(ctx context.Context, binding workv1alpha2.Binding) error {
	err := p.client.Delete(ctx, binding, client.Preconditions{UID: ptr.To(binding.GetUID())},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting binding %s: %w", client.ObjectKeyFromObject(binding), err)
	}
	return nil
}

// bindingOf reads the binding of a template, nil if there is none. One that took
// the alternative name keeps it, also when the other is free.
func (p *propagator) bindingOf(ctx context.Context, ref hubstore.Ref) (workv1alpha2.Binding, error) {
	binding, err := p.bindingAt(ctx, ref, bindings.Key(ref))
	if err != nil || binding != nil && !p.bindsOther(binding, ref) {
		return binding, err
	}
	return p.bindingAt(ctx, ref, bindings.AlternativeKey(ref))
}

// freeName is the name for a new binding of a template. The cache may show the template's own binding only now, since an earlier
// reconcile created it: that name is not taken by another template, and creating it again returns AlreadyExists.
func (p *propagator) freeName(ctx context.Context, ref hubstore.Ref) (string, error) {
	present, err := p.bindingAt(ctx, ref, bindings.Key(ref))
	if err != nil || present == nil || !p.bindsOther(present, ref) {
		return bindings.Key(ref).Name, err
	}
	return bindings.AlternativeKey(ref).Name, nil
}

func (p *propagator) bindingAt(ctx context.Context, ref hubstore.Ref, key client.ObjectKey) (workv1alpha2.Binding, error) {
	binding := workv1alpha2.EmptyBinding(ref.Namespace)
	err := p.client.Get(ctx, key, binding)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading binding %s: %w", key, err)
	}
	return binding, nil
}

// subject is a template as policies see it.
func (p *propagator) subject(ref hubstore.Ref, meta metav1.Object) policy.Subject {
	return policy.SubjectOf(ref.GroupVersionKind, meta, p.templates.OtherVersions(ref.GroupVersionKind))
}

// policyFor decides which policy a template belongs to, nil if to none, and returns
// how it won if there were others. With keep, everything is to stay as it is.
func (p *propagator) policyFor(ctx context.Context, subject policy.Subject, meta metav1.Object, binding workv1alpha2.Binding) (propagation policyv1alpha1.Propagation, contest string, keep bool, err error) {
	holder, err := p.policies.Holder(ctx, policy.ClaimOn(meta))
	if err != nil {
		return nil, "", false, err
	}
	if holder != nil && policy.Match(subject, holder) == policy.RankNone {
		unselected, _ := p.unselected.LoadAndDelete(refOf(subject))
		if binding != nil && unselected != policy.ClaimOn(meta) {
			return nil, "", true, nil
		}
		holder = nil
	}
	if holder != nil {
		naming, err := p.policies.Naming(ctx, subject)
		if err != nil {
			return nil, "", false, err
		}
		if preemptor := policy.Preempt(subject, holder, naming); preemptor != nil {
			p.publish(refOf(subject), meta, events.Success, events.PreemptPolicySucceed,
				fmt.Sprintf("%s (priority %d) takes the object from %s (priority %d)",
					policy.KeyOf(preemptor), policy.PriorityOf(preemptor), policy.KeyOf(holder), policy.PriorityOf(holder)))
			return preemptor, "", false, nil
		}
		return holder, "", false, nil
	}
	decision, err := p.policies.Choose(ctx, subject)
	if err != nil {
		return nil, "", false, err
	}
	if decision.Contested() {
		contest = decision.Explain()
	}
	return decision.Winner, contest, false, nil
}

// unclaimed removes the claim of a template that no policy selects. Its binding and copies stay until the template is deleted or another policy
// selects it.
func (p *propagator) unclaimed(ctx context.Context, ref hubstore.Ref, meta *metav1.PartialObjectMetadata, binding workv1alpha2.Binding, dependants []workv1alpha2.Binding) (reconcile.Result, error) {
	if len(dependants) == 0 {
		p.deleted.Delete(ref)
	}
	had := policy.IsClaimed(meta)
	if had {
		if _, err := p.patchTemplate(ctx, ref, claimPatch(meta, nil)); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if binding != nil && policy.IsClaimed(binding) {
		if err := p.patchBinding(ctx, binding, claimPatch(binding, nil), nil); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := p.attach(ctx, ref, meta, binding, dependants); err != nil {
		return reconcile.Result{}, err
	}
	if len(dependants) > 0 {
		return reconcile.Result{}, nil
	}
	age := p.clock.Since(meta.CreationTimestamp.Time)
	if !had && age < unmatchedGrace {
		return reconcile.Result{RequeueAfter: unmatchedGrace - age}, nil
	}
	if had || p.fresh(meta) {
		return reconcile.Result{}, p.explain(ctx, ref, meta, had)
	}
	return reconcile.Result{}, nil
}

// fresh returns whether the result for a template is new, and not one that a restart computes again.
func (p *propagator) fresh(meta metav1.Object) bool {
	up := p.clock.Since(p.started)
	return up > time.Minute || p.clock.Since(meta.GetCreationTimestamp().Time) < up+unmatchedGrace
}

// explainClaim publishes that a policy selects a template, and does not apply since an object of another kind has claimed it.
func (p *propagator) explainClaim(ctx context.Context, ref hubstore.Ref, meta metav1.Object) error {
	if !p.fresh(meta) {
		return nil
	}
	decision, err := p.policies.Choose(ctx, p.subject(ref, meta))
	if err != nil {
		return err
	}
	if winner := decision.Winner; winner != nil {
		p.publish(ref, meta, events.Warning, events.ApplyPolicyFailed,
			fmt.Sprintf("%s selects the object, but %s has it: no policy applies until that is gone", policy.KeyOf(winner), policy.OtherOwner(meta)))
	}
	return nil
}

// explain publishes why no policy selects a template: if one did before, if one would but for a part of its selector, or if its author probably
// expects that it is propagated.
func (p *propagator) explain(ctx context.Context, ref hubstore.Ref, meta *metav1.PartialObjectMetadata, had bool) error {
	subject := p.subject(ref, meta)
	candidates, err := p.policies.OfKind(ctx, subject)
	if err != nil {
		return err
	}
	decision := policy.Choose(subject, candidates)
	switch {
	case decision.Winner != nil:
	case had || decision.Near():
		p.publish(ref, meta, events.Warning, events.ApplyPolicyFailed, decision.Explain())
	case p.needsPolicy(ref, meta) && p.unmatched.TryAccept():
		p.publish(ref, meta, events.Warning, events.ApplyPolicyFailed,
			"No policy match for resource: it is in no member until a PropagationPolicy of its namespace or a ClusterPropagationPolicy selects it")
	}
	return nil
}

// needsPolicy returns whether the author of a template that no policy selects probably means it to be propagated: it is new, it has
// replicas, of which none ever runs on the control plane, and no other object owns it. The most objects, which are configuration, are none.
func (p *propagator) needsPolicy(ref hubstore.Ref, meta *metav1.PartialObjectMetadata) bool {
	return p.clock.Since(meta.CreationTimestamp.Time) < unmatchedGrace+time.Minute && len(meta.OwnerReferences) == 0 &&
		p.workload.Supports(ref.GroupVersionKind, configv1alpha1.InterpreterOperationInterpretReplica)
}

func (p *propagator) publish(ref hubstore.Ref, meta metav1.Object, make eventMaker, reason, message string) {
	p.events.Publish(make(events.Reference(ref.GroupVersionKind, meta), reason, message))
}
