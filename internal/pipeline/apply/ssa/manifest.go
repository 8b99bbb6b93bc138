package ssa

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// identity names one object in a member.
type Identity struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
}

// String is the identity as conditions show it.
func (i Identity) String() string {
	if i.Namespace == "" {
		return fmt.Sprintf("%s %s", i.Kind.Kind, i.Name)
	}
	return fmt.Sprintf("%s %s/%s", i.Kind.Kind, i.Namespace, i.Name)
}

// unversioned is the identity of the object whichever version it is requested in.
func (i Identity) unversioned() Identity {
	i.Kind.Version = ""
	return i
}

// manifest is one object of a Work, as it should be in the member. An unreadable one has only an error.
type Manifest struct {
	Ordinal int
	Object  *unstructured.Unstructured
	Err     error
}

func (m Manifest) Identity() Identity { return IdentityOf(m.Object) }

func IdentityOf(obj *unstructured.Unstructured) Identity {
	return Identity{Kind: obj.GroupVersionKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// manifestsOf reads the manifests of a Work, stamped, and in the order in which to apply them: namespaces, then
// definitions of kinds, then the rest.
func ManifestsOf(work *workv1alpha1.Work) []Manifest {
	manifests := make([]Manifest, 0, len(work.Spec.Workload.Manifests))
	for i, raw := range work.Spec.Workload.Manifests {
		m := Manifest{Ordinal: i}
		m.Object, m.Err = read(raw.Raw)
		if m.Err == nil {
			prune(m.Object)
			foldRepeats(m.Object)
			stamp(m.Object, work)
		}
		manifests = append(manifests, m)
	}
	slices.SortStableFunc(manifests, func(a, b Manifest) int { return a.turn() - b.turn() })
	return manifests
}

func (m Manifest) turn() int {
	if m.Err != nil {
		return 2
	}
	return m.Identity().turn()
}

func (i Identity) turn() int {
	switch kind := i.Kind; {
	case kind.Group == "" && kind.Kind == "Namespace":
		return 0
	case kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition":
		return 1
	default:
		return 2
	}
}

func read(raw []byte) (*unstructured.Unstructured, error) {
	fields := map[string]any{}
	if err := utiljson.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	obj := &unstructured.Unstructured{Object: fields}
	kind := obj.GroupVersionKind()
	if kind.Version == "" || kind.Kind == "" || obj.GetName() == "" {
		return nil, errors.New("reading the manifest: it lacks apiVersion, kind or metadata.name")
	}
	return obj, nil
}

// prune removes what means nothing outside the cluster a manifest was read from, as rendering does. What is null is
// absent: an apply would own it.
func prune(obj *unstructured.Unstructured) {
	delete(obj.Object, "status")
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		for _, name := range []string{
			"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
			"resourceVersion", "selfLink", "uid", "ownerReferences", "finalizers",
		} {
			delete(metadata, name)
		}
	}
	if finalizers := workv1alpha1.MemberFinalizers(obj.GetAnnotations()); len(finalizers) > 0 {
		obj.SetFinalizers(finalizers)
	}
	dropNulls(obj.Object)
}

func dropNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if child == nil {
				delete(v, key)
				continue
			}
			dropNulls(child)
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
}

// stamp puts the marks on an object by which it is known as ours and traced back to its Work. A rendered manifest has
// them already.
func stamp(obj *unstructured.Unstructured, work *workv1alpha1.Work) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[workv1alpha1.ManagedLabel] = workv1alpha1.ManagedLabelValue
	if id := work.Labels[workv1alpha1.WorkPermanentIDLabel]; id != "" {
		labels[workv1alpha1.WorkPermanentIDLabel] = id
	}
	obj.SetLabels(labels)
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[workv1alpha1.WorkNamespaceAnnotation] = work.Namespace
	annotations[workv1alpha1.WorkNameAnnotation] = work.Name
	if resolution := work.Annotations[workv1alpha1.ConflictResolutionAnnotation]; resolution != "" && annotations[workv1alpha1.ConflictResolutionAnnotation] == "" {
		annotations[workv1alpha1.ConflictResolutionAnnotation] = resolution
	}
	for _, key := range ownAnnotations {
		delete(annotations, key)
	}
	obj.SetAnnotations(annotations)
}

// leftovers are the objects that the Work's status names, or that are its own in the member, and are no manifests of it any
// more.
func Leftovers(work *workv1alpha1.Work, manifests []Manifest, owned []*unstructured.Unstructured) []Identity {
	present := map[Identity]bool{}
	for _, m := range manifests {
		if m.Err != nil {
			return nil // an object that cannot be read may be the one in the status
		}
		i := m.Identity().unversioned()
		present[i] = true
		if i.Namespace == "" {
			i.Namespace = metav1.NamespaceDefault // where it is if its kind has namespaces, which may not be known yet
		} else {
			i.Namespace = "" // where it is if its kind has none
		}
		present[i] = true
	}
	var left []Identity
	add := func(id Identity) {
		if !present[id.unversioned()] {
			present[id.unversioned()] = true
			left = append(left, id)
		}
	}
	for _, s := range work.Status.ManifestStatuses {
		id := s.Identifier
		add(Identity{
			Kind:      schema.GroupVersionKind{Group: id.Group, Version: id.Version, Kind: id.Kind},
			Namespace: id.Namespace, Name: id.Name,
		})
	}
	for _, obj := range owned {
		add(IdentityOf(obj))
	}
	slices.SortStableFunc(left, func(a, b Identity) int { return b.turn() - a.turn() }) // other objects before their namespaces and definitions
	return left
}

// encode writes an object as the body of an apply.
func Encode(obj *unstructured.Unstructured) ([]byte, error) {
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", IdentityOf(obj), err)
	}
	return body, nil
}
