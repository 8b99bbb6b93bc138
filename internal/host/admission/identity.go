package admission

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flagship-k8s/flagship/api"
)

// stampID gives an object its permanent id when it is created. Only the control plane brings one along: with the id of
// another object, a user's would pass for that object. A writer that leaves the id out of an update, as whoever replaces an
// object from a file does, does not mean to take it away.
func stampID(kind schema.GroupKind, object, old subject, trusted bool, newID func() string) {
	label, ok := api.PermanentIDLabel(kind)
	if !ok || object.GetLabels()[label] != "" && (old != nil || trusted) {
		return
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, label)
	if old != nil {
		labels[label] = old.GetLabels()[label]
	}
	if labels[label] == "" {
		labels[label] = newID()
	}
	object.SetLabels(labels)
}

// guard gives an object that releases what it claimed before it goes the finalizer that makes it wait. One
// that is on its way out keeps what it has: whoever takes the finalizer away then has released everything.
func guard(kind schema.GroupKind, object subject) {
	finalizer, ok := api.ReleaseFinalizer(kind)
	if !ok || object.GetDeletionTimestamp() != nil || slices.Contains(object.GetFinalizers(), finalizer) {
		return
	}
	object.SetFinalizers(append(object.GetFinalizers(), finalizer))
}

func validateID(kind schema.GroupKind, object, old subject) field.ErrorList {
	if old == nil {
		return nil
	}
	return api.ValidatePermanentID(kind, object, old)
}
