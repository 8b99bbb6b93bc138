package propagate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// A template with propagateDeps is a dependant; what it refers to goes where it goes. Its binding lists the references in an
// annotation. From there the binding of each referred template is made: seen from that template, its dependants are all bindings
// whose list it is on, and their targets are its requiredBy. So every binding has one writer, however many depend on it.

// indexDepends finds bindings by what their templates refer to.
const indexDepends = "propagate.depends"

// dependedByPrefix begins the labels that name the dependants of a binding.
var dependedByPrefix = strings.SplitAfterN(workv1alpha2.DependedByLabel("", ""), "depended-by-", 2)[0]

// dependencyKey is the index value of a reference, in whatever version; the name is empty for one by labels.
func dependencyKey(gvk schema.GroupVersionKind, namespace, name string) string {
	return gvk.GroupKind().String() + "|" + namespace + "|" + name
}

func dependsOn(obj client.Object) []string {
	if obj.GetDeletionTimestamp() != nil || !obj.(workv1alpha2.Binding).BindingSpec().PropagateDeps {
		return nil
	}
	var keys []string
	for _, d := range parseDependencies(obj) {
		keys = append(keys, dependencyKey(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind), d.Namespace, d.Name))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func parseDependencies(binding metav1.Object) []interpret.Dependency {
	raw := binding.GetAnnotations()[workv1alpha2.DependenciesAnnotation]
	if raw == "" {
		return nil
	}
	var list []interpret.Dependency
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		return nil // somebody's edit; the next change of the template repairs it
	}
	// The list may be older than the rule.
	return slices.DeleteFunc(list, func(d interpret.Dependency) bool { return !inReach(binding.GetNamespace(), d) })
}

// inReach says that a template of a namespace may take along what it refers to: objects of the same namespace, and the definition
// of a kind, without which a custom resource could not be applied. A template that belongs to no namespace takes along definitions
// only. Everything else crosses a border: whoever may write a template need not be allowed to send what it names.
func inReach(namespace string, d interpret.Dependency) bool {
	if d.Namespace == "" {
		return isDefinition(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind))
	}
	return d.Namespace == namespace
}

func isDefinition(gvk schema.GroupVersionKind) bool {
	return gvk.Group == "apiextensions.k8s.io" && gvk.Kind == "CustomResourceDefinition"
}

// dependencies is the annotation that lists what a template refers to. The interpreter's failure, which is unknown then, is told
// and leaves the list as it was; it is to be asked again.
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
	list, err = p.listed(c, found)
	return list, nil, err
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

// resolve gives a reference the namespace it is meant for, and says whether it is in reach.
func (p *propagator) resolve(from hubstore.Ref, d interpret.Dependency) (interpret.Dependency, bool) {
	gvk := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)
	if _, namespaced, known := p.templates.Mapping(gvk); known && !namespaced || isDefinition(gvk) {
		d.Namespace = ""
	} else {
		d.Namespace = cmp.Or(d.Namespace, from.Namespace)
	}
	return d, inReach(from.Namespace, d)
}

// dependants lists the bindings whose templates need a template, in the order of their names. They are shared with the cache.
func (p *propagator) dependants(ctx context.Context, subject policy.Subject) ([]workv1alpha2.Binding, error) {
	var found []workv1alpha2.Binding
	seen := map[client.ObjectKey]bool{}
	for _, name := range []string{subject.Name, ""} {
		bindings, err := hubclient.Bindings(ctx, p.policies.Reader, client.MatchingFields{indexDepends: dependencyKey(subject.GroupVersionKind, subject.Namespace, name)})
		if err != nil {
			return nil, fmt.Errorf("finding dependants: %w", err)
		}
		for _, binding := range bindings {
			key := client.ObjectKeyFromObject(binding)
			itself := isNameOf(binding, refOf(subject)) && !p.bindsOther(binding, refOf(subject))
			if !seen[key] && !itself && len(snapshotClusters(binding)) > 0 && refersTo(binding, subject) {
				seen[key] = true
				found = append(found, binding)
			}
		}
	}
	return inOrder(found), nil
}

