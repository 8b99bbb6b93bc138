package namespaces

import (
	"context"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fakeHub is an API server with namespaces, clusters and Works, which counts writes.
type fakeHub struct {
	t         *testing.T
	client    client.Client
	templates fakeTemplates
	writes    []string
	events    []string
}

func newHub(t *testing.T, objects ...client.Object) *fakeHub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{policyv1alpha1.AddToScheme, workv1alpha1.AddToScheme, clusterv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	h := &fakeHub{t: t, templates: fakeTemplates{objects: map[hubstore.Ref]*unstructured.Unstructured{}}}
	note := func(verb string, obj client.Object) {
		kind := "Cluster"
		if _, ok := obj.(*workv1alpha1.Work); ok {
			kind = "Work"
		}
		h.writes = append(h.writes, verb+" "+kind+" "+obj.GetName())
	}
	h.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&workv1alpha1.Work{}).
		WithIndex(&workv1alpha1.Work{}, indexNamespace, carriedNamespace).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				note("create", obj)
				obj.SetUID(types.UID("uid-of-" + obj.GetName()))
				return c.Create(ctx, obj, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				note("patch", obj)
				return c.Patch(ctx, obj, patch, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				note("delete", obj)
				return c.Delete(ctx, obj, opts...)
			},
		}).Build()
	return h
}

// expectWrites compares what was written since the last call.
func (h *fakeHub) expectWrites(reason string, want ...string) {
	h.t.Helper()
	if !slices.Equal(h.writes, want) {
		h.t.Errorf("%s: writes %q, want %q", reason, h.writes, want)
	}
	h.writes = nil
}

func (h *fakeHub) create(objects ...client.Object) {
	h.t.Helper()
	for _, obj := range objects {
		if err := h.client.Create(h.t.Context(), obj); err != nil {
			h.t.Fatal(err)
		}
	}
	h.writes = nil
}

// namespace adds a namespace to the control plane.
func (h *fakeHub) namespace(name Namespace) {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"finalizers": []any{"kubernetes"}}}}
	obj.SetGroupVersionKind(namespaceKind)
	obj.SetName(string(name))
	obj.SetUID(types.UID("uid-of-" + name))
	h.templates.objects[name.ref()] = obj
}

type fakeTemplates struct {
	objects map[hubstore.Ref]*unstructured.Unstructured
}

var _ Templates = fakeTemplates{}

func (fakeTemplates) Subscribe(func(hubstore.Ref)) {}

func (fakeTemplates) WaitForSync(context.Context) error { return nil }

func (f fakeTemplates) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	obj, ok := f.objects[ref]
	if !ok {
		return nil, false
	}
	return meta.AsPartialObjectMetadata(obj.DeepCopy()), true
}

func (f fakeTemplates) List(schema.GroupVersionKind, string, labels.Selector) []*metav1.PartialObjectMetadata {
	var found []*metav1.PartialObjectMetadata
	for _, obj := range f.objects {
		found = append(found, meta.AsPartialObjectMetadata(obj.DeepCopy()))
	}
	return found
}

func (f fakeTemplates) Get(_ context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	obj, ok := f.objects[ref]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: ref.GroupVersionKind.Kind}, ref.Name)
	}
	return obj.DeepCopy(), nil
}

// change edits a namespace as a user does.
func (f fakeTemplates) change(ref hubstore.Ref, edit func(*unstructured.Unstructured)) {
	edit(f.objects[ref])
}
