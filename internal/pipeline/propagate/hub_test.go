package propagate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/policies"
)

// start is when the hub of a test came up; its objects are an hour older.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fakeHub is an API server with templates, policies and bindings, which counts what is written to it.
type fakeHub struct {
	t         *testing.T
	client    client.Client
	templates *fakeTemplates
	clock     *clocktesting.FakeClock
	loop      *propagator
	policies  *policies.Loop
	queue     *recordingQueue
	writing   sync.Mutex
	writes    []string
	events    []string
}

func newHub(t *testing.T, objects ...client.Object) *fakeHub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		policyv1alpha1.AddToScheme, workv1alpha1.AddToScheme, workv1alpha2.AddToScheme, clusterv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	h := &fakeHub{t: t, clock: clocktesting.NewFakeClock(start), queue: &recordingQueue{}}
	h.templates = &fakeTemplates{objects: map[hubstore.Ref]*unstructured.Unstructured{}, note: h.note}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{}, &workv1alpha1.Work{}).
		WithInterceptorFuncs(h.counting())
	indexer := builderIndexer{builder}
	if err := Indexes(t.Context(), indexer); err != nil {
		t.Fatal(err)
	}
	h.client = builder.Build()
	h.loop = newPropagator(h.client, Deps{
		Templates: h.templates, Interpreter: interpret.Chain(builtin.New(h.clock)), Clock: h.clock,
		Events: events.RecorderFunc(func(e events.Event) { h.events = append(h.events, e.String()) }),
	})
	in := &inbox{}
	in.open(h.queue)
	h.policies = newPolicyLoop(h.loop, in)
	return h
}

func (h *fakeHub) note(verb, what string) {
	h.writing.Lock()
	defer h.writing.Unlock()
	h.writes = append(h.writes, verb+" "+what)
}

