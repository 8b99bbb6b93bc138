package fleettest

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flagship-k8s/flagship/api"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

// Memory is a control plane in memory, for tests of reconcilers. It counts what is written to it.
type Memory struct {
	Client client.Client
	Writes int
}

// Index adds indexes to a cache.
type Index func(context.Context, client.FieldIndexer) error

type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(obj, field, extract)
	return nil
}

// InMemory returns a control plane in memory that has some objects.
func InMemory(t testing.TB, indexes []Index, objects ...client.Object) *Memory {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	m := &Memory{}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&networkingv1alpha1.MultiClusterService{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			m.Writes++
			return c.Create(ctx, obj, o...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			m.Writes++
			return c.Patch(ctx, obj, p, o...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
			m.Writes++
			return c.Delete(ctx, obj, o...)
		},
	})
	for _, add := range indexes {
		if err := add(t.Context(), indexer{builder}); err != nil {
			t.Fatal(err)
		}
	}
	m.Client = builder.Build()
	return m
}
