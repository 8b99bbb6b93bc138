package endpointslices

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestGroups: the request for a group enqueues its objects, a list that fails is an error, and other requests are reconciled.
func TestGroups(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(backoff.Limiter[reconcile.Request]())
	defer queue.ShutDown()
	var reconciled, listed []types.NamespacedName
	failure := errors.New("no such index")
	g := &groups{
		Reconciler: reconcile.Func(func(_ context.Context, r reconcile.Request) (reconcile.Result, error) {
			reconciled = append(reconciled, r.NamespacedName)
			return reconcile.Result{}, nil
		}),
		list: func(_ context.Context, group types.NamespacedName) ([]types.NamespacedName, error) {
			listed = append(listed, group)
			return []types.NamespacedName{webKey}, failure
		},
	}
	if err := g.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for _, group := range []types.NamespacedName{{}, {Namespace: "shop"}, webKey} {
		if _, err := g.Reconcile(t.Context(), Group(group)); !errors.Is(err, failure) {
			t.Errorf("group %s: the error is %v, want that of the list", group, err)
		}
		if got := listed[len(listed)-1]; got != group {
			t.Errorf("the group that was listed is %s, want %s", got, group)
		}
	}
	if queue.Len() != 1 || len(reconciled) > 0 {
		t.Errorf("%d requests are in the queue, want one; reconciled are %v, want none", queue.Len(), reconciled)
	}
	request, _ := queue.Get()
	if _, err := g.Reconcile(t.Context(), request); err != nil || len(reconciled) != 1 || reconciled[0] != webKey {
		t.Errorf("reconciled are %v (%v), want %s", reconciled, err, webKey)
	}
}

func TestExpired(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	clusters := Clusters{Clock: clock, Grace: func() time.Duration { return time.Minute }}
	for reason, tc := range map[string]struct {
		status  metav1.ConditionStatus
		since   time.Duration
		expired bool
		left    time.Duration
	}{
		"new":            {},
		"ready":          {status: metav1.ConditionTrue, since: time.Hour},
		"not ready":      {status: metav1.ConditionFalse, since: 20 * time.Second, left: 40 * time.Second},
		"unknown":        {status: metav1.ConditionUnknown, since: 59 * time.Second, left: time.Second},
		"at the end":     {status: metav1.ConditionUnknown, since: time.Minute, expired: true},
		"long not ready": {status: metav1.ConditionFalse, since: time.Hour, expired: true},
	} {
		t.Run(reason, func(t *testing.T) {
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			if tc.status != "" {
				cluster.Status.Conditions = []metav1.Condition{{
					Type: clusterv1alpha1.ClusterConditionReady, Status: tc.status, LastTransitionTime: metav1.NewTime(clock.Now().Add(-tc.since)),
				}}
			}
			expired, left := clusters.Expired([]*clusterv1alpha1.Cluster{cluster}, "a")
			if expired != tc.expired || left != tc.left {
				t.Errorf("expired %v, left %s; want %v, %s", expired, left, tc.expired, tc.left)
			}
		})
	}
	if expired, left := clusters.Expired(nil, "a"); expired || left != 0 {
		t.Errorf("a cluster that is not registered: expired %v, left %s", expired, left)
	}
}

// TestWrite: a Work is written only if it differs, not while it is being deleted, and not before its cluster can have Works.
func TestWrite(t *testing.T) {
	memory := fleettest.InMemory(t, nil)
	key := WorkKey("a", "w")
	desired := workv1alpha1.NewWork(key, nil)
	SetManifest(desired, []byte(`{"kind":"ConfigMap"}`), false)
	write := func(existing, desired *workv1alpha1.Work, writes int) {
		t.Helper()
		before := memory.Writes
		if err := Write(t.Context(), memory.Client, existing, desired); err != nil {
			t.Fatal(err)
		}
		if got := memory.Writes - before; got != writes {
			t.Errorf("%d writes, want %d", got, writes)
		}
	}
	stored := func() *workv1alpha1.Work {
		t.Helper()
		return must(hubclient.GetWork(t.Context(), memory.Client, key))
	}
	write(nil, desired, 1)
	write(stored(), stored().DeepCopy(), 0)
	changed := stored().DeepCopy()
	SetManifest(changed, []byte(`{"kind":"Secret"}`), true)
	write(stored(), changed, 1)
	if got := stored(); !*got.Spec.SuspendDispatching || string(got.Spec.Workload.Manifests[0].Raw) != `{"kind":"Secret"}` {
		t.Errorf("the Work is %+v", got.Spec)
	}
	if err := hubclient.DeleteWorks(t.Context(), memory.Client, stored()); err != nil {
		t.Fatal(err)
	}
	changed = stored().DeepCopy()
	SetManifest(changed, []byte(`{}`), false)
	write(stored(), changed, 0)
	before := memory.Writes
	if err := hubclient.DeleteWorks(t.Context(), memory.Client, stored()); err != nil || memory.Writes != before {
		t.Errorf("a Work that is being deleted is deleted again: %v", err)
	}
	missing := fake.NewClientBuilder().WithScheme(memory.Client.Scheme()).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Namespace)
		},
	}).Build()
	if err := Write(t.Context(), missing, nil, workv1alpha1.NewWork(key, nil)); err != nil {
		t.Errorf("without the execution namespace: %v", err)
	}
}

// TestWriteOwn: others' changes during a write are handled, the event of the write is not taken for one.
func TestWriteOwn(t *testing.T) {
	memory := fleettest.InMemory(t, nil)
	var own OwnWrites
	key := WorkKey("a", "w")
	wrote, err := WriteOwn(t.Context(), memory.Client, &own, nil, workv1alpha1.NewWork(key, nil))
	if err != nil || !wrote {
		t.Fatalf("wrote %v, %v", wrote, err)
	}
	existing := must(hubclient.GetWork(t.Context(), memory.Client, key))
	if !own.Observe(existing) {
		t.Error("the event of the own write is taken for one of others")
	}
	if wrote, err := WriteOwn(t.Context(), memory.Client, &own, existing, existing.DeepCopy()); wrote || err != nil {
		t.Errorf("without a difference: wrote %v, %v", wrote, err)
	}
	if result, err := Requeue(reconcile.Result{RequeueAfter: time.Hour}, errors.Join(nil, ErrChangedMeanwhile)); err != nil || result.RequeueAfter != backoff.Conflict {
		t.Errorf("after a conflict: %v, %v", result, err)
	}
	if result, err := Requeue(reconcile.Result{RequeueAfter: time.Hour}, nil); err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("after a write: %v, %v", result, err)
	}
}
