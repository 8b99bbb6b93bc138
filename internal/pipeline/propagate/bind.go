package propagate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/content"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/dependencies"
)

// adopt updates a template and its binding to its policy.
func (p *propagator) adopt(ctx context.Context, c *claimant, binding workv1alpha2.Binding) (reconcile.Result, error) {
	ref, meta, propagation := c.ref, c.meta, c.policy
	if propagation.GetLabels()[propagation.PermanentIDLabel()] == "" {
		return reconcile.Result{}, fmt.Errorf("applying %s to %s: the policy has no permanent id yet", policy.KeyOf(propagation), ref)
	}
	if binding != nil && binding.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, nil // its end is an event
	}
	missing, err := missingOverride(ctx, p.client, propagation)
	if err != nil {
		return reconcile.Result{}, err
	}
	if missing != "" {
		p.publish(ref, meta, events.Warning, events.ApplyPolicyFailed,
			fmt.Sprintf("%s waits for override policy %q, which does not exist", policy.KeyOf(propagation), missing))
		return reconcile.Result{}, nil // its creation is an event
	}
	return p.bind(ctx, c, binding)
}

// claimant is a template on its way to a binding.
type claimant struct {
	ref    hubstore.Ref
	meta   *metav1.PartialObjectMetadata
	policy policyv1alpha1.Propagation
	// contest returns how the policy won over others that select the template; it
	// is empty if there were none, or if the template was claimed before.
	contest string
	// claimed is whether this reconcile wrote the claim on the template.
	claimed bool
	// dependants are the bindings whose templates need this one.
	dependants []workv1alpha2.Binding
	// obj is the whole template once it has been read.
	obj *unstructured.Unstructured
}

