package native

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// StatusREST serves the subresource status of a kind. It cannot be shown as a table; TableStatusREST can.
type StatusREST struct{ store *registry.Store }

var (
	_ rest.Patcher             = StatusREST{}
	_ rest.ResetFieldsStrategy = StatusREST{}
)

// Strategy governs writes to a subresource.
type Strategy interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// NewStatusREST makes the subresource of what the store serves, with a strategy of its own.
func NewStatusREST(store *registry.Store, strategy Strategy) StatusREST {
	status := *store
	status.CreateStrategy, status.DeleteStrategy = nil, nil
	status.BeginCreate, status.BeginUpdate = nil, nil
	status.UpdateStrategy, status.ResetFieldsStrategy = strategy, strategy
	return StatusREST{&status}
}

// New returns the kind of the subresource.
func (r StatusREST) New() runtime.Object { return r.store.NewFunc() }

// Destroy does nothing: the store belongs to the main resource.
func (StatusREST) Destroy() {}

// Get reads the object; a patch starts from it.
func (r StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update changes the status of an object that exists.
func (r StatusREST) Update(ctx context.Context, name string, object rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, object, createValidation, updateValidation, false, options)
}

// GetResetFields returns the fields that a write to status does not change.
func (r StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// TableStatusREST makes "kubectl get --subresource=status" readable, too.
type TableStatusREST struct{ StatusREST }

// ConvertToTable makes rows like those of the main resource.
func (r TableStatusREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}
