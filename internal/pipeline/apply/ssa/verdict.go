package ssa

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// Verdict is whether an object in a member may be written for a Work, and how.
type Verdict int

const (
	Foreign  Verdict = iota // not ours: hands off
	ours                    // managed for this Work already
	Adopting                // not ours, but the user requests it
)

func IsManaged(obj *unstructured.Unstructured) bool {
	return obj.GetLabels()[workv1alpha1.ManagedLabel] == workv1alpha1.ManagedLabelValue
}

func WorkOf(obj *unstructured.Unstructured) types.NamespacedName {
	annotations := obj.GetAnnotations()
	return types.NamespacedName{Namespace: annotations[workv1alpha1.WorkNamespaceAnnotation], Name: annotations[workv1alpha1.WorkNameAnnotation]}
}

// judge decides about an object that exists. otherOwner returns whether another Work that exists has it.
func Judge(self ownership.ControlPlane, work types.NamespacedName, desired, live *unstructured.Unstructured, otherOwner func(types.NamespacedName) bool) (Verdict, error) {
	owner := WorkOf(live)
	overwrite := desired.GetAnnotations()[workv1alpha1.ConflictResolutionAnnotation] == workv1alpha1.ConflictResolutionOverwrite
	if other := self.Other(live); other != "" {
		return judgeOthers(self, other, overwrite, desired, live)
	}
	switch {
	case owner == work && (IsManaged(live) || self.OurFields(live) != nil):
		return ours, nil // even if others took the label off: that is drift
	case IsManaged(live) && isAnothers(self, work, owner, live) && !overwrite:
		return Foreign, fmt.Errorf("%s is managed by another control plane, by its Work %s; conflictResolution Overwrite takes it over", IdentityOf(live), owner)
	case IsManaged(live) && isAnothers(self, work, owner, live):
		return Adopting, nil
	case IsManaged(live) && owner != (types.NamespacedName{}) && otherOwner(owner):
		return Foreign, fmt.Errorf("%s is managed by another Work, %s", IdentityOf(live), owner)
	case IsManaged(live):
		return ours, nil
	case self.Released(live):
		return ours, nil
	case overwrite:
		return Adopting, nil
	default:
		return Foreign, unmanagedError(desired)
	}
}

// judgeOthers decides about an object of another control plane. It is taken over once: where two control planes have
// Overwrite, the first one does not take it back. A namespace is not taken over at all, since every control plane sends
// its namespaces to all members with Overwrite: no policy requested that one.
func judgeOthers(self ownership.ControlPlane, other string, overwrite bool, desired, live *unstructured.Unstructured) (Verdict, error) {
	switch {
	case self.Lost(live):
		return Foreign, fmt.Errorf("%s was taken over by another control plane, %s, and is not taken back as long as it has the object", IdentityOf(desired), other)
	case IsNamespace(desired):
		return Foreign, fmt.Errorf("%s is managed by another control plane, %s, and is used as it is", IdentityOf(desired), other)
	case !overwrite:
		return Foreign, fmt.Errorf("%s is managed by another control plane, %s; conflictResolution Overwrite takes it over", IdentityOf(desired), other)
	default:
		return Adopting, nil
	}
}

// isAnothers returns whether a managed object without the id of a control plane names a Work that cannot be one of ours:
// those of a member are all in one namespace, which is named after the member. Older versions and Karmada write no id.
func isAnothers(self ownership.ControlPlane, work, owner types.NamespacedName, live *unstructured.Unstructured) bool {
	_, identified := live.GetAnnotations()[workv1alpha1.ControlPlaneAnnotation]
	return !identified && self.ID != "" && owner.Namespace != "" && owner.Namespace != work.Namespace
}

// unmanagedError is the refusal to take over an object, in the words of the contract.
func unmanagedError(desired *unstructured.Unstructured) error {
	i := IdentityOf(desired)
	name := i.Name
	if i.Namespace != "" {
		name = i.Namespace + "/" + i.Name
	}
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(desired.GetAnnotations()[workv1alpha1.WorkNamespaceAnnotation])
	return fmt.Errorf("resource(kind=%s, %s) already exists in the cluster %s and the %s strategy value is %s, %s",
		i.Kind.Kind, name, cluster, workv1alpha1.ConflictResolutionAnnotation, strategyOf(desired), "Karmada will not manage this resource")
}

