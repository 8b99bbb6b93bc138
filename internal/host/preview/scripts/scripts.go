package scripts

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
)

// Layer is the layer of customizations in a view: that of the control plane, until the change has a customization.
type Layer struct {
	// base is that of the control plane; nil if there is none.
	base interpret.Layer
	own  *declarative.Store
}

// Lookup implements interpret.Layer.
func (s *Layer) Lookup(kind schema.GroupVersionKind) *interpret.Operations {
	switch {
	case s.own != nil:
		return s.own.Lookup(kind)
	case s.base != nil:
		return s.base.Lookup(kind)
	}
	return nil
}

// Fingerprint implements interpret.Changeable.
func (s *Layer) Fingerprint(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) string {
	if s.own != nil {
		return s.own.Fingerprint(kind, operation)
	}
	if base, ok := s.base.(interpret.Changeable); ok {
		return base.Fingerprint(kind, operation)
	}
	return ""
}

// New returns a layer that is another one for now; nil is none.
func New(base interpret.Layer) *Layer { return &Layer{base: base} }

// Concerns returns whether a change is one of a customization.
func Concerns(change controlloop.Change) bool {
	_, was := change.Before.(*configv1alpha1.ResourceInterpreterCustomization)
	_, is := change.After.(*configv1alpha1.ResourceInterpreterCustomization)
	return was || is
}

// Update takes the customizations of the view over, and returns the kinds that change. Base is what the view is of; nil if of nothing.
func (s *Layer) Update(ctx context.Context, base, view client.Reader) ([]schema.GroupVersionKind, error) {
	if s.own == nil {
		store := declarative.New()
		if base != nil {
			if _, err := set(ctx, store, base); err != nil {
				return nil, err
			}
		}
		s.own = store
	}
	return set(ctx, s.own, view)
}

// set gives a store the customizations that a reader has, and returns the kinds that change.
func set(ctx context.Context, store *declarative.Store, from client.Reader) ([]schema.GroupVersionKind, error) {
	var list configv1alpha1.ResourceInterpreterCustomizationList
	if err := from.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing customizations: %w", err)
	}
	all := make([]*configv1alpha1.ResourceInterpreterCustomization, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return store.Set(all), nil
}
