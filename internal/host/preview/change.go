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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/host/preview/fields"
	"github.com/flagship-k8s/flagship/internal/host/preview/unfollowed"
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
			return nil, apierrors.NewBadRequest(fmt.Sprintf("%s is named twice, the second time by object %d", Named(id), i))
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

// Change makes the change on the view, and has the loops do what follows. What the control plane refuses is in the status, and not made.
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
	// Namespaces go last: what they have is deleted with them, and could not be found after that.
	ids := slices.Clone(spec.Delete)
	slices.SortStableFunc(ids, func(a, b fleetv1alpha1.ObjectIdentity) int { return cmp.Compare(lastOf(a), lastOf(b)) })
	for _, id := range ids {
		if id.Namespace == "" && r.namespaced(schema.FromAPIVersionAndKind(id.APIVersion, id.Kind), admission) {
			id.Namespace = cmp.Or(spec.Namespace, metav1.NamespaceDefault)
		}
		if err := r.remove(ctx, id, admission, status); err != nil {
			return err
		}
	}
	if err := r.Settle(ctx); err != nil {
		return err
	}
	return r.foresee(ctx)
}

// lastOf is 1 for a namespace, which is deleted after all others.
func lastOf(id fleetv1alpha1.ObjectIdentity) int {
	if schema.FromAPIVersionAndKind(id.APIVersion, id.Kind).GroupKind() == namespaceKind {
		return 1
	}
	return 0
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
	id := Identity(manifest)
	if refusal := untakable(manifest.GroupVersionKind().GroupKind()); refusal != "" {
		status.Refused = append(status.Refused, fleetv1alpha1.PreviewRefusal{Object: id, Reason: "NotPreviewed", Message: refusal})
		return nil
	}
	before, after, err := admission.Apply(ctx, manifest)
	kind := manifest.GroupVersionKind().GroupKind()
	if apierrors.IsNotFound(err) && (created.kinds[kind] || created.namespaces[manifest.GetNamespace()]) {
		status.Warnings = append(status.Warnings, fmt.Sprintf("%s is not checked: its namespace or definition is created by this change", Named(id)))
		after, err = r.unchecked(manifest), nil
	}
	if refused(err, id, status) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.measure(before, after); err != nil {
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
		if served, ok := r.Define(after); ok && before == nil {
			created.kinds[served] = true
		}
	}
	if err := r.Set(ctx, after); err != nil {
		status.Warnings = append(status.Warnings, fmt.Sprintf("%s: %v", Named(id), err))
	} else if text := unfollowed.Of(after, false); text != "" {
		status.Warnings = append(status.Warnings, Named(id)+": "+text)
	}
	return nil
}

// measure counts the bytes of the objects of the change.
func (r *Run) measure(objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		if object == nil {
			continue
		}
		raw, err := object.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encoding an object of the change: %w", err)
		}
		if r.bytes += len(raw); r.bytes > maxObjectBytes {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
				"the objects of the change, as they are and will be, have more than %d bytes: preview fewer at once", maxObjectBytes))
		}
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
	obj.SetUID(types.UID(r.NewID()))
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(r.Now()).Rfc3339Copy())
	return obj
}

