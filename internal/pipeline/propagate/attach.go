package propagate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/dependencies"
)

// dependencies is the annotation that lists what a template refers to. A failure of the interpreter, which is unknown then, is
// an event and leaves the list as it was.
func (p *propagator) dependencies(ctx context.Context, c *claimant, present string) (list string, unknown, err error) {
	obj, err := p.object(ctx, c)
	if err != nil {
		return "", nil, err
	}
	found, unknown := p.shape.Dependencies(ctx, obj)
	if unknown != nil {
		p.publish(c.ref, c.meta, events.Warning, events.GetDependenciesFailed, unknown.Error())
		return present, unknown, nil
	}
	if name := p.conversion.Definition(obj.GroupVersionKind()); name != "" && !hubstore.InEveryMember(name) {
		found = interpret.SortDependencies(append(found, interpret.Dependency{
			APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: name,
		}))
	}
	if list, err = p.listed(c, found); err != nil {
		return "", nil, err
	}
	p.publish(c.ref, c.meta, events.Success, events.GetDependenciesSucceed, fmt.Sprintf("The template refers to %d objects", len(found)))
	return list, nil, nil
}

// listed is the value of the annotation.
func (p *propagator) listed(c *claimant, found []interpret.Dependency) (string, error) {
	list := make([]interpret.Dependency, 0, len(found))
	for _, d := range found {
		if d, ok := p.resolve(c.ref, d); ok {
			list = append(list, d)
		}
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encoding dependencies of %s: %w", c.ref, err)
	}
	return string(raw), nil
}

// resolve sets the namespace of a reference, and returns whether the reference is allowed.
func (p *propagator) resolve(from hubstore.Ref, d interpret.Dependency) (interpret.Dependency, bool) {
	gvk := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)
	if _, namespaced, known := p.templates.Mapping(gvk); known && !namespaced || dependencies.IsDefinition(gvk) {
		d.Namespace = ""
	} else {
		d.Namespace = cmp.Or(d.Namespace, from.Namespace)
	}
	return d, dependencies.InReach(from.Namespace, d)
}

// dependants lists the bindings whose templates need a template, in the order of their names. They are shared with the cache.
func (p *propagator) dependants(ctx context.Context, subject policy.Subject) ([]workv1alpha2.Binding, error) {
	var found []workv1alpha2.Binding
	seen := map[client.ObjectKey]bool{}
	for _, name := range []string{subject.Name, ""} {
		referring, err := hubclient.Bindings(ctx, p.policies.Reader, client.MatchingFields{dependencies.Index: dependencies.IndexValue(subject.GroupVersionKind, subject.Namespace, name)})
		if err != nil {
			return nil, fmt.Errorf("finding dependants: %w", err)
		}
		for _, binding := range referring {
			key := client.ObjectKeyFromObject(binding)
			itself := bindings.IsNameOf(binding, refOf(subject)) && !p.bindsOther(binding, refOf(subject))
			if !seen[key] && !itself && len(dependencies.Clusters(binding)) > 0 && dependencies.RefersTo(binding, subject) {
				seen[key] = true
				found = append(found, binding)
			}
		}
	}
	return dependencies.InOrder(found), nil
}

// attach keeps the binding of a template without a policy as long as other templates depend on it: it creates, updates or deletes the binding.
func (p *propagator) attach(ctx context.Context, ref hubstore.Ref, meta *metav1.PartialObjectMetadata, binding workv1alpha2.Binding, dependants []workv1alpha2.Binding) error {
	if binding != nil && (binding.GetDeletionTimestamp() != nil || p.bindsOther(binding, ref)) {
		return nil
	}
	switch {
	case len(dependants) > 0 && binding == nil:
		return p.createAttached(ctx, &claimant{ref: ref, meta: meta}, dependants)
	case len(dependants) > 0:
		return p.updateAttached(ctx, &claimant{ref: ref, meta: meta}, binding, dependants)
	case binding == nil || len(binding.BindingSpec().RequiredBy) == 0:
		return nil
	case !bindings.IsOwned(binding) || binding.BindingSpec().Resource.UID != meta.UID:
		return nil // after a restore object by object: the bindings that depend on it come later
	case binding.BindingSpec().Placement == nil && !policy.IsClaimed(binding):
		return p.deleteBinding(ctx, binding)
	default:
		spec := binding.BindingSpec().DeepCopy()
		patch := claimPatch(binding, nil)
		patch.Labels, patch.Annotations = dependencies.Fill(spec, binding.GetLabels(), nil), nil
		return p.patchBinding(ctx, binding, patch, spec)
	}
}

