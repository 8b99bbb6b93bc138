package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/api"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// loopClients are the client of the loops, which writes Works and bindings without requests, and one that sends requests.
func loopClients(t *testing.T) (local, requests client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var err error
	if local, err = hub.NewClient(hub.LoopbackConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if requests, err = client.New(hub.LoopbackConfig(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	return local, requests
}

func emptyWork(namespace string) *workv1alpha1.Work {
	manifest := runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"}}`)}
	return &workv1alpha1.Work{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "w", Labels: map[string]string{"a": "1"}, Finalizers: []string{"example.io/held"}},
		Spec:       workv1alpha1.WorkSpec{Workload: workv1alpha1.WorkloadTemplate{Manifests: []workv1alpha1.Manifest{{RawExtension: manifest}}}},
	}
}

// outcome is what a write did: its error, and the object that the client has and that is stored, without what differs with each run.
func outcome(t *testing.T, reader client.Reader, obj client.Object, err error) string {
	t.Helper()
	stored := obj.DeepCopyObject().(client.Object)
	read := reader.Get(t.Context(), client.ObjectKeyFromObject(obj), stored)
	var out strings.Builder
	for _, o := range []client.Object{obj, stored} {
		o = o.DeepCopyObject().(client.Object)
		o.SetNamespace("")
		o.SetUID("")
		o.SetResourceVersion("")
		o.SetCreationTimestamp(metav1.Time{})
		if o.GetDeletionTimestamp() != nil {
			o.SetDeletionTimestamp(&metav1.Time{})
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(data, '\n'))
	}
	fmt.Fprintf(&out, "%v %v %v", apierrors.ReasonForError(err), err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err), apierrors.ReasonForError(read))
	return out.String()
}

// steps are writes in their order, each of the object that the ones before left.
var steps = []struct {
	name string
	do   func(context.Context, client.Client, *workv1alpha1.Work) error
}{
	{"create", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error { return c.Create(ctx, w) }},
	{"create again", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return c.Create(ctx, emptyWork(w.Namespace))
	}},
	{"update", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		w.Spec.SuspendDispatching = new(true)
		w.Status.Conditions = []metav1.Condition{{Type: "Ignored"}}
		return c.Update(ctx, w)
	}},
	{"update an older version", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		old := w.DeepCopy()
		old.ResourceVersion = "1"
		return c.Update(ctx, old)
	}},
	{"update status", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		w.Labels["a"] = "ignored"
		w.Status.Conditions = []metav1.Condition{{Type: "Applied", Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.Unix(1_700_000_000, 5)}}
		return c.Status().Update(ctx, w)
	}},
	{"update status to what is invalid", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		bad := w.DeepCopy()
		bad.Status.Conditions[0].Type = ""
		return c.Status().Update(ctx, bad)
	}},
	{"no change", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error { return c.Update(ctx, w) }},
	{"merge patch", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return c.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"b":"2"}},"status":null}`)))
	}},
	{"merge patch of the status", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return c.Status().Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null},"status":{"conditions":null}}`)))
	}},
	{"JSON patch", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return c.Patch(ctx, w, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/labels/b","value":"2"},{"op":"remove","path":"/metadata/labels/b"}]`)))
	}},
	{"JSON patch whose test fails", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return c.Patch(ctx, w.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/labels/a","value":"9"}]`)))
	}},
	{"a difference", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		before := w.DeepCopy()
		w.Labels["c"] = "3"
		_, err := hubclient.Patch(ctx, c, before, w)
		return err
	}},
	{"a difference from an older version", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		before := w.DeepCopy()
		before.ResourceVersion = "1"
		before.Labels["a"] = "was different"
		after := before.DeepCopy()
		after.Labels["d"] = "4"
		_, err := hubclient.Patch(ctx, c, before, after)
		*w = *after
		return err
	}},
	{"a difference from before the status changed", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		before := w.DeepCopy()
		w.Status.Conditions = []metav1.Condition{{Type: "Applied", Status: metav1.ConditionFalse, Reason: "Later", LastTransitionTime: metav1.Unix(1_700_000_000, 5)}}
		if err := c.Status().Update(ctx, w); err != nil {
			return err
		}
		after := before.DeepCopy()
		after.Labels["g"] = "7"
		if _, err := hubclient.Patch(ctx, c, before, after, client.FieldOwner("me")); err != nil {
			return err
		}
		*w = *after
		if len(w.Status.Conditions) != 1 || w.Status.Conditions[0].Reason != "Later" || w.Labels["g"] != "7" {
			return fmt.Errorf("stored is %v, %v", w.Labels, w.Status)
		}
		return nil
	}},
	{"a locked difference from an older version", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		before := w.DeepCopy()
		before.ResourceVersion = "1"
		after := before.DeepCopy()
		after.Labels["e"] = "5"
		_, err := hubclient.PatchLocked(ctx, c, before, after)
		return err
	}},
	{"dry run", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		changed := w.DeepCopy()
		changed.Labels["f"] = "6"
		return c.Update(ctx, changed, client.DryRunAll)
	}},
	{"an object with managed fields", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		applied := client.RawPatch(types.ApplyPatchType, []byte(`{"apiVersion":"work.karmada.io/v1alpha1","kind":"Work","spec":{"preserveResourcesOnDeletion":true}}`))
		if err := c.Patch(ctx, w, applied, client.FieldOwner("me")); err != nil {
			return err
		}
		w.Spec.PreserveResourcesOnDeletion = new(false)
		if err := c.Update(ctx, w); err != nil {
			return err
		}
		if len(w.ManagedFields) != 3 { // before-first-apply, me, and the client
			return fmt.Errorf("%d managers", len(w.ManagedFields))
		}
		w.ManagedFields = nil
		return c.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`)))
	}},
	{"delete with a wrong precondition", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return c.Delete(ctx, w, client.Preconditions{UID: new(types.UID("other"))})
	}},
	{"remove a finalizer from an older version", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		w.Finalizers = append(w.Finalizers, "example.io/other")
		if err := c.Update(ctx, w); err != nil {
			return err
		}
		older := w.DeepCopy()
		w.Labels["g"] = "7"
		if err := c.Update(ctx, w); err != nil {
			return err
		}
		if err := hubclient.RemoveFinalizer(ctx, c, older, "example.io/other"); err != nil {
			return err
		}
		return c.Get(ctx, client.ObjectKeyFromObject(w), w)
	}},
	{"remove a finalizer that is not there", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return hubclient.RemoveFinalizer(ctx, c, w, "example.io/other")
	}},
	{"delete with a finalizer", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error { return c.Delete(ctx, w) }},
	{"remove the finalizer", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return hubclient.RemoveFinalizer(ctx, c, w, "example.io/held")
	}},
	{"delete again", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error { return c.Delete(ctx, w) }},
	{"update what is gone", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error { return c.Update(ctx, w) }},
	{"patch what is gone", func(ctx context.Context, c client.Client, w *workv1alpha1.Work) error {
		return c.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"b":"2"}}}`)))
	}},
}

