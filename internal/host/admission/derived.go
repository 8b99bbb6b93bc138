package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// DerivedName is the name of Derived in the admission chain.
const DerivedName = "FlagshipDerived"

// Derived lets a user create an object under the name of one that the control plane derived: the derived one is deleted first.
type Derived struct {
	// withdraw deletes the object of a name if the control plane derived it.
	withdraw func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) error
}

var _ admission.ValidationInterface = &Derived{}

// NewDerived makes the plugin. Withdraw finds the object in memory. It is a function because the loops have the caches and the client.
func NewDerived(withdraw func(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) error) *Derived {
	return &Derived{withdraw: withdraw}
}

// Handles implements admission.Interface.
func (d *Derived) Handles(operation admission.Operation) bool { return operation == admission.Create }

// Validate deletes the derived object of that name. A dry run deletes nothing, and is refused since the name is taken.
func (d *Derived) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" || a.GetName() == "" || a.IsDryRun() || ofControlPlane(a) {
		return nil
	}
	if err := d.withdraw(ctx, a.GetKind(), a.GetNamespace(), a.GetName()); err != nil {
		return admission.NewForbidden(a, fmt.Errorf("the control plane derived an object of this name, and cannot withdraw it: %w", err))
	}
	return nil
}
