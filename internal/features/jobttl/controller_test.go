package jobttl

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

var (
	ended = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	jobs  = schema.GroupResource{Group: "batch", Resource: "jobs"}
)

// oneJob is a store with one Job. It notes what is read of it.
type oneJob struct {
	hubstore.VersionReader
	job       *unstructured.Unstructured
	err       error
	ref       hubstore.Ref
	notBefore string
}

func (o *oneJob) Read(_ context.Context, ref hubstore.Ref, notBefore string) (*unstructured.Unstructured, error) {
	o.ref, o.notBefore = ref, notBefore
	return o.job, o.err
}

// job is Job shop/once with uid u, version 7 and a time to live of one minute.
func job() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"namespace": "shop", "name": "once", "uid": "u", "resourceVersion": "7"},
		"spec":     map[string]any{"ttlSecondsAfterFinished": int64(60)},
	}}
}

// binding is that of the Job, which m1 and m2 run and have ended.
func binding() *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "once-job"}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "once", UID: "u", ResourceVersion: "5"}
	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1"}, {Name: "m2"}}
	endedIn(b, "m1", "m2")
	return b
}

func endedIn(b *workv1alpha2.ResourceBinding, clusters ...string) {
	b.Annotations = workv1alpha2.SetFinished(b.Annotations, workv1alpha2.Finished{Run: "u", Clusters: clusters, Time: metav1.NewTime(ended)})
}

func TestAJobIsDeletedWhenItsTimeToLiveIsOver(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		binding func(*workv1alpha2.ResourceBinding)
		job     func(*unstructured.Unstructured)
		after   time.Duration // since the end
		read    error
		answer  error // to the deletion
		deletes bool
		again   time.Duration
		err     error
	}{
		"over":                {after: time.Minute, deletes: true},
		"over for long":       {after: 48 * time.Hour, deletes: true},
		"a second before":     {after: 59 * time.Second, again: time.Second},
		"at the end":          {again: time.Minute},
		"no time to live":     {after: time.Hour, job: func(j *unstructured.Unstructured) { unstructured.RemoveNestedField(j.Object, "spec") }},
		"a time to live of 0": {job: func(j *unstructured.Unstructured) { set(j, int64(0)) }, deletes: true},
		"a longer one since":  {after: time.Hour, job: func(j *unstructured.Unstructured) { set(j, int64(7200)) }, again: time.Hour},
		"not a number":        {after: time.Hour, job: func(j *unstructured.Unstructured) { set(j, "60") }},
		"another Job":         {after: time.Hour, job: func(j *unstructured.Unstructured) { j.SetUID("v") }},
		"of a namespace":      {after: time.Hour, job: func(j *unstructured.Unstructured) { j.SetNamespace("other") }},
		"being deleted":       {after: time.Hour, job: func(j *unstructured.Unstructured) { j.SetDeletionTimestamp(&metav1.Time{Time: ended}) }},
		"one cluster runs it": {after: time.Hour, binding: func(b *workv1alpha2.ResourceBinding) { endedIn(b, "m2") }},
		"a dependant's cluster runs it": {after: time.Hour, binding: func(b *workv1alpha2.ResourceBinding) {
			b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Clusters: []workv1alpha2.TargetCluster{{Name: "m1"}, {Name: "m3"}}}}
		}},
		"a dependant's clusters ended it": {after: time.Hour, deletes: true, binding: func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Clusters, b.Spec.RequiredBy = nil, []workv1alpha2.BindingSnapshot{{Clusters: b.Spec.Clusters}}
		}},
		"a cluster that it left":  {after: time.Hour, deletes: true, binding: func(b *workv1alpha2.ResourceBinding) { b.Spec.Clusters = b.Spec.Clusters[:1] }},
		"no record":               {after: time.Hour, binding: func(b *workv1alpha2.ResourceBinding) { b.Annotations = nil }},
		"a record of another Job": {after: time.Hour, binding: func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.UID = "v" }, job: func(j *unstructured.Unstructured) { j.SetUID("v") }},
		"the binding goes": {after: time.Hour, binding: func(b *workv1alpha2.ResourceBinding) {
			b.Finalizers, b.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: ended}
		}},
		"another kind":             {after: time.Hour, binding: func(b *workv1alpha2.ResourceBinding) { b.Spec.Resource.APIVersion = "batch.volcano.sh/v1alpha1" }},
		"the Job is gone":          {after: time.Hour, read: apierrors.NewNotFound(jobs, "once")},
		"it cannot be read":        {after: time.Hour, read: refused, err: refused},
		"gone in the meantime":     {after: time.Hour, deletes: true, answer: apierrors.NewNotFound(jobs, "once")},
		"changed in the meantime":  {after: time.Hour, deletes: true, answer: apierrors.NewConflict(jobs, "once", refused), again: time.Second},
		"the deletion is refused":  {after: time.Hour, deletes: true, answer: refused, err: refused},
		"a clock that is set back": {after: -time.Hour, again: time.Hour + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			b, j := binding(), job()
			if test.binding != nil {
				test.binding(b)
			}
			if test.job != nil {
				test.job(j)
			}
			store, deletions := &oneJob{job: j, err: test.read}, 0
			c := &cleaner{Deps{Templates: store, Clock: clocktesting.NewFakePassiveClock(ended.Add(test.after)), Client: clientOf(t, b, func(obj client.Object, o client.DeleteOptions) error {
				deletions++
				expectDeletion(t, obj, o)
				return test.answer
			})}}
			result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b)})
			if !errors.Is(err, test.err) || result.RequeueAfter != test.again || deletions > 1 || (deletions == 1) != test.deletes {
				t.Errorf("%d deletions, again after %s, error %v", deletions, result.RequeueAfter, err)
			}
			if test.deletes && (store.ref != hubstore.TemplateOf(&b.Spec) || store.notBefore != "5") {
				t.Errorf("it reads %s not before version %s", store.ref, store.notBefore)
			}
		})
	}
}

