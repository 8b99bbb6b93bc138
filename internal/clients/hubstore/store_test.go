package hubstore

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configmaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	widgets     = schema.GroupVersionResource{Group: "example.io", Version: "v1", Resource: "widgets"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

	deploymentKind = deployments.GroupVersion().WithKind("Deployment")
	widgetKind     = widgets.GroupVersion().WithKind("Widget")
)

// hub is an API server as far as a store reads it.
type hub struct {
	t        *testing.T
	metadata *metadatafake.FakeMetadataClient
	dynamic  *dynamicfake.FakeDynamicClient
	store    *Store

	mu       sync.Mutex
	lists    map[string]*metav1.APIResourceList
	notified map[string]int
	// panics is how often kinds cannot be read because of a panic.
	panics  int
	metrics *prometheus.Registry
}

// onHub runs a story in a synctest bubble against a started store.
func onHub(t *testing.T, story func(*hub)) {
	t.Helper()
	onPreparedHub(t, func(*hub) {}, story)
}

// onPreparedHub is onHub with something to do before the store starts.
func onPreparedHub(t *testing.T, prepare, story func(*hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		h := &hub{
			t:        t,
			metadata: metadatafake.NewSimpleMetadataClient(scheme),
			dynamic:  dynamicfake.NewSimpleDynamicClient(apiruntime.NewScheme()),
			notified: map[string]int{},
			metrics:  prometheus.NewRegistry(),
			lists: map[string]*metav1.APIResourceList{
				"":                     list("v1", resource("configmaps", "ConfigMap")),
				"apps":                 list("apps/v1", resource("deployments", "Deployment"), resource("deployments/status", "Deployment")),
				"apiextensions.k8s.io": list("apiextensions.k8s.io/v1", resource("customresourcedefinitions", "CustomResourceDefinition")),
			},
		}
		h.store = New(Config{Metadata: h.metadata, Dynamic: h.dynamic, Discover: h.discover, Clock: clock.RealClock{},
			Loop: controlloop.NewSet(h.metrics, clock.RealClock{}).Loop("template")})
		h.store.Subscribe(func(ref Ref) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.notified[ref.String()]++
		})
		prepare(h)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.store.Start(ctx) }()
		if err := h.store.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		story(h)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start returned %v", err)
		}
		synctest.Wait()
	})
}

func (h *hub) discover(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.panics > 0 {
		h.panics--
		panic("an unexpected list of kinds")
	}
	return nil, slices.Collect(maps.Values(h.lists)), nil
}

func (h *hub) serve(group string, l *metav1.APIResourceList) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l == nil {
		delete(h.lists, group)
		return
	}
	h.lists[group] = l
}

// put writes an object's metadata and waits until everybody has seen it.
func (h *hub) put(gvr schema.GroupVersionResource, meta metav1.ObjectMeta) {
	h.t.Helper()
	obj := &metav1.PartialObjectMetadata{ObjectMeta: meta}
	obj.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	client := h.metadata.Resource(gvr).Namespace(meta.Namespace).(metadatafake.MetadataClient)
	_, err := client.CreateFake(obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.UpdateFake(obj, metav1.UpdateOptions{})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

func (h *hub) remove(gvr schema.GroupVersionResource, namespace, name string) {
	h.t.Helper()
	if err := h.metadata.Resource(gvr).Namespace(namespace).Delete(h.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

// news is what subscribers were notified of since the last call.
func (h *hub) news() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	notified := h.notified
	h.notified = map[string]int{}
	return notified
}

func (h *hub) expectNews(reason string, want map[string]int) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.news()); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func version(meta metav1.ObjectMeta, resourceVersion string, generation int64) metav1.ObjectMeta {
	meta.ResourceVersion, meta.Generation = resourceVersion, generation
	return meta
}

func TestADeletionThatAWatchReportsIsCertain(t *testing.T) {
	onHub(t, func(h *hub) {
		h.put(deployments, version(metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}, "1", 1))
		if h.store.Deleted("1") {
			t.Error("an object that is there counts as deleted")
		}
		h.remove(deployments, "shop", "web")
		h.put(deployments, version(metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "2"}, "2", 1))
		if !h.store.Deleted("1") || h.store.Deleted("2") {
			t.Errorf("the object counts as deleted: %v, its successor: %v", h.store.Deleted("1"), h.store.Deleted("2"))
		}
	})
}

