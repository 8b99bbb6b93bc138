package controlplane

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// withDefinitions has a custom resource depend on its definition, besides what it depends on by itself. The definitions of
// exports and imports are in every cluster anyway, and must not go with the last object that somebody propagated.
type withDefinitions struct {
	*interpret.Chained
	carrier *crds.Carrier
}

// Dependencies implements interpret.Shape.
func (w withDefinitions) Dependencies(ctx context.Context, obj *unstructured.Unstructured) ([]interpret.Dependency, error) {
	list, err := w.Chained.Dependencies(ctx, obj)
	if err != nil {
		return nil, err
	}
	if obj.GroupVersionKind().Group == multiclusterv1beta1.GroupName {
		return list, nil
	}
	if definition, ok := w.carrier.Dependency(obj.GroupVersionKind()); ok {
		list = interpret.SortDependencies(append(list, definition))
	}
	return list, nil
}

// admissionLookups answer admission, which is there before the loops are.
type admissionLookups struct {
	carrier    atomic.Pointer[crds.Carrier]
	components atomic.Pointer[components]
}

// instances counts the objects of a kind by cluster.
func (w *admissionLookups) instances(ctx context.Context, group, kind string) (map[string]int, error) {
	carrier := w.carrier.Load()
	if carrier == nil {
		return nil, errStarting
	}
	return carrier.Instances(ctx, group, kind)
}
