package bindings

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// Writer creates bindings, and changes them as hubclient.Patch does.
type Writer interface {
	Create(ctx context.Context, binding workv1alpha2.Binding) error
	Patch(ctx context.Context, before, after workv1alpha2.Binding) (changed bool, err error)
}

// PlainWriter is a Writer that writes no more than it is given.
type PlainWriter struct{ Client client.Client }

// Create implements Writer.
func (w PlainWriter) Create(ctx context.Context, binding workv1alpha2.Binding) error {
	return w.Client.Create(ctx, binding)
}

// Patch implements Writer.
func (w PlainWriter) Patch(ctx context.Context, before, after workv1alpha2.Binding) (bool, error) {
	return hubclient.Patch(ctx, w.Client, before, after)
}
