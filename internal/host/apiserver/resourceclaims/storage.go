package resourceclaims

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// builder makes the stores of all kinds.
type builder struct {
	scheme  *runtime.Scheme
	options generic.RESTOptionsGetter
	made    map[string]rest.Storage
}

func newStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (map[string]rest.Storage, error) {
	b := builder{scheme, options, map[string]rest.Storage{}}
	claims := registry.Store{
		NewFunc:                   func() runtime.Object { return &v1alpha2.ResourceClaim{} },
		NewListFunc:               func() runtime.Object { return &v1alpha2.ResourceClaimList{} },
		DefaultQualifiedResource:  v1alpha2.Resource(v1alpha2.ResourcePluralResourceClaim),
		SingularQualifiedResource: v1alpha2.Resource("resourceclaim"),
		TableConvertor:            claimTable(),
	}
	templates := registry.Store{
		NewFunc:                   func() runtime.Object { return &v1alpha2.ResourceClaimTemplate{} },
		NewListFunc:               func() runtime.Object { return &v1alpha2.ResourceClaimTemplateList{} },
		DefaultQualifiedResource:  v1alpha2.Resource(v1alpha2.ResourcePluralResourceClaimTemplate),
		SingularQualifiedResource: v1alpha2.Resource("resourceclaimtemplate"),
		TableConvertor:            templateTable(),
	}
	classes := registry.Store{
		NewFunc:                   func() runtime.Object { return &v1alpha2.ResourceClass{} },
		NewListFunc:               func() runtime.Object { return &v1alpha2.ResourceClassList{} },
		DefaultQualifiedResource:  v1alpha2.Resource(v1alpha2.ResourcePluralResourceClass),
		SingularQualifiedResource: v1alpha2.Resource("resourceclass"),
		TableConvertor:            classTable(),
	}
	schedulings := registry.Store{
		NewFunc:                   func() runtime.Object { return &v1alpha2.PodSchedulingContext{} },
		NewListFunc:               func() runtime.Object { return &v1alpha2.PodSchedulingContextList{} },
		DefaultQualifiedResource:  v1alpha2.Resource(v1alpha2.ResourcePluralPodSchedulingContext),
		SingularQualifiedResource: v1alpha2.Resource("podschedulingcontext"),
		TableConvertor:            schedulingTable(),
	}
	for _, add := range []func() error{
		func() error { return add(b, &claims, claimRules()) },
		func() error { return add(b, &templates, templateRules()) },
		func() error { return add(b, &classes, classRules()) },
		func() error { return add(b, &schedulings, schedulingRules()) },
	} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	addStatus(b, claims, claimStatusRules())
	addStatus(b, schedulings, schedulingStatusRules())
	return b.made, nil
}

func add[T runtime.Object](b builder, store *registry.Store, rules rules[T]) error {
	strategy := strategy[T]{b.scheme, names.SimpleNameGenerator, rules}
	store.CreateStrategy, store.UpdateStrategy, store.DeleteStrategy = strategy, strategy, strategy
	store.ResetFieldsStrategy = strategy
	// The answer to a deletion has what was there last.
	store.ReturnDeletedObject = true
	resource := store.DefaultQualifiedResource.Resource
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: b.options}); err != nil {
		return fmt.Errorf("building storage of %s: %w", resource, err)
	}
	b.made[resource] = store
	return nil
}

func addStatus[T runtime.Object](b builder, store registry.Store, rules rules[T]) {
	b.made[store.DefaultQualifiedResource.Resource+"/status"] = native.NewStatusREST(&store, strategy[T]{b.scheme, names.SimpleNameGenerator, rules})
}
