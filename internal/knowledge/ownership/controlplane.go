package ownership

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	// FieldManager is what the names of all control planes' field managers begin with, and the whole name that versions
	// without an id used.
	FieldManager = "flagship"
	// managerIDLength is how much of the id is in the name of a field manager. Two control planes with the same 8
	// hexadecimal digits, one in four thousand million pairs, still recognize their objects by the whole id.
	managerIDLength = 8
)

// ControlPlane is the identity under which objects in members are written. The zero value is that of versions without an
// id.
type ControlPlane struct {
	// ID is the uid of the control plane's namespace kube-system.
	ID string
}

// Manager is the field manager under which this control plane applies objects in members.
func (c ControlPlane) Manager() string { return ManagerOf(c.ID) }

// ManagerOf is the field manager of the control plane with an id.
func ManagerOf(id string) string {
	if id == "" {
		return FieldManager
	}
	return FieldManager + "-" + id[:min(len(id), managerIDLength)]
}

// Other returns the id of the control plane that an object in a member belongs to, if that is another one; "" otherwise. Without
// the annotation it is the one whose field manager owns the managed label, and the id is as much of it as is in that name: an
// object may be taken over without a change of an annotation. If there is none either, it may belong to any control plane.
func (c ControlPlane) Other(obj metav1.Object) string {
	id, identified := obj.GetAnnotations()[workv1alpha1.ControlPlaneAnnotation]
	switch {
	case !identified:
		return c.otherManager(obj)
	case id != c.ID:
		return id
	}
	return ""
}

// Released returns whether this control plane released an object, and no control plane manages it since.
func (c ControlPlane) Released(obj metav1.Object) bool {
	labels := obj.GetLabels()
	return c.ID != "" && labels[workv1alpha1.ReleasedByLabel] == c.ID && labels[workv1alpha1.ManagedLabel] == ""
}

// otherManager returns what is in the name of the field manager of another control plane that owns the managed label, "" if none does.
func (c ControlPlane) otherManager(obj metav1.Object) string {
	if c.ID == "" || obj.GetLabels()[workv1alpha1.ManagedLabel] == "" {
		return ""
	}
	for _, entry := range obj.GetManagedFields() {
		id, named := strings.CutPrefix(entry.Manager, FieldManager+"-")
		if !named || entry.Manager == c.Manager() || entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && haveManagedLabel(fields) {
			return id
		}
	}
	return ""
}

// haveManagedLabel returns whether fields, as fieldsV1, have the managed label.
func haveManagedLabel(fields map[string]any) bool {
	_, found, _ := unstructured.NestedFieldNoCopy(fields, "f:metadata", "f:labels", "f:"+workv1alpha1.ManagedLabel)
	return found
}

// Lost returns whether another control plane took an object over from this one.
func (c ControlPlane) Lost(obj metav1.Object) bool {
	return c.Other(obj) != "" && slices.ContainsFunc(strings.Split(obj.GetAnnotations()[workv1alpha1.TakenFromAnnotation], ","), func(id string) bool {
		return id == c.ID || len(id) == managerIDLength && strings.HasPrefix(c.ID, id) // as Other returns it without the annotation
	})
}

// OurFields returns the fields that this control plane owns in an object, as fieldsV1; nil if it never applied it.
func (c ControlPlane) OurFields(obj *unstructured.Unstructured) map[string]any {
	fields, _ := c.ownEntry(obj)["fieldsV1"].(map[string]any)
	return fields
}

// Outdated returns whether this control plane owns fields of an object under the name that versions without an id used.
func (c ControlPlane) Outdated(obj *unstructured.Unstructured) bool {
	entry := c.ownEntry(obj)
	return entry != nil && entry["manager"] != c.Manager()
}

// ownEntry is the entry of this control plane in an object's managed fields, nil if there is none. One without an id in
// its name is ours if the object does not belong to another control plane.
func (c ControlPlane) ownEntry(obj *unstructured.Unstructured) map[string]any {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	var older map[string]any
	for _, e := range entries {
		entry, ok := e.(map[string]any)
		switch {
		case !ok || !isApplied(entry):
		case entry["manager"] == c.Manager():
			return entry
		case entry["manager"] == FieldManager && c.Other(obj) == "":
			older = entry
		}
	}
	return older
}

// isApplied returns whether an entry of the managed fields is of a server-side apply to the object itself.
func isApplied(entry map[string]any) bool {
	subresource, _ := entry["subresource"].(string)
	return entry["operation"] == string(metav1.ManagedFieldsOperationApply) && subresource == ""
}

// workOf returns the Work of this control plane an object says it belongs to; empty if it says none, or another control
// plane's.
func (c ControlPlane) WorkOf(obj *unstructured.Unstructured) types.NamespacedName {
	if c.Other(obj) != "" {
		return types.NamespacedName{}
	}
	annotations := obj.GetAnnotations()
	return types.NamespacedName{
		Namespace: annotations[workv1alpha1.WorkNamespaceAnnotation],
		Name:      annotations[workv1alpha1.WorkNameAnnotation],
	}
}