func TestSubscribersAreNotifiedOfChangesOnly(t *testing.T) {
	onHub(t, func(h *hub) {
		web := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}
		once := map[string]int{"apps/v1/Deployment shop/web": 1}

		h.put(deployments, version(web, "1", 1))
		h.expectNews("a new object", once)
		h.put(deployments, version(web, "2", 1))
		h.expectNews("a write of status", map[string]int{})
		h.put(deployments, version(web, "3", 2))
		h.expectNews("a write of spec", once)
		web.Labels = map[string]string{"tier": "front"}
		h.put(deployments, version(web, "4", 2))
		h.expectNews("a label", once)
		web.Annotations = map[string]string{"note": "x"}
		h.put(deployments, version(web, "5", 2))
		h.expectNews("an annotation", once)
		web.UID = "2"
		h.put(deployments, version(web, "6", 2))
		h.expectNews("a successor of the same name", once)
		h.remove(deployments, "shop", "web")
		h.expectNews("a deletion", once)

		settings := metav1.ObjectMeta{Namespace: "shop", Name: "settings"}
		h.put(configmaps, version(settings, "7", 0))
		h.put(configmaps, version(settings, "8", 0))
		h.expectNews("any write to a kind without generation", map[string]int{"v1/ConfigMap shop/settings": 2})

		h.put(configmaps, metav1.ObjectMeta{Namespace: "karmada-system", Name: "settings"})
		h.expectNews("an object of a reserved namespace", map[string]int{})
		reader := metav1.ObjectMeta{Namespace: "kube-system", Name: "reader", Annotations: map[string]string{"flagship.io/propagate": "true"}}
		ref := Ref{schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "kube-system", "reader"}
		h.put(configmaps, version(reader, "9", 0))
		h.expectNews("an object of Kubernetes' own namespace", map[string]int{"v1/ConfigMap kube-system/reader": 1})
		if _, ok := h.store.Meta(ref); !ok {
			t.Error("it is not known, although it may leave")
		}
		reader.Annotations = nil
		h.put(configmaps, version(reader, "10", 0))
		h.expectNews("it may leave no longer", map[string]int{"v1/ConfigMap kube-system/reader": 1})
		if _, ok := h.store.Meta(ref); ok {
			t.Error("it is known, although it may not leave")
		}
		h.remove(configmaps, "kube-system", "reader")
		h.expectNews("the deletion of what may have left", map[string]int{"v1/ConfigMap kube-system/reader": 1})
	})
}

func TestALateSubscriberIsNotifiedOfExistingObjects(t *testing.T) {
	onHub(t, func(h *hub) {
		h.put(deployments, metav1.ObjectMeta{Namespace: "shop", Name: "web"})
		h.put(configmaps, metav1.ObjectMeta{Namespace: "shop", Name: "settings"})
		var notified []string
		h.store.Subscribe(func(ref Ref) { notified = append(notified, ref.String()) })
		slices.Sort(notified)
		want := []string{"apps/v1/Deployment shop/web", "v1/ConfigMap shop/settings"}
		if diff := cmp.Diff(want, notified); diff != "" {
			t.Errorf("notified at once (-want +got):\n%s", diff)
		}
	})
}

func TestTouchIsAboutItsKindsOnly(t *testing.T) {
	onHub(t, func(h *hub) {
		h.put(deployments, metav1.ObjectMeta{Namespace: "shop", Name: "web"})
		h.put(configmaps, metav1.ObjectMeta{Namespace: "shop", Name: "settings"})
		h.news()
		h.store.Touch(func(kind schema.GroupVersionKind) bool { return kind.Kind == "Deployment" })
		h.expectNews("a kind that means something else", map[string]int{"apps/v1/Deployment shop/web": 1})
	})
}