// inOrder sorts bindings by namespace and name.
func inOrder(bindings []workv1alpha2.Binding) []workv1alpha2.Binding {
	slices.SortFunc(bindings, func(a, b workv1alpha2.Binding) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return bindings
}

// refersTo checks the labels of references that go by them.
func refersTo(binding workv1alpha2.Binding, subject policy.Subject) bool {
	for _, d := range parseDependencies(binding) {
		if !subject.Is(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)) || d.Namespace != subject.Namespace {
			continue
		}
		if d.Name == subject.Name || d.Name == "" && selects(d.LabelSelector, subject.Labels) {
			return true
		}
	}
	return false
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	if selector == nil {
		return false
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

// snapshotClusters are the clusters where a dependant is or still is: a copy
// being drained needs what it refers to until it is gone.
func snapshotClusters(binding workv1alpha2.Binding) []workv1alpha2.TargetCluster {
	spec := binding.BindingSpec()
	clusters := slices.Clone(spec.Clusters)
	for _, task := range spec.GracefulEvictionTasks {
		there := slices.ContainsFunc(clusters, func(c workv1alpha2.TargetCluster) bool { return c.Name == task.FromCluster })
		if !there && task.PurgeMode != policyv1alpha1.PurgeModeDirectly {
			clusters = append(clusters, workv1alpha2.TargetCluster{Name: task.FromCluster})
		}
	}
	return clusters
}

// fillDependants writes into a spec, and into the labels of its binding, who needs it. It returns the changed labels.
func fillDependants(spec *workv1alpha2.ResourceBindingSpec, present map[string]string, dependants []workv1alpha2.Binding) map[string]*string {
	changes := map[string]*string{}
	for key := range present {
		if strings.HasPrefix(key, dependedByPrefix) {
			changes[key] = nil
		}
	}
	spec.RequiredBy = nil
	for _, d := range dependants {
		spec.RequiredBy = append(spec.RequiredBy, workv1alpha2.BindingSnapshot{
			Namespace: d.GetNamespace(), Name: d.GetName(), Clusters: snapshotClusters(d),
		})
		key, id := workv1alpha2.DependedByLabel(d.GetNamespace(), d.GetName()), d.GetLabels()[d.PermanentIDLabel()]
		if have, ok := present[key]; ok && have == id {
			delete(changes, key)
		} else {
			changes[key] = &id
		}
	}
	return changes
}

// fillStrictest gives an attached binding, which has no policy of its own, what the policies of its dependants say: the strongest
// wish of each kind. It returns whether they disagree. A definition is never taken over from a member on behalf of those who have
// objects of its kind.
func fillStrictest(spec *workv1alpha2.ResourceBindingSpec, dependants []workv1alpha2.Binding) (disagree bool) {
	first := dependants[0].BindingSpec()
	definition := isDefinition(schema.FromAPIVersionAndKind(spec.Resource.APIVersion, spec.Resource.Kind))
	spec.ConflictResolution = policyv1alpha1.ConflictAbort
	spec.PreserveResourcesOnDeletion = nil
	for _, d := range dependants {
		theirs := d.BindingSpec()
		if theirs.ConflictResolution == policyv1alpha1.ConflictOverwrite && !definition {
			spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
		}
		if ptr.Deref(theirs.PreserveResourcesOnDeletion, false) {
			spec.PreserveResourcesOnDeletion = ptr.To(true)
		}
		disagree = disagree || theirs.ConflictResolution != first.ConflictResolution && !definition ||
			ptr.Deref(theirs.PreserveResourcesOnDeletion, false) != ptr.Deref(first.PreserveResourcesOnDeletion, false)
	}
	return disagree
}

// attach keeps the binding of a template that no policy takes along: there as long as others depend on it.
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
	case !owned(binding) || binding.BindingSpec().Resource.UID != meta.UID:
		return nil // restored before those that depend on it: they decide
	case binding.BindingSpec().Placement == nil && !policy.IsClaimed(binding):
		return p.deleteBinding(ctx, binding)
	default:
		spec := binding.BindingSpec().DeepCopy()
		patch := claimPatch(binding, nil)
		patch.Labels, patch.Annotations = fillDependants(spec, binding.GetLabels(), nil), nil
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
	binding := newBinding(c.ref, c.meta.UID, name)
	spec := binding.BindingSpec()
	fillTemplate(spec, c.ref, c.meta, Workload{})
	p.reportDisagreement(c, fillStrictest(spec, dependants))
	labels, annotations := map[string]string{}, map[string]string{contentAnnotation: digest.String()}
	p.resume(c, binding, labels, annotations)
	binding.SetLabels(apply(labels, fillDependants(spec, nil, dependants)))
	binding.SetAnnotations(annotations)
	err = p.client.Create(ctx, binding)
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return fmt.Errorf("creating attached binding %s/%s: %w", binding.GetNamespace(), name, err)
	}
	return nil
}

func (p *propagator) updateAttached(ctx context.Context, c *claimant, binding workv1alpha2.Binding, dependants []workv1alpha2.Binding) error {
	spec := binding.BindingSpec().DeepCopy()
	patch := hubstore.MetadataPatch{UID: binding.GetUID(), Labels: fillDependants(spec, binding.GetLabels(), dependants), Annotations: map[string]*string{}}
	if spec.Placement == nil {
		p.reportDisagreement(c, fillStrictest(spec, dependants))
	}
	digest, err := p.digest(ctx, c, binding)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if (binding.GetAnnotations()[contentAnnotation] != digest.String() || spec.Resource.UID != c.meta.UID) && spec.Placement == nil {
		fillTemplate(spec, c.ref, c.meta, Workload{})
		patch.Annotations[contentAnnotation] = ptr.To(digest.String())
	}
	return p.patchBinding(ctx, binding, patch, spec)
}

func (p *propagator) reportDisagreement(c *claimant, disagree bool) {
	if disagree {
		p.publish(c.ref, c.meta, events.Warning, events.DependencyPolicyConflict,
			"The policies of the objects that depend on this one disagree about conflictResolution or preserveResourcesOnDeletion; Overwrite and true prevail")
	}
}

// neededBy lists the templates that a binding's template refers to and that are there.
func neededBy(templates Templates, binding workv1alpha2.Binding) []hubstore.Ref {
	if !binding.BindingSpec().PropagateDeps {
		return nil
	}
	var refs []hubstore.Ref
	for _, d := range parseDependencies(binding) {
		gvk := canonicalRef(templates, hubstore.Ref{GroupVersionKind: schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)}).GroupVersionKind
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

// sameForDependencies says that a change of a binding is of no concern to what its template refers to.
func sameForDependencies(before, after workv1alpha2.Binding) bool {
	a, b := before.BindingSpec(), after.BindingSpec()
	if !a.PropagateDeps && !b.PropagateDeps {
		return true
	}
	return a.PropagateDeps == b.PropagateDeps &&
		before.GetAnnotations()[workv1alpha2.DependenciesAnnotation] == after.GetAnnotations()[workv1alpha2.DependenciesAnnotation] &&
		(before.GetDeletionTimestamp() == nil) == (after.GetDeletionTimestamp() == nil) &&
		a.ConflictResolution == b.ConflictResolution &&
		ptr.Deref(a.PreserveResourcesOnDeletion, false) == ptr.Deref(b.PreserveResourcesOnDeletion, false) &&
		equality.Semantic.DeepEqual(snapshotClusters(before), snapshotClusters(after))
}
