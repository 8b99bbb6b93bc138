package render

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

const nginx = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  namespace: default
  uid: template-uid
  generation: 3
  resourceVersion: "77"
  labels: {app: nginx, propagationpolicy.karmada.io/permanent-id: policy-id}
  annotations: {note: "keep me"}
  finalizers: [some/finalizer]
  managedFields: [{manager: kubectl}]
spec:
  replicas: 5
  template: {spec: {containers: [{name: nginx, image: "nginx:1.27"}]}}
status: {readyReplicas: 5}
`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	converted, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(converted); err != nil {
		t.Fatal(err)
	}
	return obj
}

// replicasOnly stands in for the interpreter: it supports spec.replicas and server-set metadata.
type replicasOnly struct{}

func (replicasOnly) Revise(_ context.Context, obj *unstructured.Unstructured, replicas int32) (*unstructured.Unstructured, error) {
	revised := obj.DeepCopy()
	return revised, unstructured.SetNestedField(revised.Object, int64(replicas), "spec", "replicas")
}

func (replicasOnly) Prune(obj, _ *unstructured.Unstructured) {
	delete(obj.Object, "status")
	metadata := obj.Object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "generation", "resourceVersion", "finalizers", "managedFields"} {
		delete(metadata, field)
	}
	ports, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", "ports")
	list, _ := ports.([]any)
	for _, port := range list {
		delete(port.(map[string]any), "nodePort")
	}
}

func targets(names ...string) []workv1alpha2.TargetCluster {
	out := make([]workv1alpha2.TargetCluster, 0, len(names))
	for i, name := range names {
		out = append(out, workv1alpha2.TargetCluster{Name: name, Replicas: int32(i + 2)})
	}
	return out
}

// nginxBinding is scheduled to the named clusters, with 2, 3, ... replicas.
func nginxBinding(clusters ...string) *workv1alpha2.ResourceBinding {
	binding := &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "nginx-deployment", UID: "binding-uid", Generation: 2,
			Labels:     map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "binding-id"},
			Finalizers: []string{"other/finalizer", workv1alpha2.ResourceBindingFinalizer},
		},
		Spec: workv1alpha2.ResourceBindingSpec{
			Resource: workv1alpha2.ObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Namespace: "default", Name: "nginx", UID: "template-uid"},
			Clusters: targets(clusters...),
			Placement: &policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
				ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided}},
		},
		Status: workv1alpha2.ResourceBindingStatus{SchedulerObservedGeneration: 2},
	}
	for _, t := range binding.Spec.Clusters {
		binding.Spec.Replicas += t.Replicas
	}
	return binding
}

func cluster(name string, labels map[string]string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// stage is a reconciler over an in-memory API that counts writes.
type stage struct {
	t          *testing.T
	client     client.Client
	reconciler *Reconciler
	templates  fakeTemplates

	mu     sync.Mutex
	writes []string
	events []events.Event
	// successes are what is only kept in memory.
	successes []string
	// fail makes a write fail if it returns an error.
	fail func(verb string, obj client.Object) error
}

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clusterv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, workv1alpha1.AddToScheme, workv1alpha2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

type builderIndexer struct{ *fake.ClientBuilder }

func (b builderIndexer) IndexField(_ context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	b.WithIndex(obj, field, extract)
	return nil
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	s := &stage{t: t, templates: fakeTemplates{}}
	s.put(parse(t, nginx))
	builder := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(objects...).
		WithStatusSubresource(&workv1alpha1.Work{}, &workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{})
	if err := Indexes(t.Context(), builderIndexer{builder}); err != nil {
		t.Fatal(err)
	}
	s.client = interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			if err := s.note("create", obj); err != nil {
				return err
			}
			obj.SetUID(types.UID("uid-of-" + obj.GetNamespace() + "-" + obj.GetName()))
			return c.Create(ctx, obj, o...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, o ...client.PatchOption) error {
			if err := s.note("patch", obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, p, o...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, o ...client.DeleteOption) error {
			if err := s.note("delete", obj); err != nil {
				return err
			}
			return c.Delete(ctx, obj, o...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, o ...client.SubResourcePatchOption) error {
			if err := s.note("patch "+sub, obj); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, p, o...)
		},
	})
	var ids int
	s.reconciler = newReconciler(s.client, s.client, Deps{
		EvictionTimeout: func() time.Duration { return 0 },
		Templates:       s.templates,
		Interpreter:     replicasOnly{},
		Events: events.RecorderFunc(func(e events.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if e.InMemory {
				s.successes = append(s.successes, e.String())
				return
			}
			s.events = append(s.events, e)
		}),
		Clock: clocktesting.NewFakeClock(time.Unix(1000, 0)),
		NewID: func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			ids++
			return "id-" + strconv.Itoa(ids)
		},
	}, newOrphans(nil), true)
	return s
}

type fakeTemplates map[hubstore.Ref]*unstructured.Unstructured

func (f fakeTemplates) Get(_ context.Context, ref hubstore.Ref) (*unstructured.Unstructured, error) {
	if obj, ok := f[ref]; ok {
		return obj.DeepCopy(), nil
	}
	return nil, fmt.Errorf("reading: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "templates"}, ref.Name))
}

func (f fakeTemplates) Read(ctx context.Context, ref hubstore.Ref, _ string) (*unstructured.Unstructured, error) {
	return f.Get(ctx, ref)
}

func (f fakeTemplates) Meta(ref hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	obj, ok := f[ref]
	if !ok {
		return nil, false
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: obj.GetLabels()}}, true
}

func (s *stage) put(obj *unstructured.Unstructured) { s.templates[hubstore.RefOf(obj)] = obj }

func (s *stage) note(verb string, obj client.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, verb+" "+obj.GetNamespace()+"/"+obj.GetName())
	if s.fail != nil {
		return s.fail(verb, obj)
	}
	return nil
}

// reconcile runs one pass over a binding and returns the writes it made.
func (s *stage) reconcile(binding client.Object) ([]string, reconcile.Result, error) {
	s.t.Helper()
	s.writes = nil
	result, err := s.reconciler.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(binding)})
	return s.writes, result, err
}

func (s *stage) mustReconcile(binding client.Object) []string {
	s.t.Helper()
	writes, _, err := s.reconcile(binding)
	if err != nil {
		s.t.Fatalf("reconciling: %v", err)
	}
	return writes
}

// change edits an object in the API without the reconciler having a hand in it.
func (s *stage) change(obj client.Object, edit func()) {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		s.t.Fatal(err)
	}
	edit()
	if err := s.client.Update(s.t.Context(), obj); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) work(cluster string) *workv1alpha1.Work {
	s.t.Helper()
	work := &workv1alpha1.Work{}
	key := client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName("Deployment", "default", "nginx")}
	if err := s.client.Get(s.t.Context(), key, work); err != nil {
		s.t.Fatalf("the Work for %s: %v", cluster, err)
	}
	return work
}

// vanish takes a binding away without its finalizer, and sends the watch event.
func (s *stage) vanish(binding *workv1alpha2.ResourceBinding) {
	s.t.Helper()
	s.change(binding, func() { binding.Finalizers = nil })
	if err := s.client.Delete(s.t.Context(), binding); client.IgnoreNotFound(err) != nil { // it was being deleted before
		s.t.Fatal(err)
	}
	s.reconciler.bindingEvents().Delete(s.t.Context(), ctrlevent.DeleteEvent{Object: binding}, newQueue())
}

// letGo removes the finalizers of a Work, as happens when its objects are gone from the member, and sends the watch event.
func (s *stage) letGo(work *workv1alpha1.Work) {
	s.t.Helper()
	s.change(work, func() { work.Finalizers = nil })
	s.reconciler.writes.Forget(client.ObjectKeyFromObject(work))
}

func manifestOf(t *testing.T, work *workv1alpha1.Work) *unstructured.Unstructured {
	t.Helper()
	if n := len(work.Spec.Workload.Manifests); n != 1 {
		t.Fatalf("the Work has %d manifests, want 1", n)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	return obj
}

// blind is a client whose cache is behind: it shows one old Work, or none.
type blind struct {
	client.Client
	shows *workv1alpha1.Work
}

func (b *blind) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	work, ok := obj.(*workv1alpha1.Work)
	if !ok {
		return b.Client.Get(ctx, key, obj, options...)
	}
	if b.shows == nil || client.ObjectKeyFromObject(b.shows) != key {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "works"}, key.Name)
	}
	b.shows.DeepCopyInto(work)
	return nil
}

func (b *blind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	works, ok := list.(*workv1alpha1.WorkList)
	if !ok {
		return b.Client.List(ctx, list, options...)
	}
	if b.shows != nil {
		works.Items = []workv1alpha1.Work{*b.shows.DeepCopy()}
	}
	return nil
}