func TestReadingFromMemory(t *testing.T) {
	onHub(t, func(h *hub) {
		h.put(deployments, metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Labels: map[string]string{"tier": "front"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
			Annotations:   map[string]string{lastAppliedAnnotation: strings.Repeat("x", 10000), "note": "kept"},
		})
		h.put(deployments, metav1.ObjectMeta{Namespace: "bank", Name: "web"})
		h.put(deployments, metav1.ObjectMeta{Namespace: "kube-system", Name: "web"})

		meta, ok := h.store.Meta(Ref{deploymentKind, "shop", "web"})
		if !ok {
			t.Fatal("the object is not known")
		}
		if len(meta.ManagedFields) > 0 || len(meta.Annotations[lastAppliedAnnotation]) > 30 {
			t.Error("bulk was kept")
		}
		if meta.Annotations["note"] != "kept" || meta.Annotations[lastAppliedAnnotation] == "" {
			t.Error("an annotation was lost")
		}
		if _, ok := h.store.Meta(Ref{schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"}, "shop", "web"}); !ok {
			t.Error("the object is not known by another version of its kind")
		}
		if _, ok := h.store.Meta(Ref{deploymentKind, "kube-system", "web"}); ok {
			t.Error("an excluded object is known")
		}
		for reason, tc := range map[string]struct {
			namespace, selector string
			want                int
		}{
			"everywhere":       {"", "", 2},
			"in one namespace": {"shop", "", 1},
			"by label":         {"", "tier=front", 1},
			"by other label":   {"", "tier=back", 0},
		} {
			selector, err := labels.Parse(tc.selector)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(h.store.List(deploymentKind, tc.namespace, selector)); got != tc.want {
				t.Errorf("%s: %d objects, want %d", reason, got, tc.want)
			}
		}
	})
}

func TestCustomKindsComeAndGo(t *testing.T) {
	onHub(t, func(h *hub) {
		started := time.Now()
		h.put(crds, metav1.ObjectMeta{Name: "widgets.example.io", ResourceVersion: "1"})
		<-time.After(300 * time.Millisecond) // until it is established
		if _, _, ok := h.store.Mapping(widgetKind); ok {
			t.Fatal("a kind is known that is not served")
		}
		h.serve("example.io", list("example.io/v1", resource("widgets", "Widget")))
		for {
			if _, _, ok := h.store.Mapping(widgetKind); ok {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		if took := time.Since(started); took > time.Second {
			t.Errorf("the kind was found after %s", took)
		}
		synctest.Wait()
		h.news()
		h.put(widgets, metav1.ObjectMeta{Namespace: "shop", Name: "w"})
		h.expectNews("an object of the new kind", map[string]int{"example.io/v1/Widget shop/w": 1})

		h.serve("example.io", nil)
		h.remove(crds, "", "widgets.example.io")
		h.news()
		<-time.After(time.Second)
		h.expectNews("objects that went with their kind", map[string]int{"example.io/v1/Widget shop/w": 1})
		if _, ok := h.store.Meta(Ref{widgetKind, "shop", "w"}); ok {
			t.Error("an object of a kind that is gone is known")
		}
		if _, err := h.store.Get(t.Context(), Ref{widgetKind, "shop", "w"}); !apierrors.IsNotFound(err) {
			t.Errorf("reading an object of a kind that is gone: %v, want NotFound", err)
		}
	})
}

func TestKindsThatComeAndGoLeaveNoGoroutines(t *testing.T) {
	onHub(t, func(h *hub) {
		round := func() {
			h.put(crds, metav1.ObjectMeta{Name: "widgets.example.io"})
			h.serve("example.io", list("example.io/v1", resource("widgets", "Widget")))
			<-time.After(time.Second)
			if h.store.watchOf(widgetKind) == nil {
				t.Fatal("the kind is not watched")
			}
			h.serve("example.io", nil)
			h.remove(crds, "", "widgets.example.io")
			<-time.After(time.Second)
			synctest.Wait()
			if h.store.watchOf(widgetKind) != nil {
				t.Fatal("the kind is still watched")
			}
		}
		round()
		before := runtime.NumGoroutine()
		const rounds = 10
		for range rounds {
			round()
		}
		// Goroutines of the runtime and of the test before come and go meanwhile; one that stays in each round is rounds more.
		if after := runtime.NumGoroutine(); after >= before+rounds {
			t.Errorf("%d goroutines after %d more rounds, %d before", after, rounds, before)
		}
	})
}

// busy answers lists of one resource late.
type busy struct {
	metadata.Interface
	resource schema.GroupVersionResource
	by       time.Duration
}

// IsWatchListSemanticsUnSupported says, as the client inside does, that lists are lists.
func (busy) IsWatchListSemanticsUnSupported() bool { return true }

func (b busy) Resource(resource schema.GroupVersionResource) metadata.Getter {
	if resource != b.resource {
		return b.Interface.Resource(resource)
	}
	return busyGetter{b.Interface.Resource(resource), b.by}
}

type busyGetter struct {
	metadata.Getter
	by time.Duration
}

func (b busyGetter) Namespace(string) metadata.ResourceInterface { return b }

func (b busyGetter) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	<-time.After(b.by)
	return b.Getter.List(ctx, options)
}

// TestDefinitionsAreWaitedFor: without them custom resources look as if they needed none, and those that they brought along
// would be removed from members. Any other kind delays the start for a short time only.
func TestDefinitionsAreWaitedFor(t *testing.T) {
	const late = 2 * readyAfter
	for resource, want := range map[schema.GroupVersionResource]time.Duration{crds: late, configmaps: readyAfter} {
		t.Run(resource.Resource, func(t *testing.T) {
			var begin time.Time
			onPreparedHub(t, func(h *hub) {
				begin = time.Now()
				h.store.metadata = busy{h.metadata, resource, late}
			}, func(*hub) {
				if took := time.Since(begin).Round(time.Second); took != want {
					t.Errorf("the store was ready after %v, want %v", took, want)
				}
				<-time.After(late) // an informer that never synced does not end
			})
		})
	}
}

func TestDiscoveryStaysQuietWhenNothingChanges(t *testing.T) {
	onHub(t, func(h *hub) {
		h.put(crds, metav1.ObjectMeta{Name: "never.example.io"})
		<-time.After(2 * time.Minute)
		h.store.definitions.mu.Lock()
		defer h.store.definitions.mu.Unlock()
		if len(h.store.definitions.pending) > 0 {
			t.Error("a definition that is never served is still looked for")
		}
	})
}

func TestUpdateStatusWritesDifferencesOnly(t *testing.T) {
	object := func(status map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"status": status, "spec": map[string]any{"replicas": int64(1)}}}
		u.SetGroupVersionKind(deploymentKind)
		u.SetNamespace("shop")
		u.SetName("web")
		u.SetUID("1")
		return u
	}
	for reason, tc := range map[string]struct {
		before, after map[string]any
		patch         string
	}{
		"equal":           {map[string]any{"replicas": int64(2)}, map[string]any{"replicas": int64(2)}, ""},
		"both empty":      {nil, map[string]any{}, ""},
		"a changed field": {map[string]any{"replicas": int64(2), "x": int64(1)}, map[string]any{"replicas": int64(3), "x": int64(1)}, `{"metadata":{"uid":"1"},"status":{"replicas":3}}`},
		"a removed field": {map[string]any{"replicas": int64(2), "x": int64(1)}, map[string]any{"replicas": int64(2)}, `{"metadata":{"uid":"1"},"status":{"x":null}}`},
		"a first status":  {nil, map[string]any{"replicas": int64(3)}, `{"metadata":{"uid":"1"},"status":{"replicas":3}}`},
	} {
		t.Run(reason, func(t *testing.T) {
			patch, err := statusPatch(object(tc.before), object(tc.after))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.patch, string(patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWriteIsSeenBeforeItsWatchEvent(t *testing.T) {
	onHub(t, func(h *hub) {
		web := Ref{deploymentKind, "shop", "web"}
		h.put(deployments, metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "5", Generation: 1})

		written := &unstructured.Unstructured{Object: map[string]any{}}
		written.SetNamespace("shop")
		written.SetName("web")
		written.SetUID("1")
		written.SetResourceVersion("7")
		written.SetLabels(map[string]string{"claimed": "yes"})
		h.store.cacheWritten(web, written)

		meta, _ := h.store.Meta(web)
		if meta.Labels["claimed"] != "yes" {
			t.Error("the write is not visible")
		}
		h.put(deployments, metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "6", Generation: 1})
		if meta, _ := h.store.Meta(web); meta.Labels["claimed"] != "yes" {
			t.Error("an older event hid the write")
		}
		h.put(deployments, metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "8", Generation: 1})
		if meta, _ := h.store.Meta(web); meta.Labels["claimed"] != "" {
			t.Error("the write hides a newer event")
		}
		cached := func() int {
			return len(h.store.watchOf(deploymentKind).writes.Pending(func(*metav1.PartialObjectMetadata) bool { return true }))
		}
		if cached() > 0 {
			t.Error("a write that came back is still cached")
		}
		h.store.cacheWritten(web, written)
		if cached() > 0 {
			t.Error("a write that had come back already is cached")
		}
	})
}
