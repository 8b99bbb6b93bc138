package answers

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const (
	// maxInstead is how many other objects an answer names.
	maxInstead = 10
	// maxChecked is how many similar objects are checked for the rights of the user.
	maxChecked = 200
)

// kindsOf lists those templates of a group, kind and resource, each "" for any; at least one.
func (a *Answerer) kindsOf(group, name, resource string) ([]hubstore.Kind, error) {
	found := matching(a.Templates.Kinds(), group, name, resource)
	if len(found) == 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s %q is no kind that is propagated: kubectl api-resources lists those that are served",
			strings.TrimPrefix(group+" ", " "), name+resource))
	}
	return found, nil
}

// matching returns the kinds of a group, kind and resource, each "" for any; those of the core group first.
func matching(kinds []hubstore.Kind, group, name, resource string) []hubstore.Kind {
	var found []hubstore.Kind
	for _, kind := range kinds {
		if (group == "" || group == kind.GroupVersionKind.Group) &&
			(name == "" || strings.EqualFold(name, kind.GroupVersionKind.Kind)) &&
			(resource == "" || strings.EqualFold(resource, kind.Resource.Resource)) {
			found = append(found, kind)
		}
	}
	slices.SortFunc(found, func(x, y hubstore.Kind) int {
		return strings.Compare(x.GroupVersionKind.Group, y.GroupVersionKind.Group) // the core group first
	})
	return found
}

func refOf(kind hubstore.Kind, namespace, name string) hubstore.Ref {
	if !kind.Namespaced {
		namespace = ""
	}
	return hubstore.Ref{GroupVersionKind: kind.GroupVersionKind, Namespace: namespace, Name: name}
}

func rightOf(kind hubstore.Kind, ref hubstore.Ref) explain.Right {
	return explain.Right{Group: kind.Resource.Group, Resource: kind.Resource.Resource, Namespace: ref.Namespace, Name: ref.Name}
}

// absent names what there is instead of an object, of what the user may get.
func (a *Answerer) absent(kind hubstore.Kind, spec *fleetv1alpha1.ExplanationSpec, may func(explain.Right) bool) fleetv1alpha1.ExplanationStatus {
	asked := refOf(kind, spec.Namespace, spec.Name)
	status := fleetv1alpha1.ExplanationStatus{Summary: fmt.Sprintf("There is no %s.", asked)}
	checked := 0
	add := func(of hubstore.Kind, ref hubstore.Ref) {
		if checked++; len(status.Instead) >= maxInstead || checked > maxChecked || !may(rightOf(of, ref)) {
			return
		}
		status.Instead = append(status.Instead, identityOf(ref))
	}
	for _, meta := range a.Templates.List(kind.GroupVersionKind, "", labels.Everything()) {
		if similar := explain.Similar(meta.Name, spec.Name); meta.Namespace == asked.Namespace && similar || meta.Name == spec.Name {
			add(kind, refOf(kind, meta.Namespace, meta.Name))
		}
	}
	for _, other := range a.Templates.Kinds() {
		ref := refOf(other, spec.Namespace, spec.Name)
		if _, ok := a.Templates.Meta(ref); ok && other != kind {
			add(other, ref)
		}
	}
	return status
}
