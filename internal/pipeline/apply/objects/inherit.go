package objects

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// inherit makes ours what our predecessors own, so that a field that they set and that is in no manifest any more is removed. Predecessors
// are Karmada, versions of ourselves without an id, and the control plane that the object is taken over from. That one
// loses its fields and the object in one write, so that it does not put its fields back in between. The mark of who released
// it goes.
func (w *Writer) inherit(ctx context.Context, try attempt, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	self := try.Conn.ControlPlane()
	_, released := live.GetLabels()[workv1alpha1.ReleasedByLabel]
	if !ssa.IsManaged(live) && !self.Outdated(live) && !released {
		return live, nil
	}
	heir := live.DeepCopy()
	// What cannot be read is not inherited.
	_ = csaupgrade.UpgradeManagedFields(heir, sets.KeySet(ssa.Predecessors), self.Manager())
	heir.SetManagedFields(ssa.Renamed(heir.GetManagedFields(), ssa.FormerManagers(self, live), self.Manager()))
	other := self.Other(live)
	if other == "" && !released && ssa.SameEntries(heir.GetManagedFields(), live.GetManagedFields()) {
		return live, nil
	}
	if try.Hold.Change {
		return nil, errDispatchingHeld
	}
	operations := []ssa.Operation{
		{Op: "replace", Path: "/metadata/managedFields", Value: heir.GetManagedFields()},
		{Op: "replace", Path: "/metadata/resourceVersion", Value: live.GetResourceVersion()},
	}
	if released {
		operations = append(operations, ssa.Operation{Op: "remove", Path: "/metadata/labels/" + ssa.Pointer(workv1alpha1.ReleasedByLabel)})
	}
	if self.Released(live) { // it is ours again in the same write, so that it is known as ours if this process ends before the next one
		operations = append(operations, ssa.ClaimOperations(self, try.work, live)...)
	}
	if other != "" { // its id is an annotation, so that there are some
		for key, value := range map[string]string{
			workv1alpha1.ControlPlaneAnnotation: self.ID, workv1alpha1.TakenFromAnnotation: ssa.TakenFrom(self, live), workv1alpha1.AdoptedAnnotation: "true",
		} {
			operations = append(operations, ssa.Operation{Op: "add", Path: "/metadata/annotations/" + ssa.Pointer(key), Value: value})
		}
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding the fields of %s: %w", ssa.IdentityOf(live), err)
	}
	inherited, err := try.client.Patch(ctx, try.Object.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: self.Manager()})
	if err != nil {
		return nil, fmt.Errorf("taking over %s: %w", ssa.IdentityOf(live), err)
	}
	return inherited, nil
}
