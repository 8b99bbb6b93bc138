package works

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// kindREST serves a kind.
type kindREST struct {
	*registry.Store
	kind     kind
	strategy specStrategy
}

var (
	_ rest.CategoriesProvider   = kindREST{}
	_ rest.ShortNamesProvider   = kindREST{}
	_ rest.SingularNameProvider = kindREST{}
)

// storage makes what serves the kind.
func (k kind) storage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (kindREST, error) {
	strategy, err := newStrategy(scheme, k)
	if err != nil {
		return kindREST{}, err
	}
	columns, err := tableconvertor.New(k.columns)
	if err != nil {
		return kindREST{}, fmt.Errorf("reading the columns of %s: %w", k.resource(), err)
	}
	store := &registry.Store{
		NewFunc:                   k.object,
		NewListFunc:               k.list,
		DefaultQualifiedResource:  k.resource(),
		SingularQualifiedResource: k.gv.WithResource(k.names.Singular).GroupResource(),
		CreateStrategy:            strategy,
		UpdateStrategy:            strategy,
		DeleteStrategy:            strategy,
		ResetFieldsStrategy:       strategy,
		TableConvertor:            columns,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return kindREST{}, fmt.Errorf("building storage of %s: %w", k.resource(), err)
	}
	return kindREST{store, k, strategy}, nil
}

// Categories make the kind part of "kubectl get karmada-io".
func (r kindREST) Categories() []string { return r.kind.names.Categories }

// ShortNames are what kubectl takes for the resource's name.
func (r kindREST) ShortNames() []string { return r.kind.names.ShortNames }

// status serves the subresource.
func (r kindREST) status() statusREST {
	store := *r.Store
	store.CreateStrategy, store.DeleteStrategy = nil, nil
	store.UpdateStrategy, store.ResetFieldsStrategy = statusStrategy{r.strategy}, statusStrategy{r.strategy}
	return statusREST{&store}
}

// statusREST serves a kind's status.
type statusREST struct{ store *registry.Store }

var (
	_ rest.Patcher             = statusREST{}
	_ rest.ResetFieldsStrategy = statusREST{}
)

// New returns the kind of the subresource.
func (r statusREST) New() runtime.Object { return r.store.NewFunc() }

// Destroy does nothing: the store belongs to kindREST.
func (statusREST) Destroy() {}

// Get is what a patch starts from.
func (r statusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update changes the status of an object that exists.
func (r statusREST) Update(ctx context.Context, name string, object rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, object, createValidation, updateValidation, false, options)
}

// GetResetFields says what a write to status leaves alone.
func (r statusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable makes "kubectl get --subresource=status" readable.
func (r statusREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}