func strategyOf(desired *unstructured.Unstructured) string {
	if s := desired.GetAnnotations()[workv1alpha1.ConflictResolutionAnnotation]; s != "" {
		return s
	}
	return "empty"
}

// Difference is how an object in a member differs from the desired one.
type Difference struct {
	// Stale: another object was desired when it was last applied, or it never was.
	Stale bool
	// drifted are the paths we applied and do not own any more.
	Drifted []string
	// Open are the desired paths that we do not own and did not apply: others have them.
	Open []string
	// Altered are the paths that we own and that have another value than the desired one, each with a hash of that value: the
	// member has normalized it, or others wrote under our name.
	Altered map[string]uint64
	// unexplained are those of altered that neither the member's defaults nor fields that it does not store account for.
	Unexplained int
	// UnknownFields: the member does not serve some field.
	UnknownFields bool
}

func Compare(self ownership.ControlPlane, desired, live *unstructured.Unstructured, hash string) Difference {
	last, ok := LastAppliedOf(live)
	if !ok || last.Hash != hash || !IsManaged(live) || !isSigned(self, live) {
		return Difference{Stale: true}
	}
	d := Difference{UnknownFields: !last.Misfits.empty()}
	d.Altered, d.Unexplained = Alterations(self, desired, live)
	unowned(content(desired), self.OurFields(live), "", func(path string) {
		switch {
		case last.Misfits.has(path):
		case last.Footprint.has(path):
			d.Drifted = append(d.Drifted, path)
		default:
			d.Open = append(d.Open, path)
		}
	})
	if len(self.OurFields(live)) == 0 {
		d.Stale = true
	}
	return d
}

// Lost are the paths of desired that were applied last, whatever was desired then, and that we do not own any more.
func Lost(self ownership.ControlPlane, desired, live *unstructured.Unstructured) []string {
	last, ok := LastAppliedOf(live)
	if !ok || !IsManaged(live) || !isSigned(self, live) {
		return nil
	}
	var lost []string
	unowned(content(desired), self.OurFields(live), "", func(path string) {
		if last.Footprint.has(path) && !last.Misfits.has(path) {
			lost = append(lost, path)
		}
	})
	return lost
}

// isSigned returns whether an object has the id of this control plane, or is as versions without one left it: that is no
// reason to write it.
func isSigned(self ownership.ControlPlane, live *unstructured.Unstructured) bool {
	id, identified := live.GetAnnotations()[workv1alpha1.ControlPlaneAnnotation]
	return id == self.ID || !identified && self.Outdated(live)
}

// alterations are the paths of desired that we own and whose value in live is another one, with a hash of that; nil if
// there are none. Unexplained is how many of them neither a default nor a field that the member does not store accounts for.
func Alterations(self ownership.ControlPlane, desired, live *unstructured.Unstructured) (found map[string]uint64, unexplained int) {
	fields := self.OurFields(live)
	if len(fields) == 0 {
		return nil, 0
	}
	altered(content(desired), live.Object, fields, "", func(path string, value, live any) {
		if found == nil {
			found = map[string]uint64{}
		}
		found[path] = ValueHash(live)
		if !stored(value, live) {
			unexplained++
		}
	})
	return found, unexplained
}

// unowned are the paths of desired that we do not own in what an apply made of it; nil if there are none.
func Unowned(self ownership.ControlPlane, desired, got *unstructured.Unstructured) map[string]bool {
	var paths map[string]bool
	unowned(content(desired), self.OurFields(got), "", func(path string) {
		if paths == nil {
			paths = map[string]bool{}
		}
		paths[path] = true
	})
	return paths
}

// Belongs returns whether an object is ours to remove on behalf of a Work. One that another control plane has taken over, or
// made for a Work of the same name, never is.
func Belongs(self ownership.ControlPlane, live *unstructured.Unstructured, work types.NamespacedName) bool {
	return IsManaged(live) && WorkOf(live) == work && self.Other(live) == ""
}