// TestWritesOfLoopsAreRequests: what a loop writes without a request has the same effect, result and error as the request.
func TestWritesOfLoopsAreRequests(t *testing.T) {
	local, requests := loopClients(t)
	first, second := emptyWork(namespace(t)), emptyWork(namespace(t))
	for _, step := range steps {
		want := outcome(t, requests, second, step.do(t.Context(), requests, second))
		got := outcome(t, requests, first, step.do(t.Context(), local, first))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-request +local):\n%s", step.name, diff)
		}
	}
}

// TestSchedulingByLoops: the subresource schedule takes clusters and status in one write.
func TestSchedulingByLoops(t *testing.T) {
	local, requests := loopClients(t)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(t), Name: "b"}}
	binding.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: binding.Namespace, Name: "c"}
	if err := local.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	binding.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1"}}
	binding.Status.SchedulerObservedGeneration = 2
	if err := local.SubResource(workv1alpha2.SubresourceSchedule).Update(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	read := &workv1alpha2.ResourceBinding{}
	if err := requests.Get(t.Context(), client.ObjectKeyFromObject(binding), read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read, binding); diff != "" || len(read.Spec.Clusters) != 1 || read.Status.SchedulerObservedGeneration != 2 || read.Generation != 2 {
		t.Errorf("scheduled: %+v; (-stored +returned):\n%s", read, diff)
	}
}

// TestWritesOfLoopsAreCounted: the metric of requests has them, and those that are refused with their code.
func TestWritesOfLoopsAreCounted(t *testing.T) {
	local, _ := loopClients(t)
	before, refused := countedWorks(t, "201"), countedWorks(t, "409")
	work := emptyWork(namespace(t))
	if err := local.Create(t.Context(), work.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if err := local.Create(t.Context(), work); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("created twice: %v", err)
	}
	if got := countedWorks(t, "201") - before; got != 1 {
		t.Errorf("%v creations are counted, want 1", got)
	}
	if got := countedWorks(t, "409") - refused; got != 1 {
		t.Errorf("%v refusals are counted, want 1", got)
	}
}

// countedWorks is how many requests to create Works were counted with a code.
func countedWorks(t *testing.T, code string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, family := range families {
		if family.GetName() != "apiserver_request_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if has(metric, "resource", "works") && has(metric, "verb", "POST") && has(metric, "code", code) && has(metric, "scope", "resource") {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func has(metric *dto.Metric, name, value string) bool {
	for _, label := range metric.GetLabel() {
		if label.GetName() == name {
			return label.GetValue() == value
		}
	}
	return false
}

// TestInformersOfLoops: an informer of the loops receives what is there, what changes and what goes, with the kind, and has the objects in the
// memory of the watch cache.
func TestInformersOfLoops(t *testing.T) {
	local, _ := loopClients(t)
	work := emptyWork(namespace(t))
	work.Finalizers = nil
	if err := local.Create(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	informers := [2]toolscache.SharedIndexInformer{}
	done := make(chan struct{}, len(informers))
	for i := range informers {
		informers[i] = hub.NewInformer(nil, &workv1alpha1.Work{}, 0, toolscache.Indexers{})
		go func() {
			informers[i].RunWithContext(ctx)
			done <- struct{}{}
		}()
	}
	defer func() {
		cancel()
		<-done
		<-done
	}()
	read := func(i int) *workv1alpha1.Work {
		obj, exists, err := informers[i].GetStore().GetByKey(work.Namespace + "/" + work.Name)
		if err != nil {
			t.Fatal(err)
		}
		if !exists {
			return nil
		}
		return obj.(*workv1alpha1.Work)
	}
	both := func(what string, holds func(*workv1alpha1.Work) bool) {
		t.Helper()
		eventually(t, func() string {
			if !holds(read(0)) || !holds(read(1)) {
				return "an informer has not seen " + what
			}
			return ""
		})
	}
	both("an object that was there", func(w *workv1alpha1.Work) bool { return w != nil && w.Kind == "Work" && w.UID == work.UID })
	work.Labels["b"] = "2"
	if err := local.Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	both("a change", func(w *workv1alpha1.Work) bool { return w.Labels["b"] == "2" && w.Kind == "Work" })
	if &read(0).Spec.Workload.Manifests[0] != &read(1).Spec.Workload.Manifests[0] {
		t.Error("two informers have the manifests of a Work twice")
	}
	if err := local.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	both("a deletion", func(w *workv1alpha1.Work) bool { return w == nil })
}
