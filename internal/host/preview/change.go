package preview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/host/preview/fields"
)

// maxObjects bounds the objects of one change.
const maxObjects = 500

// Admission is what a control plane makes of a request, without that it is made.
type Admission interface {
	// Namespaced returns whether the objects of a kind have a namespace; false for a kind that is not served.
	Namespaced(kind schema.GroupVersionKind) bool
	// Apply returns an object as it is, nil if there is none, and as it is after it is applied.
	Apply(ctx context.Context, manifest *unstructured.Unstructured) (before, after *unstructured.Unstructured, err error)
	// Delete returns an object that may be deleted.
	Delete(ctx context.Context, id fleetv1alpha1.ObjectIdentity) (before *unstructured.Unstructured, err error)
}

var (
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

// parse reads the manifests of a change. A fault is a BadRequest.
func parse(spec *fleetv1alpha1.PreviewSpec) ([]*unstructured.Unstructured, error) {
	if n := len(spec.Apply) + len(spec.Delete); n == 0 || n > maxObjects {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.apply and spec.delete have %d objects, and need 1 to %d", n, maxObjects))
	}
	var parsed []*unstructured.Unstructured
	for i := range spec.Apply {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(spec.Apply[i].Raw); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.apply[%d] is no manifest: %v", i, err))
		}
		if obj.GetName() == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.apply[%d] needs metadata.name", i))
		}
		parsed = append(parsed, obj)
	}
	seen := map[fleetv1alpha1.ObjectIdentity]bool{}
	for i, id := range slices.Concat(identities(parsed), spec.Delete) {
		// Each object is compared with the control plane as it is now, not with what the change has made of it.
		id.APIVersion = schema.FromAPIVersionAndKind(id.APIVersion, id.Kind).Group
		if seen[id] {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is named twice, the second time by object %d", named(id), i))
		}
		seen[id] = true
	}
	for i, id := range spec.Delete {
		if id.APIVersion == "" || id.Kind == "" || id.Name == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.delete[%d] needs apiVersion, kind and name", i))
		}
	}
	return parsed, nil
}

// Change makes the change on the view. What the control plane refuses is in the status, and not made.
func (r *Run) Change(ctx context.Context, spec *fleetv1alpha1.PreviewSpec, admission Admission, status *fleetv1alpha1.PreviewStatus) error {
	ordered, err := parse(spec)
	if err != nil {
		return err
	}
	// As "kubectl apply" has to be called: what others need comes first.
	rank := func(obj *unstructured.Unstructured) int {
		switch obj.GroupVersionKind().GroupKind() {
		case namespaceKind:
			return 0
		case definitionKind:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	created := fresh{namespaces: map[string]bool{}, kinds: map[schema.GroupKind]bool{}}
	for _, manifest := range ordered {
		if manifest.GetNamespace() == "" && r.namespaced(manifest.GroupVersionKind(), admission) {
			manifest.SetNamespace(cmp.Or(spec.Namespace, metav1.NamespaceDefault))
		}
		if err := r.apply(ctx, manifest, admission, created, status); err != nil {
			return err
		}
	}
	for _, id := range spec.Delete {
		if id.Namespace == "" && r.namespaced(schema.FromAPIVersionAndKind(id.APIVersion, id.Kind), admission) {
			id.Namespace = cmp.Or(spec.Namespace, metav1.NamespaceDefault)
		}
		if err := r.remove(ctx, id, admission, status); err != nil {
			return err
		}
	}
	return nil
}

// namespaced returns whether the objects of a kind have a namespace, also of one that the change itself defines.
func (r *Run) namespaced(kind schema.GroupVersionKind, admission Admission) bool {
	_, namespaced, ok := r.Templates.Mapping(kind)
	return ok && namespaced || !ok && admission.Namespaced(kind)
}

// fresh is what the change itself creates, and the control plane does not have yet.
type fresh struct {
	namespaces map[string]bool
	kinds      map[schema.GroupKind]bool
}

func (r *Run) apply(ctx context.Context, manifest *unstructured.Unstructured, admission Admission, created fresh, status *fleetv1alpha1.PreviewStatus) error {
	id := identity(manifest)
	if refusal := untakable(manifest.GroupVersionKind().GroupKind()); refusal != "" {
		status.Refused = append(status.Refused, fleetv1alpha1.PreviewRefusal{Object: id, Reason: "NotPreviewed", Message: refusal})
		return nil
	}
	before, after, err := admission.Apply(ctx, manifest)
	kind := manifest.GroupVersionKind().GroupKind()
	if apierrors.IsNotFound(err) && (created.kinds[kind] || created.namespaces[manifest.GetNamespace()]) {
		status.Warnings = append(status.Warnings, fmt.Sprintf("%s is not checked: its namespace or definition is created by this change", named(id)))
		after, err = r.unchecked(manifest), nil
	}
	if refused(err, id, status) {
		return nil
	}
	if err != nil {
		return err
	}
	entry := fleetv1alpha1.PreviewObject{Object: id, Action: fleetv1alpha1.PreviewCreate}
	if before != nil {
		if entry.Fields, entry.Action = fields.Edits(before, after), fleetv1alpha1.PreviewUpdate; len(entry.Fields) == 0 {
			entry.Action = fleetv1alpha1.PreviewNone
		}
	}
	status.Objects = append(status.Objects, entry)
	if entry.Action == fleetv1alpha1.PreviewNone {
		return nil
	}
	if kind == namespaceKind && before == nil {
		created.namespaces[manifest.GetName()] = true
	}
	if kind == definitionKind {
		if served, ok := r.define(after); ok && before == nil {
			created.kinds[served] = true
		}
	}
	if err := r.Set(ctx, after); err != nil {
		status.Warnings = append(status.Warnings, fmt.Sprintf("%s: %v", named(id), err))
	}
	return nil
}

// refused adds an error that is the answer of the control plane to a request, and returns whether it is one.
func refused(err error, id fleetv1alpha1.ObjectIdentity, status *fleetv1alpha1.PreviewStatus) bool {
	answer := apierrors.APIStatus(nil)
	if !errors.As(err, &answer) || answer.Status().Code >= 500 {
		return false
	}
	status.Refused = append(status.Refused, fleetv1alpha1.PreviewRefusal{Object: id, Reason: string(answer.Status().Reason), Message: answer.Status().Message})
	return true
}

// untakable is why a kind is not previewed; "" if it is.
func untakable(kind schema.GroupKind) string {
	switch kind.Group {
	case workv1alpha1.GroupName:
		return "a preview takes templates, policies and Clusters: bindings and Works are made of these"
	case fleetv1alpha1.GroupName:
		return "a " + kind.Kind + " is not propagated"
	}
	return ""
}

// unchecked completes a manifest that the control plane cannot check yet.
func (r *Run) unchecked(manifest *unstructured.Unstructured) *unstructured.Unstructured {
	obj := manifest.DeepCopy()
	obj.SetUID(types.UID(r.config.NewID()))
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(r.clock.Now()).Rfc3339Copy())
	return obj
}

// define adds the kind of a definition.
func (r *Run) define(obj *unstructured.Unstructured) (schema.GroupKind, bool) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, definition) != nil {
		return schema.GroupKind{}, false
	}
	for _, version := range definition.Spec.Versions {
		if version.Served {
			kind := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
			r.Templates.AddKind(hubstore.Kind{
				GroupVersionKind: kind, Resource: kind.GroupVersion().WithResource(definition.Spec.Names.Plural),
				Namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
			})
			return kind.GroupKind(), true
		}
	}
	return schema.GroupKind{}, false
}