func (h *fakeHub) counting() interceptor.Funcs {
	kind := func(obj client.Object) string {
		return strings.TrimPrefix(fmt.Sprintf("%T", obj), "*v1alpha")[2:] + " " + obj.GetName()
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			h.note("create", kind(obj))
			if obj.GetUID() == "" {
				obj.SetUID(types.UID("uid-of-" + obj.GetName()))
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			h.note("patch", kind(obj))
			return c.Patch(ctx, obj, patch, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			h.note("update", kind(obj))
			return c.Update(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			h.note("delete", kind(obj))
			return c.Delete(ctx, obj, opts...)
		},
	}
}

type builderIndexer struct{ *fake.ClientBuilder }

func (b builderIndexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	b.WithIndex(obj, field, extract)
	return nil
}

// reconcile runs the template loop once for ref and returns when to look again.
func (h *fakeHub) reconcile(ref hubstore.Ref) time.Duration {
	h.t.Helper()
	result, err := h.loop.Reconcile(h.t.Context(), ref)
	if err != nil {
		h.t.Fatalf("reconciling %s: %v", ref, err)
	}
	return result.RequeueAfter
}

// policyChanged runs the policy loop and then the template loop until neither finds anything more to do.
func (h *fakeHub) policyChanged(key policy.Key) {
	h.t.Helper()
	for range 10 {
		h.queue.refs = nil
		result, err := h.policies.Reconcile(h.t.Context(), policies.Request{Key: key})
		if err != nil {
			h.t.Fatalf("reconciling %s: %v", key, err)
		}
		for _, ref := range h.queue.refs {
			h.reconcile(ref)
		}
		if result.RequeueAfter == 0 {
			return
		}
	}
	h.t.Errorf("%s does not come to rest", key)
}

// expectWrites compares what was written since the last call.
func (h *fakeHub) expectWrites(reason string, want ...string) {
	h.t.Helper()
	if !slices.Equal(h.writes, want) {
		h.t.Errorf("%s: writes %q, want %q", reason, h.writes, want)
	}
	h.writes = nil
}

func (h *fakeHub) expectEvent(part string) {
	h.t.Helper()
	if !slices.ContainsFunc(h.events, func(e string) bool { return strings.Contains(e, part) }) {
		h.t.Errorf("no event contains %q: %q", part, h.events)
	}
}

// binding reads a binding of namespace shop, or a cluster-scoped one.
func (h *fakeHub) binding(ref hubstore.Ref) workv1alpha2.Binding {
	h.t.Helper()
	binding := workv1alpha2.EmptyBinding(ref.Namespace)
	if err := h.client.Get(h.t.Context(), bindings.Key(ref), binding); err != nil {
		h.t.Fatalf("reading binding: %v", err)
	}
	return binding
}

func (h *fakeHub) bindingGone(ref hubstore.Ref) bool {
	h.t.Helper()
	err := h.client.Get(h.t.Context(), bindings.Key(ref), workv1alpha2.EmptyBinding(ref.Namespace).(client.Object))
	return apierrors.IsNotFound(err)
}

func (h *fakeHub) update(obj client.Object, change func()) {
	h.t.Helper()
	if err := h.client.Get(h.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		h.t.Fatal(err)
	}
	change()
	if err := h.client.Update(h.t.Context(), obj); err != nil {
		h.t.Fatal(err)
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

// recordingQueue records what is added to the queue.
type recordingQueue struct {
	refs []hubstore.Ref
}

func (q *recordingQueue) Add(ref hubstore.Ref)                       { q.refs = append(q.refs, ref) }
func (q *recordingQueue) AddAfter(ref hubstore.Ref, _ time.Duration) { q.Add(ref) }
func (q *recordingQueue) AddRateLimited(ref hubstore.Ref)            { q.Add(ref) }
func (q *recordingQueue) Forget(hubstore.Ref)                        {}
func (q *recordingQueue) NumRequeues(hubstore.Ref) int               { return 0 }
func (q *recordingQueue) Len() int                                   { return len(q.refs) }
func (q *recordingQueue) Get() (hubstore.Ref, bool)                  { return hubstore.Ref{}, true }
func (q *recordingQueue) Done(hubstore.Ref)                          {}
func (q *recordingQueue) ShutDown()                                  {}
func (q *recordingQueue) ShutDownWithDrain()                         {}
func (q *recordingQueue) ShuttingDown() bool                         { return false }

// fakeTemplates is a store whose cache never lags.
type fakeTemplates struct {
	objects map[hubstore.Ref]*unstructured.Unstructured
	// older leads from a version that is served besides the preferred one to that.
	older   map[schema.GroupVersionKind]schema.GroupVersionKind
	version int
	reads   int
	// deleted is an object whose deletion was reported.
	deleted types.UID
	note    func(verb, what string)
	// listed, if set, is what there is once the store has been waited for.
	listed map[hubstore.Ref]*unstructured.Unstructured
	// behind has what the cache still shows of objects that the API server does not have any more.
	behind map[hubstore.Ref]*unstructured.Unstructured
}

var _ Templates = (*fakeTemplates)(nil)

func (f *fakeTemplates) Subscribe(func(hubstore.Ref)) {}

func (f *fakeTemplates) WaitForSync(context.Context) error {
	if f.listed != nil {
		f.objects, f.listed = f.listed, nil
	}
	return nil
}

func (f *fakeTemplates) Canonical(gvk schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	return cmp.Or(f.older[gvk], gvk), true
}

func (f *fakeTemplates) OtherVersions(gvk schema.GroupVersionKind) []string {
	var versions []string
	for older, preferred := range f.older {
		if preferred == gvk {
			versions = append(versions, older.Version)
		}
	}
	return versions
}

func (f *fakeTemplates) Mapping(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool, bool) {
	return schema.GroupVersionResource{}, gvk.Group != "rbac.authorization.k8s.io", true
}

func (f *fakeTemplates) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	obj, ok := f.objects[ref]
	if !ok {
		obj, ok = f.behind[ref]
	}
	if !ok {
		return nil, false
	}
	return meta.AsPartialObjectMetadata(obj.DeepCopy()), true
}

func (f *fakeTemplates) Deleted(uid types.UID) bool { return f.deleted == uid && uid != "" }

func (f *fakeTemplates) List(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*metav1.PartialObjectMetadata {
	var found []*metav1.PartialObjectMetadata
	for ref, obj := range f.objects {
		if ref.GroupVersionKind == gvk && (namespace == "" || namespace == ref.Namespace) && selector.Matches(labels.Set(obj.GetLabels())) {
			found = append(found, meta.AsPartialObjectMetadata(obj.DeepCopy()))
		}
	}
	return found
}

func (f *fakeTemplates) Get(_ context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	f.reads++
	obj, ok := f.objects[ref]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: ref.GroupVersionKind.Kind}, ref.Name)
	}
	return obj.DeepCopy(), nil
}

func (f *fakeTemplates) Read(ctx context.Context, ref hubstore.Ref, _ string) (*unstructured.Unstructured, error) {
	return f.Get(ctx, ref)
}

func (f *fakeTemplates) PatchMetadata(_ context.Context, ref hubstore.Ref, patch []byte) (*unstructured.Unstructured, error) {
	f.note("patch", "template "+ref.Name)
	raw, err := f.objects[ref].MarshalJSON()
	if err != nil {
		return nil, err
	}
	merged, err := jsonpatch.MergePatch(raw, patch)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(merged); err != nil {
		return nil, err
	}
	if ref.GroupVersionKind == deploymentKind && !maps.Equal(obj.GetAnnotations(), f.objects[ref].GetAnnotations()) {
		obj.SetGeneration(obj.GetGeneration() + 1) // as the API server does
	}
	f.put(ref, obj)
	return obj.DeepCopy(), nil
}

func (f *fakeTemplates) put(ref hubstore.Ref, obj *unstructured.Unstructured) {
	f.version++
	obj.SetResourceVersion(strconv.Itoa(f.version))
	f.objects[ref] = obj
}

// change edits a template as a user would; a change of spec counts as a new generation.
func (f *fakeTemplates) change(ref hubstore.Ref, edit func(*unstructured.Unstructured)) {
	obj := f.objects[ref].DeepCopy()
	before, _, _ := unstructured.NestedMap(obj.DeepCopy().Object, "spec")
	annotations := obj.GetAnnotations()
	edit(obj)
	after, _, _ := unstructured.NestedMap(obj.Object, "spec")
	if obj.GetGeneration() > 0 && (fmt.Sprint(before) != fmt.Sprint(after) || !maps.Equal(annotations, obj.GetAnnotations())) {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	f.put(ref, obj)
}

// deployment adds Deployment shop/<name> with two replicas, created an hour before the hub started.
func (h *fakeHub) deployment(name string) hubstore.Ref {
	ref := hubstore.Ref{GroupVersionKind: deploymentKind, Namespace: "shop", Name: name}
	return h.object(ref, map[string]any{
		"replicas": int64(2),
		"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": "c", "image": "nginx", "resources": map[string]any{"requests": map[string]any{"cpu": "100m"}},
		}}}},
	}, 1)
}

func (h *fakeHub) object(ref hubstore.Ref, spec map[string]any, generation int64) hubstore.Ref {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != nil {
		obj.Object["spec"] = spec
	}
	obj.SetGroupVersionKind(ref.GroupVersionKind)
	obj.SetNamespace(ref.Namespace)
	obj.SetName(ref.Name)
	obj.SetUID(types.UID("uid-of-" + ref.Name))
	obj.SetGeneration(generation)
	obj.SetLabels(map[string]string{"tier": "front"})
	obj.SetCreationTimestamp(metav1.NewTime(start.Add(-time.Hour)))
	h.templates.put(ref, obj)
	return ref
}

func merged(into, from map[string]string) map[string]string {
	result := map[string]string{}
	maps.Copy(result, into)
	maps.Copy(result, from)
	return result
}
