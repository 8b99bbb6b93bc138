package fleettest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// Memory is a control plane in memory, for tests of reconcilers. It counts what is written to it.
type Memory struct {
	Client client.Client
	Writes int

	writing sync.Mutex
}

func (m *Memory) wrote() {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.Writes++
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
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	m := &Memory{}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(
		&networkingv1alpha1.MultiClusterService{}, &clusterv1alpha1.Cluster{}, &multiclusterv1beta1.ServiceImport{},
	).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			m.wrote()
			return c.Create(ctx, obj, o...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			m.wrote()
			return c.Patch(ctx, obj, p, o...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
			m.wrote()
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

// Works is a cache with an informer of Works, for the loops that only follow those.
type Works struct {
	cache.Cache
	Informer *controllertest.FakeInformer
}

// NewWorks returns a cache that has synced.
func NewWorks() *Works {
	return &Works{Informer: controllertest.NewFakeInformer(controllertest.Synced)}
}

// GetInformer implements cache.Informers.
func (w *Works) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return w.Informer, nil
}

// EmptyMember is the API server of a member without objects. Watches counts those that are open.
type EmptyMember struct {
	*httptest.Server
	Watches atomic.Int64
}

// StartEmptyMember starts an API server. End it with Stop.
func StartEmptyMember() *EmptyMember {
	m := &EmptyMember{}
	kinds := map[string]string{
		"endpointslices": `"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSliceList"`,
		"serviceexports": `"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceExportList"`,
		"namespaces":     `"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList"`,
		"events":         `"apiVersion":"v1","kind":"EventList"`,
	}
	m.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.Query()
		switch {
		case query.Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Invalid","code":422}`))
		case query.Get("watch") != "":
			m.Watches.Add(1)
			defer m.Watches.Add(-1)
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			_, _ = w.Write([]byte(`{` + kinds[path.Base(r.URL.Path)] + `,"metadata":{"resourceVersion":"1"},"items":[]}`))
		}
	}))
	return m
}

// Cluster returns a Cluster with this API server.
func (m *EmptyMember) Cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u"},
		Spec:       clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, APIEndpoint: m.URL, InsecureSkipTLSVerification: true},
	}
}

// Connect connects a fleet to this API server as the member of that name.
func (m *EmptyMember) Connect(t testing.TB, fleet *member.Fleet, name string) {
	t.Helper()
	if err := fleet.Upsert(t.Context(), m.Cluster(name)); err != nil {
		t.Fatal(err)
	}
}

// ExpectWatches waits until so many watches are open.
func (m *EmptyMember) ExpectWatches(t testing.TB, n int64) {
	t.Helper()
	Eventually(t, "the right number of watches", func() bool { return m.Watches.Load() == n })
}

// LocalFleet returns connections to members on this machine, which get a token. The caller closes them.
func LocalFleet(t testing.TB, config member.Config) *member.Fleet {
	t.Helper()
	config.AllowLoopback = true
	config.Credentials = func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{Token: "token"}, nil
	}
	fleet, err := member.NewFleet(config)
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

// Stop ends the server and its connections.
func (m *EmptyMember) Stop() {
	m.CloseClientConnections()
	m.Close()
}

// Eventually waits for what other goroutines, or processes, bring about. It polls at first often, for the former, and then less, since
// the latter need the processor.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	const first, last = 2 * time.Millisecond, 50 * time.Millisecond
	pause := first
	for deadline := time.After(Patience); !is(); pause = min(2*pause, last) {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(pause):
		}
	}
}