// errNotComputed is about an object that a preview does not follow.
var errNotComputed = errors.New("what this object does is not computed")

// Set makes an object what it is after a request of a user. The error is about what a preview does not follow.
func (r *Run) Set(ctx context.Context, obj *unstructured.Unstructured) error {
	typed := ours(obj.GroupVersionKind().GroupKind())
	if typed != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed); err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		return r.Hub.Set(ctx, typed)
	}
	ref := hubstore.RefOf(obj)
	canonical, ok := r.Templates.Canonical(ref.GroupVersionKind)
	if !ok {
		return errNotComputed
	}
	if canonical != ref.GroupVersionKind {
		converted, err := r.config.Versions.ConvertBuiltIn(obj, canonical.Version)
		if err != nil {
			return fmt.Errorf("it is compared in version %s: %w", canonical.Version, err)
		}
		obj = converted
	}
	return r.Templates.Set(ctx, ref, obj)
}

// ours is an empty object of a kind that the loops read, nil for others.
func ours(kind schema.GroupKind) client.Object {
	switch kind {
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindPropagationPolicy}:
		return &policyv1alpha1.PropagationPolicy{}
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterPropagationPolicy}:
		return &policyv1alpha1.ClusterPropagationPolicy{}
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindOverridePolicy}:
		return &policyv1alpha1.OverridePolicy{}
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterOverridePolicy}:
		return &policyv1alpha1.ClusterOverridePolicy{}
	case schema.GroupKind{Group: clusterv1alpha1.GroupName, Kind: clusterv1alpha1.KindCluster}:
		return &clusterv1alpha1.Cluster{}
	}
	return nil
}

func (r *Run) remove(ctx context.Context, id fleetv1alpha1.ObjectIdentity, admission Admission, status *fleetv1alpha1.PreviewStatus) error {
	kind := schema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
	if refusal := untakable(kind.GroupKind()); refusal != "" {
		status.Refused = append(status.Refused, fleetv1alpha1.PreviewRefusal{Object: id, Reason: "NotPreviewed", Message: refusal})
		return nil
	}
	_, err := admission.Delete(ctx, id)
	if refused(err, id, status) {
		return nil
	}
	if err != nil {
		return err
	}
	status.Objects = append(status.Objects, fleetv1alpha1.PreviewObject{Object: id, Action: fleetv1alpha1.PreviewDelete})
	typed := ours(kind.GroupKind())
	ref := hubstore.Ref{GroupVersionKind: kind, Namespace: id.Namespace, Name: id.Name}
	_, known := r.Templates.Canonical(kind)
	switch _, cluster := typed.(*clusterv1alpha1.Cluster); {
	case cluster, kind.GroupKind() == namespaceKind:
		status.Warnings = append(status.Warnings, fmt.Sprintf("%s: what its deletion does is not computed", named(id)))
		return nil
	case typed != nil:
		typed.SetNamespace(id.Namespace)
		typed.SetName(id.Name)
		return client.IgnoreNotFound(r.Hub.Delete(ctx, typed))
	case !known:
		status.Warnings = append(status.Warnings, fmt.Sprintf("%s: %v", named(id), errNotComputed))
		return nil
	}
	return r.Templates.Set(ctx, ref, nil)
}

func identities(objects []*unstructured.Unstructured) []fleetv1alpha1.ObjectIdentity {
	all := make([]fleetv1alpha1.ObjectIdentity, 0, len(objects))
	for _, obj := range objects {
		all = append(all, identity(obj))
	}
	return all
}

func identity(obj *unstructured.Unstructured) fleetv1alpha1.ObjectIdentity {
	return fleetv1alpha1.ObjectIdentity{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func named(id fleetv1alpha1.ObjectIdentity) string {
	return id.Kind + " " + strings.TrimPrefix(id.Namespace+"/"+id.Name, "/")
}