// bind claims the template and writes its binding, each only if it changes.
func (p *propagator) bind(ctx context.Context, c *claimant, binding workv1alpha2.Binding) (reconcile.Result, error) {
	digest, err := p.digest(ctx, c, binding)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	patch := claimPatch(c.meta, c.policy)
	wait, annotation, err := p.lazyWaits(ctx, c, binding, digest)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if wait && binding == nil && c.meta.Annotations[content.BaselineAnnotation] == "" {
		patch.Annotations[content.BaselineAnnotation] = ptr.To(digest.User)
	}
	if !patch.Empty() {
		obj, err := p.patchTemplate(ctx, c.ref, patch)
		switch {
		case apierrors.IsInvalid(err): // until the template or the policy changes
			p.publish(c.ref, c.meta, events.Warning, events.ApplyPolicyFailed, fmt.Sprintf("%s cannot claim the object: %v", policy.KeyOf(c.policy), err))
			return reconcile.Result{}, reconcile.TerminalError(err)
		case err != nil:
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		c.obj, c.claimed = obj, true
		claimed := c.meta.DeepCopy()
		claimed.Labels, claimed.Annotations = obj.GetLabels(), apply(claimed.Annotations, patch.Annotations)
		claimed.ResourceVersion, claimed.Generation = obj.GetResourceVersion(), obj.GetGeneration()
		c.meta = claimed
		// To some kinds, Deployments among them, a claim is a new generation.
		if digest, err = p.digest(ctx, c, binding); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	if wait {
		if binding != nil {
			spec := binding.BindingSpec().DeepCopy()
			spec.Resource.UID = c.meta.UID
			patch := claimPatch(binding, c.policy)
			if annotation != "" {
				patch.Annotations[workv1alpha2.TemplateContentAnnotation] = &annotation
			}
			if err := p.patchBinding(ctx, binding, patch, spec); err != nil {
				return reconcile.Result{}, err
			}
		}
		return reconcile.Result{}, p.attach(ctx, c.ref, c.meta, binding, c.dependants)
	}
	if binding == nil {
		return p.createBinding(ctx, c, digest)
	}
	if err := p.updateBinding(ctx, c, binding, digest); err != nil {
		return reconcile.Result{}, err
	}
	p.publishApplied(c)
	return reconcile.Result{}, nil
}

// publishApplied publishes that a policy came to apply to a template, and which others it won over.
func (p *propagator) publishApplied(c *claimant) {
	if c.claimed {
		p.publish(c.ref, c.meta, events.Success, events.ApplyPolicySucceed, cmp.Or(c.contest, policy.KeyOf(c.policy).String()+" applies"))
	}
}

// digest is the content of a template, with the fingerprint of how its kind is interpreted.
func (p *propagator) digest(ctx context.Context, c *claimant, binding workv1alpha2.Binding) (content.Digest, error) {
	digest, err := p.content(ctx, c, binding)
	digest.Kind = ""
	if p.customized != nil {
		digest.Kind = p.customized(c.ref.GroupVersionKind)
	}
	return digest, err
}

// content is the digest of a template alone. While its resource version is the
// one the binding was made from, so is its content, and nothing need be read.
func (p *propagator) content(ctx context.Context, c *claimant, binding workv1alpha2.Binding) (content.Digest, error) {
	if binding != nil && binding.BindingSpec().Resource.ResourceVersion == c.meta.ResourceVersion && binding.BindingSpec().Resource.UID == c.meta.UID {
		if known := binding.GetAnnotations()[workv1alpha2.TemplateContentAnnotation]; known != "" {
			return content.Parse(known), nil
		}
	}
	counted := c.policy == nil || c.policy.PropagationSpec().ActivationPreference != policyv1alpha1.LazyActivation
	return content.Of(c.ref.GroupVersionKind.GroupKind(), c.meta, counted, func() (*unstructured.Unstructured, error) {
		return p.object(ctx, c)
	})
}

// object reads the whole template, once.
func (p *propagator) object(ctx context.Context, c *claimant) (*unstructured.Unstructured, error) {
	if c.obj == nil {
		obj, err := p.templates.Read(ctx, c.ref, c.meta.ResourceVersion)
		if err != nil {
			return nil, err
		}
		c.obj = obj
	}
	return c.obj, nil
}

// lazyWaits returns whether a lazy policy does not act yet: users have not changed the template since the binding was made or, without a
// binding, since the policy came to a template that was there before it. A claim without a baseline is one that was acted on: its
// binding was deleted, and is created again. Annotation, unless it is empty, is the new value of TemplateContentAnnotation of the binding,
// which was created while the policy was not lazy.
func (p *propagator) lazyWaits(ctx context.Context, c *claimant, binding workv1alpha2.Binding, digest content.Digest) (wait bool, annotation string, err error) {
	if c.policy.PropagationSpec().ActivationPreference != policyv1alpha1.LazyActivation {
		return false, "", nil
	}
	if binding != nil && binding.BindingSpec().Placement != nil {
		recorded := content.Parse(binding.GetAnnotations()[workv1alpha2.TemplateContentAnnotation])
		if !recorded.Counted() {
			return recorded.User == digest.User, "", nil
		}
		eager, lazy, err := p.bothForms(ctx, c)
		if err != nil || eager.User != recorded.User {
			return false, "", err
		}
		recorded.User = lazy.User
		return true, recorded.String(), nil
	}
	if baseline := c.meta.Annotations[content.BaselineAnnotation]; baseline != "" {
		return baseline == digest.User, "", nil
	}
	if binding == nil && policy.ClaimOn(c.meta) == policy.ClaimOf(c.policy) {
		return false, "", nil
	}
	return cameLater(c.policy, c.meta), "", nil
}

// bothForms is the digest of one state of a template as it is recorded under an eager policy and under a lazy one.
func (p *propagator) bothForms(ctx context.Context, c *claimant) (eager, lazy content.Digest, err error) {
	obj, err := p.object(ctx, c)
	if err != nil {
		return eager, lazy, err
	}
	same := func() (*unstructured.Unstructured, error) { return obj, nil }
	if eager, err = content.Of(c.ref.GroupVersionKind.GroupKind(), obj, true, same); err != nil {
		return eager, lazy, err
	}
	lazy, err = content.Of(c.ref.GroupVersionKind.GroupKind(), obj, false, same)
	return eager, lazy, err
}

// isRecorded returns whether a binding was made from the present content of its template. What it recorded while its policy was lazy is
// compared in that form.
func (p *propagator) isRecorded(ctx context.Context, c *claimant, binding workv1alpha2.Binding, digest content.Digest) (bool, error) {
	text := binding.GetAnnotations()[workv1alpha2.TemplateContentAnnotation]
	if binding.BindingSpec().Resource.UID != c.meta.UID || text == digest.String() {
		return binding.BindingSpec().Resource.UID == c.meta.UID, nil
	}
	if recorded := content.Parse(text); digest.Counted() && !recorded.Counted() {
		eager, lazy, err := p.bothForms(ctx, c)
		lazy.Kind = digest.Kind
		return eager.User == digest.User && lazy == recorded, err
	}
	return false, nil
}

// cameLater compares creation times, which have whole seconds, and then the order of writes.
func cameLater(propagation, tmpl metav1.Object) bool {
	a, b := propagation.GetCreationTimestamp(), tmpl.GetCreationTimestamp()
	if !a.Equal(&b) {
		return b.Before(&a)
	}
	order, err := resourceversion.CompareResourceVersion(propagation.GetResourceVersion(), tmpl.GetResourceVersion())
	return err == nil && order > 0
}

func (p *propagator) createBinding(ctx context.Context, c *claimant, digest content.Digest) (reconcile.Result, error) {
	workload, err := p.interpret(ctx, c)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	priority, err := p.priority(ctx, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	name, err := p.freeName(ctx, c.ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	binding := bindings.New(c.ref, c.meta.UID, name)
	labels, annotations := policy.ClaimMetadata(c.policy)
	annotations[workv1alpha2.TemplateContentAnnotation] = digest.String()
	p.resume(c, binding, labels, annotations)
	for _, key := range bindings.OptIns {
		if value, ok := c.policy.GetAnnotations()[key]; ok {
			annotations[key] = value
		}
	}
	if value, ok := c.meta.Labels[policyv1alpha1.RetainReplicasLabel]; ok {
		annotations[policyv1alpha1.RetainReplicasLabel] = value
	}
	maps.Copy(annotations, identitiesOf(workload))
	binding.SetAnnotations(annotations)
	bindings.FillTemplate(binding.BindingSpec(), c.ref, c.meta, workload)
	bindings.FillPolicy(binding.BindingSpec(), c.policy.PropagationSpec(), c.meta.Labels, priority)
	binding.SetLabels(apply(labels, dependencies.Fill(binding.BindingSpec(), nil, c.dependants)))
	var unknown error
	if binding.BindingSpec().PropagateDeps {
		if annotations[workv1alpha2.DependenciesAnnotation], unknown, err = p.dependencies(ctx, c, "[]"); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if unknown != nil {
			annotations[workv1alpha2.TemplateContentAnnotation] = digest.UnknownDependencies()
		}
	}
	err = p.bindings.Create(ctx, binding)
	switch {
	case apierrors.IsAlreadyExists(err):
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return reconcile.Result{}, nil
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err): // until the template or the policy changes
		p.publish(c.ref, c.meta, events.Warning, events.ApplyPolicyFailed, fmt.Sprintf("The binding cannot be created: %v", err))
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("creating binding %s/%s: %w", binding.GetNamespace(), binding.GetName(), err))
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("creating binding %s/%s: %w", binding.GetNamespace(), binding.GetName(), err)
	}
	log.FromContext(ctx).V(1).Info("Template is bound", "template", c.ref, "policy", policy.KeyOf(c.policy).String())
	if unknown == nil {
		p.publishApplied(c)
	}
	return reconcile.Result{}, unknown
}

// updateBinding rewrites what changed in an existing binding. The template is
// interpreted again only if its content is another than the binding's.
func (p *propagator) updateBinding(ctx context.Context, c *claimant, binding workv1alpha2.Binding, digest content.Digest) error {
	spec := binding.BindingSpec().DeepCopy()
	patch := claimPatch(binding, c.policy)
	maps.Copy(patch.Annotations, hubstore.Difference(binding.GetAnnotations(), c.policy.GetAnnotations(), bindings.OptIns))
	maps.Copy(patch.Annotations, hubstore.Difference(binding.GetAnnotations(), c.meta.Labels, []string{policyv1alpha1.RetainReplicasLabel}))
	recorded, err := p.isRecorded(ctx, c, binding, digest)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	changed := !recorded
	if changed {
		workload, err := p.interpret(ctx, c)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		bindings.FillTemplate(spec, c.ref, c.meta, workload)
		maps.Copy(patch.Annotations, hubstore.Difference(binding.GetAnnotations(), identitiesOf(workload), []string{workv1alpha2.IdentitiesAnnotation}))
	}
	if binding.GetAnnotations()[workv1alpha2.TemplateContentAnnotation] != digest.String() {
		patch.Annotations[workv1alpha2.TemplateContentAnnotation] = ptr.To(digest.String())
	}
	if version := c.ref.GroupVersionKind.GroupVersion().String(); spec.Resource.APIVersion != version {
		spec.Resource.APIVersion = version
	}
	priority, err := p.priority(ctx, c)
	if err != nil {
		return err
	}
	bindings.FillPolicy(spec, c.policy.PropagationSpec(), c.meta.Labels, priority)
	for key, value := range dependencies.Fill(spec, binding.GetLabels(), c.dependants) {
		patch.Labels[key] = value
	}
	var unknown error
	present, listed := binding.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
	switch {
	case !spec.PropagateDeps && listed:
		patch.Annotations[workv1alpha2.DependenciesAnnotation] = nil
	case spec.PropagateDeps && (changed || !listed):
		var list string
		if list, unknown, err = p.dependencies(ctx, c, present); err != nil {
			return client.IgnoreNotFound(err)
		}
		if unknown != nil {
			patch.Annotations[workv1alpha2.TemplateContentAnnotation] = ptr.To(digest.UnknownDependencies())
		}
		if list != present || !listed {
			patch.Annotations[workv1alpha2.DependenciesAnnotation] = &list
		}
	}
	return errors.Join(p.patchBinding(ctx, binding, patch, spec), unknown)
}

// identitiesOf are the annotations of a binding that say what replicas are to each other.
func identitiesOf(workload bindings.Workload) map[string]string {
	if workload.Identities == interpret.Anonymous {
		return nil
	}
	return map[string]string{workv1alpha2.IdentitiesAnnotation: string(workload.Identities)}
}

// interpret returns how many replicas a template has and what they need.
func (p *propagator) interpret(ctx context.Context, c *claimant) (bindings.Workload, error) {
	obj, err := p.object(ctx, c)
	if err != nil {
		return bindings.Workload{}, err
	}
	components, err := p.workload.Components(ctx, obj)
	if err != nil {
		p.publish(c.ref, c.meta, events.Warning, events.GetComponentsFailed, err.Error())
		return bindings.Workload{}, err
	}
	if len(components) > 0 {
		p.publish(c.ref, c.meta, events.Success, events.GetComponentsSucceed, fmt.Sprintf("The template has %d components", len(components)))
		return bindings.Workload{Components: components}, nil
	}
	replicas, err := p.workload.Replicas(ctx, obj)
	if err != nil {
		p.publish(c.ref, c.meta, events.Warning, events.GetReplicasFailed, err.Error())
		return bindings.Workload{}, err
	}
	if _, has, err := unstructured.NestedInt64(obj.Object, "spec", "replicas"); has && err == nil && !replicas.Known {
		replicas.Identities = interpret.Unknown
	}
	if replicas.Replicas > 0 || replicas.Requirements != nil { // the kind has replicas
		p.publish(c.ref, c.meta, events.Success, events.GetReplicasSucceed, fmt.Sprintf("The template has %d replicas", replicas.Replicas))
	}
	return bindings.Workload{Replicas: replicas.Replicas, Requirements: replicas.Requirements, Identities: replicas.Identities}, nil
}

// priority returns the value of the priority class that a policy names, nil if it names none.
func (p *propagator) priority(ctx context.Context, c *claimant) (*int32, error) {
	wanted := c.policy.PropagationSpec().SchedulePriority
	if wanted == nil {
		return nil, nil
	}
	class, err := p.templates.Get(ctx, hubstore.Ref{
		GroupVersionKind: schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"},
		Name:             wanted.PriorityClassName,
	})
	if err != nil {
		p.publish(c.ref, c.meta, events.Warning, events.ApplyPolicyFailed,
			fmt.Sprintf("%s names priority class %q: %v", policy.KeyOf(c.policy), wanted.PriorityClassName, err))
		return nil, fmt.Errorf("reading priority class %q: %w", wanted.PriorityClassName, err)
	}
	value, _, err := unstructured.NestedInt64(class.Object, "value")
	if err != nil {
		return nil, fmt.Errorf("reading priority class %q: %w", wanted.PriorityClassName, err)
	}
	return ptr.To(int32(value)), nil
}

func (p *propagator) patchTemplate(ctx context.Context, ref hubstore.Ref, patch hubstore.MetadataPatch) (*unstructured.Unstructured, error) {
	raw, err := patch.Bytes()
	if err != nil {
		return nil, err
	}
	return p.templates.PatchMetadata(ctx, ref, raw)
}

// patchBinding sends the metadata changes and, where spec is given, what differs from it; the template that the spec names owns the
// binding then. Only differences are sent, so that fields of others stay though the cache is behind.
func (p *propagator) patchBinding(ctx context.Context, binding workv1alpha2.Binding, metadata hubstore.MetadataPatch, spec *workv1alpha2.ResourceBindingSpec) error {
	before := binding.DeepCopyObject().(workv1alpha2.Binding)
	binding.SetLabels(apply(binding.GetLabels(), metadata.Labels))
	binding.SetAnnotations(apply(binding.GetAnnotations(), metadata.Annotations))
	if spec != nil {
		*binding.BindingSpec() = *spec
	}
	adopted := spec != nil && bindings.Adopt(binding)
	if metadata.Empty() && !adopted && (spec == nil || equality.Semantic.DeepEqual(before.BindingSpec(), spec)) {
		return nil
	}
	_, err := p.bindings.Patch(ctx, before, binding)
	return client.IgnoreNotFound(err)
}

// resume gives a binding that was deleted and is created again what the scheduler decided for it, and its permanent id.
// Its labels and annotations are written by the caller.
func (p *propagator) resume(c *claimant, binding workv1alpha2.Binding, labels, annotations map[string]string) {
	value, ok := p.deleted.Load(c.ref)
	if !ok {
		return
	}
	before := value.(workv1alpha2.Binding)
	if before.BindingSpec().Resource.UID != c.meta.UID {
		return
	}
	if before.GetName() == bindings.AlternativeKey(c.ref).Name {
		binding.SetName(before.GetName()) // so that its Works and those of the other are not mixed up
	}
	spec, old := binding.BindingSpec(), before.BindingSpec().DeepCopy()
	spec.Clusters, spec.GracefulEvictionTasks, spec.RescheduleTriggeredAt = old.Clusters, old.GracefulEvictionTasks, old.RescheduleTriggeredAt
	if id := before.GetLabels()[before.PermanentIDLabel()]; id != "" {
		labels[before.PermanentIDLabel()] = id
	}
	for _, key := range []string{workv1alpha2.AppliedPlacementAnnotation, workv1alpha2.FinishedAnnotation} {
		if value, ok := before.GetAnnotations()[key]; ok {
			annotations[key] = value
		}
	}
}

// bindsOther returns whether a binding is for another object: names are made of kind and name, so that equal kinds of two groups share
// them, and those of two versions that have objects of their own.
func (p *propagator) bindsOther(binding workv1alpha2.Binding, ref hubstore.Ref) bool {
	bound := hubstore.TemplateOf(binding.BindingSpec())
	if bound.GroupVersionKind.GroupKind() != ref.GroupVersionKind.GroupKind() || bound.Namespace != ref.Namespace || bound.Name != ref.Name {
		return true
	}
	theirs, known := p.templates.Canonical(bound.GroupVersionKind)
	ours, ok := p.templates.Canonical(ref.GroupVersionKind)
	return known && ok && theirs != ours
}

// missingOverride returns the first of the override policies a policy depends on that does not exist, or "". Those of a namespaced
// policy are in its namespace.
func missingOverride(ctx context.Context, reader client.Reader, propagation policyv1alpha1.Propagation) (string, error) {
	for _, name := range propagation.PropagationSpec().DependentOverrides {
		var override client.Object = &policyv1alpha1.OverridePolicy{}
		if propagation.GetNamespace() == "" {
			override = &policyv1alpha1.ClusterOverridePolicy{}
		}
		err := reader.Get(ctx, client.ObjectKey{Namespace: propagation.GetNamespace(), Name: name}, override)
		switch {
		case apierrors.IsNotFound(err):
			return name, nil
		case err != nil:
			return "", fmt.Errorf("reading dependent override %q: %w", name, err)
		}
	}
	return "", nil
}
