package controlplane

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/features/resourceclaims"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/pipeline/render"
)

// translate makes of an object what a cluster expects: claims of the old model become those of today's, and whatever the
// cluster serves in other versions only is written in one of them.
func (h *components) translate(ctx context.Context, obj *unstructured.Unstructured, cluster *clusterv1alpha1.Cluster) (*unstructured.Unstructured, error) {
	obj, err := resourceclaims.Translate(ctx, obj, cluster)
	if err != nil {
		return nil, err
	}
	obj, err = h.definitions.Translate(ctx, obj, cluster)
	if _, again := errors.AsType[*crds.ConversionError](err); again {
		return nil, render.Transient(err)
	}
	return obj, err
}

// retranslated lists the kinds for which translate may answer differently after a change of a cluster.
func (h *components) retranslated(before, after *clusterv1alpha1.Cluster) []schema.GroupVersionKind {
	return append(resourceclaims.Changed(before, after), h.definitions.Retranslated(before, after)...)
}

// becomes lists the kinds that translate may make of a kind.
func (h *components) becomes(ctx context.Context, kind schema.GroupVersionKind) []schema.GroupVersionKind {
	return append(resourceclaims.Counterparts(kind), h.definitions.Alternatives(ctx, kind)...)
}

// onDefinition has notify called with the kinds of every definition that comes, changes or goes: what becomes says of them
// may be another answer.
func (h *components) onDefinition(notify func(interpret.Kinds)) {
	h.templates.Subscribe(func(ref hubstore.Ref) {
		if crds.IsDefinition(ref.GroupVersionKind) {
			notify(h.definitions.Defines(ref.Name))
		}
	})
}

// definitionsChange has objects rendered again whose definition may express them in other versions than before.
func (h *components) definitionsChange() {
	h.templates.Subscribe(func(ref hubstore.Ref) {
		if crds.IsDefinition(ref.GroupVersionKind) {
			h.changes.Publish(h.definitions.Redefined(ref.Name))
		}
	})
}