// Define adds the kind of a definition.
func (r *Run) Define(obj *unstructured.Unstructured) (schema.GroupKind, bool) {
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

// Set makes an object what it is after a request of a user. The error is about what a preview does not follow.
func (r *Run) Set(ctx context.Context, obj *unstructured.Unstructured) error {
	typed := Ours(obj.GroupVersionKind().GroupKind())
	if typed != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed); err != nil {
			return fmt.Errorf("reading it: %w", err)
		}
		if cluster, ok := typed.(*clusterv1alpha1.Cluster); ok {
			r.tainted[cluster.Name] = cluster.Spec.Taints
		}
		return r.Hub.Set(ctx, typed)
	}
	ref := hubstore.RefOf(obj)
	canonical, ok := r.Templates.Canonical(ref.GroupVersionKind)
	if !ok {
		return unfollowed.Kind(ref.GroupVersionKind.GroupKind())
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

// Ours is an empty object of a kind that the loops read, nil for others.
func Ours(kind schema.GroupKind) client.Object {
	switch kind {
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindPropagationPolicy}:
		return &policyv1alpha1.PropagationPolicy{}
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterPropagationPolicy}:
		return &policyv1alpha1.ClusterPropagationPolicy{}
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindOverridePolicy}:
		return &policyv1alpha1.OverridePolicy{}
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterOverridePolicy}:
		return &policyv1alpha1.ClusterOverridePolicy{}
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindClusterTaintPolicy}:
		return &policyv1alpha1.ClusterTaintPolicy{}
	case schema.GroupKind{Group: configv1alpha1.GroupName, Kind: configv1alpha1.KindResourceInterpreterCustomization}:
		return &configv1alpha1.ResourceInterpreterCustomization{}
	case schema.GroupKind{Group: networkingv1alpha1.GroupName, Kind: networkingv1alpha1.KindMultiClusterService}:
		return &networkingv1alpha1.MultiClusterService{}
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
	before, err := admission.Delete(ctx, id)
	if refused(err, id, status) {
		return nil
	}
	if err != nil {
		return err
	}
	status.Objects = append(status.Objects, fleetv1alpha1.PreviewObject{Object: id, Action: fleetv1alpha1.PreviewDelete})
	warn := func(text string) { status.Warnings = append(status.Warnings, Named(id)+": "+text) }
	if text := unfollowed.Of(before, true); text != "" {
		warn(text)
	}
	typed := Ours(kind.GroupKind())
	_, known := r.Templates.Canonical(kind)
	switch {
	case typed != nil:
		typed.SetNamespace(id.Namespace)
		typed.SetName(id.Name)
		return client.IgnoreNotFound(r.Hub.Delete(ctx, typed))
	case kind.GroupKind() == namespaceKind && hubstore.ReservedNamespace(id.Name):
		warn("what its deletion does is not computed: it is a namespace of the control plane")
		return nil
	case kind.GroupKind() == namespaceKind:
		return r.removeNamespace(ctx, id.Name)
	case !known:
		warn(unfollowed.Kind(kind.GroupKind()).Error())
		return nil
	}
	if before != nil && len(before.GetFinalizers()) > 0 {
		warn(fmt.Sprintf("it stays until its finalizers %s are removed; the answer is what follows then", strings.Join(before.GetFinalizers(), ", ")))
	}
	return r.Templates.Set(ctx, hubstore.Ref{GroupVersionKind: kind, Namespace: id.Namespace, Name: id.Name}, nil)
}

// removeNamespace deletes what a namespace has, and the namespace, as the controller of namespaces does.
func (r *Run) removeNamespace(ctx context.Context, name string) error {
	r.emptied[name] = true
	for _, list := range []client.ObjectList{
		&policyv1alpha1.PropagationPolicyList{}, &policyv1alpha1.OverridePolicyList{}, &networkingv1alpha1.MultiClusterServiceList{}, &workv1alpha2.ResourceBindingList{},
	} {
		if err := r.Hub.List(ctx, list, client.InNamespace(name)); err != nil {
			return fmt.Errorf("listing what namespace %s has: %w", name, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error { return client.IgnoreNotFound(r.Hub.Delete(ctx, item.(client.Object))) })
		if err != nil {
			return fmt.Errorf("deleting what namespace %s has: %w", name, err)
		}
	}
	for _, ref := range r.Templates.In(name) {
		if err := r.Templates.Set(ctx, ref, nil); err != nil {
			return err
		}
	}
	return r.Templates.Set(ctx, hubstore.NamespaceRef(name), nil)
}

func identities(objects []*unstructured.Unstructured) []fleetv1alpha1.ObjectIdentity {
	all := make([]fleetv1alpha1.ObjectIdentity, 0, len(objects))
	for _, obj := range objects {
		all = append(all, Identity(obj))
	}
	return all
}

// Identity names an object.
func Identity(obj *unstructured.Unstructured) fleetv1alpha1.ObjectIdentity {
	return fleetv1alpha1.ObjectIdentity{APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Named is an object in a sentence.
func Named(id fleetv1alpha1.ObjectIdentity) string {
	return id.Kind + " " + strings.TrimPrefix(id.Namespace+"/"+id.Name, "/")
}
