package works

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
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

// schedule serves the subresource that writes clusters and status of a binding in one.
func (r kindREST) schedule() native.TableStatusREST {
	return native.TableStatusREST{StatusREST: native.NewStatusREST(r.Store, scheduleStrategy{r.strategy})}
}

// withStatus stores objects with their status, for the loops of this process.
func (r kindREST) withStatus() *registry.Store {
	store, strategy := *r.Store, withStatusStrategy{r.strategy}
	store.CreateStrategy, store.UpdateStrategy, store.ResetFieldsStrategy = strategy, strategy, strategy
	return &store
}

// status serves the subresource.
func (r kindREST) status() native.TableStatusREST {
	return native.TableStatusREST{StatusREST: native.NewStatusREST(r.Store, statusStrategy{r.strategy})}
}