func set(j *unstructured.Unstructured, ttl any) {
	j.Object["spec"] = map[string]any{"ttlSecondsAfterFinished": ttl}
}

func TestABindingThatIsGoneIsNoError(t *testing.T) {
	c := &cleaner{Deps{Client: clientOf(t, binding(), nil)}}
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "other"}})
	if err != nil || result != (reconcile.Result{}) {
		t.Errorf("%+v, %v", result, err)
	}
}

// clientOf is a control plane with one binding; deleted answers deletions.
func clientOf(t *testing.T, b *workv1alpha2.ResourceBinding, deleted func(client.Object, client.DeleteOptions) error) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(b).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
			all := client.DeleteOptions{}
			return deleted(obj, *all.ApplyOptions(options))
		},
	}).Build()
}

// expectDeletion: only the Job that was read is deleted, in the version that was read, and its pods do not stay.
func expectDeletion(t *testing.T, obj client.Object, o client.DeleteOptions) {
	t.Helper()
	kind := obj.GetObjectKind().GroupVersionKind()
	if kind != (schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}) || obj.GetNamespace() != "shop" || obj.GetName() != "once" {
		t.Errorf("it deletes %s %s/%s", kind, obj.GetNamespace(), obj.GetName())
	}
	p := o.Preconditions
	if p == nil || p.UID == nil || *p.UID != "u" || p.ResourceVersion == nil || *p.ResourceVersion != "7" {
		t.Errorf("the preconditions are %+v", p)
	}
	if o.PropagationPolicy == nil || *o.PropagationPolicy != metav1.DeletePropagationBackground {
		t.Errorf("the propagation is %v", o.PropagationPolicy)
	}
}

func TestWhichChangesAreFollowed(t *testing.T) {
	old := func(edit func(*workv1alpha2.ResourceBinding)) *workv1alpha2.ResourceBinding {
		b := binding()
		edit(b)
		return b
	}
	for name, test := range map[string]struct {
		old, now *workv1alpha2.ResourceBinding
		want     bool
	}{
		"nothing":           {binding(), binding(), false},
		"the first record":  {old(func(b *workv1alpha2.ResourceBinding) { b.Annotations = nil }), binding(), true},
		"another cluster":   {old(func(b *workv1alpha2.ResourceBinding) { endedIn(b, "m1") }), binding(), true},
		"the Job":           {old(func(b *workv1alpha2.ResourceBinding) { b.Generation = 7 }), binding(), true},
		"the status":        {old(func(b *workv1alpha2.ResourceBinding) { b.Status.SchedulerObservedGeneration = 7 }), binding(), false},
		"the record is off": {binding(), old(func(b *workv1alpha2.ResourceBinding) { b.Annotations = nil }), false},
		"another kind":      {binding(), old(func(b *workv1alpha2.ResourceBinding) { b.Generation, b.Spec.Resource.Kind = 7, "CronJob" }), false},
	} {
		if got := ends().Update(event.UpdateEvent{ObjectOld: test.old, ObjectNew: test.now}); got != test.want {
			t.Errorf("%s: followed %v, want %v", name, got, test.want)
		}
	}
	if !ends().Create(event.CreateEvent{Object: binding()}) || ends().Delete(event.DeleteEvent{Object: binding()}) {
		t.Error("a binding at the start is not followed, or one that is gone is")
	}
}
