package overlay

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// errUnused is of requests that no loop of a preview makes.
var errUnused = errors.New("a preview makes no such request")

// subresource writes a part of an object.
type subresource struct {
	hub  *Hub
	name string
}

// Status implements client.StatusClient.
func (h *Hub) Status() client.SubResourceWriter { return &subresource{h, "status"} }

// SubResource implements client.SubResourceClientConstructor.
func (h *Hub) SubResource(name string) client.SubResourceClient { return &subresource{h, name} }

// Get implements client.SubResourceReader.
func (*subresource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errUnused
}

// Create implements client.SubResourceWriter.
func (*subresource) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errUnused
}

// Update implements client.SubResourceWriter.
func (s *subresource) Update(ctx context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.hub.change(ctx, obj, s.name, func(client.Object) (client.Object, error) { return clone(obj), nil })
}

// Patch implements client.SubResourceWriter.
func (s *subresource) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.hub.patch(ctx, obj, patch, s.name)
}

// Apply implements client.SubResourceWriter.
func (*subresource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errUnused
}

// Apply implements client.Writer.
func (*Hub) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errUnused
}

// DeleteAllOf implements client.Writer.
func (*Hub) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errUnused
}

// Scheme implements client.Client.
func (h *Hub) Scheme() *runtime.Scheme { return h.scheme }

// RESTMapper implements client.Client. No loop of a preview maps kinds with its client.
func (*Hub) RESTMapper() meta.RESTMapper { return meta.MultiRESTMapper{} }

// GroupVersionKindFor implements client.Client.
func (h *Hub) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(obj, h.scheme)
	if err != nil {
		return kind, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	return kind, nil
}

// IsObjectNamespaced implements client.Client.
func (*Hub) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return false, fmt.Errorf("reading the metadata of %T: %w", obj, err)
	}
	return accessor.GetNamespace() != "", nil
}
