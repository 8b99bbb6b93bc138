package compose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
)

// Interpreter is what rendering needs of an interpreter.
type Interpreter interface {
	// Revise returns a copy of obj with these replicas, or obj itself if its kind has no replicas.
	Revise(ctx context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error)
	// Prune removes, in place, what has no meaning outside the control plane, as the template has it.
	Prune(obj, template *unstructured.Unstructured)
}

// Composer makes Works.
type Composer struct {
	Interpreter Interpreter
	Conversion  conversion.Adviser
	// TokenKey is the id of the key that signs tokens of service accounts of the control plane; a Secret with such a token is refused. Empty:
	// they are not looked for.
	TokenKey string
	// NewID returns a new UUID; tests have their own.
	NewID func() string
}

// Request is what one Work is made from. Nothing in it is changed.
type Request struct {
	Template *unstructured.Unstructured
	Binding  workv1alpha2.Binding
	Target   Target
	// Targets is the number of clusters in all.
	Targets int
	// Completions is the share of each cluster in a divided Job; nil for everything else.
	Completions map[string]int64
	Cluster     *clusterv1alpha1.Cluster
	Policies    []policyv1alpha1.Override
	// Name is the Work's; empty means the usual one.
	Name string
	// Existing is the Work as it is; nil if there is none.
	Existing *workv1alpha1.Work
}

// Compose returns the Work as it should be: the existing one with what the binding sets replaced, or a new one.
func (c *Composer) Compose(ctx context.Context, r Request) (*workv1alpha1.Work, error) {
	spec := r.Binding.BindingSpec()
	work := workv1alpha1.NewWork(types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(r.Target.Name), Name: cmp.Or(r.Name, WorkName(spec)),
	}, r.Existing)
	work.SetPermanentID(c.NewID)
	labels, annotations := workv1alpha2.BindingKeys(r.Binding)
	annotations[workv1alpha1.ConflictResolutionAnnotation] = conflictResolution(r.Template, spec)
	if CarriesNamespace(work) {
		annotations[workv1alpha1.ConflictResolutionAnnotation] = workv1alpha1.ConflictResolutionOverwrite // as without a binding
	}
	delete(work.Annotations, workv1alpha1.LastCopyAnnotation)
	delete(work.Annotations, policyv1alpha1.HandoverAnnotation)
	if eviction.IsExclusive(r.Binding) {
		annotations[policyv1alpha1.HandoverAnnotation] = policyv1alpha1.HandoverExclusive
	}
	delete(work.Annotations, clusterv1alpha1.ApplyAsAnnotation)
	if account, ok := r.Binding.GetAnnotations()[clusterv1alpha1.ApplyAsAnnotation]; ok {
		annotations[clusterv1alpha1.ApplyAsAnnotation] = account
	}

	manifest, overrides, err := c.manifest(ctx, r)
	if err != nil {
		return nil, err
	}
	delete(work.Annotations, workv1alpha1.FinishedAnnotation)
	work.Stamp(manifest, r.Template, merge(preservedState(spec, r.Targets, r.Target.Name), labels), annotations)
	raw, err := json.Marshal(manifest.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding the manifest for cluster %s: %w", r.Target.Name, err)
	}
	if len(raw) > workv1alpha1.MaxManifestBytes {
		return nil, &RefusedError{Cluster: r.Target.Name, Reason: workv1alpha2.ManifestTooLargeReason, Cause: fmt.Errorf(
			"the object has %d bytes of JSON, a Work may have %d", len(raw), workv1alpha1.MaxManifestBytes)}
	}
	if err := recordOverrides(work, annotations, overrides); err != nil {
		return nil, err
	}
	work.AddLabels(labels)
	work.AddAnnotations(annotations)
	setDrift(work, r)
	if finished := workv1alpha2.FinishedOf(r.Binding); finished.In(r.Target.Name) {
		work.AddAnnotations(map[string]string{workv1alpha1.FinishedAnnotation: finished.Run})
	}
	work.SetManifest(raw)
	work.Spec.PreserveResourcesOnDeletion, work.Spec.SuspendDispatching = spec.PreserveResourcesOnDeletion, nil
	if suspends(spec, r.Target.Name) {
		work.Spec.SuspendDispatching = new(true)
	}
	return work, nil
}