func (p *propagator) createAttached(ctx context.Context, c *claimant, dependants []workv1alpha2.Binding) error {
	digest, err := p.digest(ctx, c, nil)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	name, err := p.freeName(ctx, c.ref)
	if err != nil {
		return err
	}
	binding := bindings.New(c.ref, c.meta.UID, name)
	spec := binding.BindingSpec()
	bindings.FillTemplate(spec, c.ref, c.meta, bindings.Workload{})
	conflicts := dependencies.FillStrictest(spec, dependants)
	labels, annotations := map[string]string{}, map[string]string{workv1alpha2.TemplateContentAnnotation: digest.String()}
	p.resume(c, binding, labels, annotations)
	binding.SetLabels(apply(labels, dependencies.Fill(spec, nil, dependants)))
	binding.SetAnnotations(annotations)
	err = p.client.Create(ctx, binding)
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return fmt.Errorf("creating attached binding %s/%s: %w", binding.GetNamespace(), name, err)
	}
	if err == nil {
		p.reportConflicts(binding, conflicts)
		p.publishAttached(binding, dependants)
	}
	return nil
}

func (p *propagator) updateAttached(ctx context.Context, c *claimant, binding workv1alpha2.Binding, dependants []workv1alpha2.Binding) error {
	spec := binding.BindingSpec().DeepCopy()
	patch := hubstore.MetadataPatch{UID: binding.GetUID(), Labels: dependencies.Fill(spec, binding.GetLabels(), dependants), Annotations: map[string]*string{}}
	if spec.Placement == nil {
		p.reportConflicts(binding, dependencies.FillStrictest(spec, dependants))
	}
	digest, err := p.digest(ctx, c, binding)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if (binding.GetAnnotations()[workv1alpha2.TemplateContentAnnotation] != digest.String() || spec.Resource.UID != c.meta.UID) && spec.Placement == nil {
		bindings.FillTemplate(spec, c.ref, c.meta, bindings.Workload{})
		patch.Annotations[workv1alpha2.TemplateContentAnnotation] = ptr.To(digest.String())
	}
	if err := p.patchBinding(ctx, binding, patch, spec); err != nil {
		return err
	}
	p.publishAttached(binding, dependants)
	return nil
}

// reportConflicts publishes conflicts between the policies of the objects that depend on a template.
func (p *propagator) reportConflicts(binding workv1alpha2.Binding, conflicts []string) {
	if len(conflicts) == 0 {
		return
	}
	message := fmt.Sprintf("Dependency policy conflict detected: %s. Overwrite and true prevail", strings.Join(conflicts, "; "))
	p.events.Publish(events.Warning(events.Template(binding.BindingSpec().Resource), events.DependencyPolicyConflict, message))
	p.events.Publish(events.Warning(events.Binding(binding), events.DependencyPolicyConflict, message))
}

// publishAttached publishes, on the bindings that depend on an attached one, that it goes to their clusters.
func (p *propagator) publishAttached(attached workv1alpha2.Binding, dependants []workv1alpha2.Binding) {
	resource := attached.BindingSpec().Resource
	for _, d := range dependants {
		p.events.Publish(events.Success(events.Binding(d), events.SyncScheduleResultToDependenciesSucceed,
			fmt.Sprintf("%s %s goes to the same clusters", resource.Kind, resource.Name)))
	}
}

// neededBy lists the templates that a binding's template refers to and that are there.
func neededBy(templates Templates, binding workv1alpha2.Binding) []hubstore.Ref {
	if !binding.BindingSpec().PropagateDeps {
		return nil
	}
	var refs []hubstore.Ref
	for _, d := range dependencies.Parse(binding) {
		gvk := hubstore.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)}.Canonical(templates).GroupVersionKind
		if d.Name != "" {
			refs = append(refs, hubstore.Ref{GroupVersionKind: gvk, Namespace: d.Namespace, Name: d.Name})
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(d.LabelSelector)
		if err != nil {
			continue
		}
		for _, meta := range templates.List(gvk, d.Namespace, selector) {
			refs = append(refs, hubstore.Ref{GroupVersionKind: gvk, Namespace: meta.Namespace, Name: meta.Name})
		}
	}
	return refs
}