// setDrift writes on a Work what happens to drift, by the policy, and what of it is acknowledged, by the template. It is not on the manifest:
// the object is the same with it.
func setDrift(work *workv1alpha1.Work, r Request) {
	for key, source := range map[string]map[string]string{
		policyv1alpha1.DriftAnnotation: r.Binding.GetAnnotations(), policyv1alpha1.DriftIgnoreAnnotation: r.Binding.GetAnnotations(),
		policyv1alpha1.DriftAcknowledgedAnnotation: r.Template.GetAnnotations(),
	} {
		delete(work.Annotations, key)
		if value, ok := source[key]; ok {
			work.AddAnnotations(map[string]string{key: value})
		}
	}
}

// manifest makes the object as this cluster should have it, without the labels and annotations of the control plane.
func (c *Composer) manifest(ctx context.Context, r Request) (*unstructured.Unstructured, override.Result, error) {
	obj, err := c.revised(ctx, r)
	if err != nil {
		return nil, override.Result{}, err
	}
	overrides, err := override.Apply(ctx, obj, r.Cluster, r.Policies)
	if err != nil {
		return nil, override.Result{}, err
	}
	if obj, err = c.Conversion.To(ctx, overrides.Object, r.Cluster); err != nil {
		return nil, override.Result{}, &ConversionError{cluster: r.Target.Name, cause: err}
	}
	chosen := chosenNodePorts(r.Template, obj)
	c.Interpreter.Prune(obj, r.Template)
	restoreNodePorts(obj, chosen)
	// It is the whole object once more, a Secret's values in plain text, and means nothing where kubectl did not write it.
	unstructured.RemoveNestedField(obj.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	if err := checkTokens(obj, c.TokenKey); err != nil {
		return nil, override.Result{}, &ForbiddenError{Cause: err}
	}
	return obj, overrides, nil
}

// Overrides returns what the override policies make of the object for this cluster, with the fields that each rule changes.
func (c *Composer) Overrides(ctx context.Context, r Request) (override.Result, error) {
	obj, err := c.revised(ctx, r)
	if err != nil {
		return override.Result{}, err
	}
	return override.Explain(ctx, obj, r.Cluster, r.Policies)
}

// revised makes the object as override policies find it: with the replicas and completions of this cluster.
func (c *Composer) revised(ctx context.Context, r Request) (*unstructured.Unstructured, error) {
	spec := r.Binding.BindingSpec()
	obj := r.Template
	var err error
	if r.Target.Scheduled && isWorkload(spec) {
		if obj, err = c.Interpreter.Revise(ctx, obj, r.Target.Replicas); err != nil {
			return nil, fmt.Errorf("setting the replicas for cluster %s: %w", r.Target.Name, err)
		}
	}
	if err := checkIdentity(r.Template, obj); err != nil {
		return nil, &ForbiddenError{Cause: err}
	}
	if obj == r.Template {
		obj = obj.DeepCopy()
	}
	removeOwnershipKeys(obj)
	if share, ok := r.Completions[r.Target.Name]; ok {
		if err := unstructured.SetNestedField(obj.Object, share, "spec", "completions"); err != nil {
			return nil, fmt.Errorf("setting the completions for cluster %s: %w", r.Target.Name, err)
		}
	}
	return obj, nil
}

// conflictResolution returns that of the template's annotation, or else that of the policy.
func conflictResolution(template *unstructured.Unstructured, spec *workv1alpha2.ResourceBindingSpec) string {
	switch own := template.GetAnnotations()[workv1alpha1.ConflictResolutionAnnotation]; {
	case own == workv1alpha1.ConflictResolutionOverwrite, own == workv1alpha1.ConflictResolutionAbort:
		return own
	case spec.ConflictResolution == policyv1alpha1.ConflictOverwrite:
		return workv1alpha1.ConflictResolutionOverwrite
	default:
		return workv1alpha1.ConflictResolutionAbort
	}
}

// maxRecorded bounds the text of each annotation with applied overrides. All annotations of an object may have 256 KiB.
const maxRecorded = 64 << 10

// recordOverrides lists on the Work the overrides that were applied: of those beyond maxRecorded only the policies, as many as fit.
func recordOverrides(work *workv1alpha1.Work, annotations map[string]string, result override.Result) error {
	for key, applied := range map[string][]override.Applied{
		workv1alpha1.AppliedClusterOverridesAnnotation: result.Cluster,
		workv1alpha1.AppliedOverridesAnnotation:        result.Namespace,
	} {
		if len(applied) == 0 {
			delete(work.Annotations, key)
			continue
		}
		text, err := json.Marshal(applied)
		if err == nil && len(text) > maxRecorded {
			text, err = policiesOf(applied)
		}
		if err != nil {
			return fmt.Errorf("encoding the applied overrides: %w", err)
		}
		annotations[key] = string(text)
	}
	return nil
}

// policiesOf encodes which policies were applied, without their edits.
func policiesOf(applied []override.Applied) ([]byte, error) {
	var named []override.Applied
	size := 2
	for i, one := range applied {
		if i > 0 && one.PolicyName == applied[i-1].PolicyName {
			continue
		}
		one.Overriders = policyv1alpha1.Overriders{}
		text, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		if size += len(text) + 1; size > maxRecorded {
			break
		}
		named = append(named, one)
	}
	return json.Marshal(named)
}

// Same returns whether to write desired, which was made from existing, would change nothing.
func Same(existing, desired *workv1alpha1.Work) bool {
	if !maps.Equal(existing.Labels, desired.Labels) || !maps.Equal(existing.Annotations, desired.Annotations) ||
		!slices.Equal(existing.Finalizers, desired.Finalizers) {
		return false
	}
	a, b := &existing.Spec, &desired.Spec
	if isTrue(a.SuspendDispatching) != isTrue(b.SuspendDispatching) ||
		!ptr.Equal(a.PreserveResourcesOnDeletion, b.PreserveResourcesOnDeletion) {
		return false
	}
	return workv1alpha1.SameManifests(a.Workload.Manifests, b.Workload.Manifests)
}

// WorkName returns the name of the Works of a binding.
func WorkName(spec *workv1alpha2.ResourceBindingSpec) string {
	return workv1alpha1.WorkName(spec.Resource.Kind, spec.Resource.Namespace, spec.Resource.Name)
}

// AlternativeWorkName returns the name of a Work where another object has the WorkName.
func AlternativeWorkName(spec *workv1alpha2.ResourceBindingSpec) string {
	ref := hubstore.TemplateOf(spec)
	return workv1alpha1.AlternativeWorkName(ref.GroupVersionKind.GroupKind(), ref.Namespace, ref.Name)
}

// Carries returns whether a Work has a manifest of a binding's template, or one that cannot be read.
func Carries(work *workv1alpha1.Work, spec *workv1alpha2.ResourceBindingSpec) bool {
	ref := hubstore.TemplateOf(spec)
	return len(work.Spec.Workload.Manifests) == 0 || slices.ContainsFunc(work.Spec.Workload.Manifests, func(m workv1alpha1.Manifest) bool {
		var head metav1.PartialObjectMetadata
		if json.Unmarshal(m.Raw, &head) != nil {
			return true
		}
		return head.GroupVersionKind().GroupKind() == ref.GroupVersionKind.GroupKind() && head.Name == ref.Name && head.Namespace == ref.Namespace
	})
}

// Belongs returns whether a Work was made for a binding. One whose annotations a user removed still has the label.
func Belongs(work *workv1alpha1.Work, binding workv1alpha2.Binding) bool {
	if of := workv1alpha2.BoundTo(work); of != "" {
		return of == KeyOf(binding)
	}
	id := binding.GetLabels()[binding.PermanentIDLabel()]
	return id != "" && work.Labels[binding.PermanentIDLabel()] == id
}

// CarriesNamespace returns whether a Work has a namespace, which is propagated to every cluster: such a Work exists with or without a
// binding.
func CarriesNamespace(work *workv1alpha1.Work) bool {
	return work.Annotations[workv1alpha1.CarriedNamespaceAnnotation] != ""
}

// MayTake returns whether a binding may take over a Work that no binding has: see workv1alpha2.Unbind.
func MayTake(work *workv1alpha1.Work) bool {
	return CarriesNamespace(work) && work.DeletionTimestamp == nil && workv1alpha2.BoundTo(work) == ""
}

func merge(groups ...map[string]string) map[string]string {
	merged := map[string]string{}
	for _, group := range groups {
		maps.Copy(merged, group)
	}
	return merged
}

func isTrue(b *bool) bool { return b != nil && *b }

// KeyOf returns the name of a binding as workv1alpha2.BoundTo returns it of a Work.
func KeyOf(binding workv1alpha2.Binding) string {
	return binding.GetNamespace() + "/" + binding.GetName()
}
