package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// knowing is an interpreter that finds what the data of a ConfigMap say.
type knowing struct {
	err error
	// meanwhile, if set, is called during the interpretation.
	meanwhile func()
}

func (k knowing) Reflect(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	phase, _, _ := unstructured.NestedString(obj.Object, "data", "phase")
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"phase":%q}`, phase)}, k.err
}

func (k knowing) Finished(_ context.Context, obj *unstructured.Unstructured) (bool, error) {
	phase, _, _ := unstructured.NestedString(obj.Object, "data", "phase")
	return phase == "Done", nil
}

func (k knowing) Health(_ context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	health, _, _ := unstructured.NestedString(obj.Object, "data", "health")
	if k.meanwhile != nil {
		k.meanwhile()
	}
	return workv1alpha2.ResourceHealth(health), k.err
}

// memberServer is a member whose ConfigMaps the test sends through the watch.
func memberServer(events <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") != "true" {
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}`)
			return
		}
		for {
			w.(http.Flusher).Flush()
			select {
			case line := <-events:
				fmt.Fprintln(w, line)
			case <-r.Context().Done():
				return
			}
		}
	}
}

const allKnown = `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"10","annotations":{"k8s.io/initial-events-end":"true"}}}}`

func configMap(version int, health string) string {
	return fmt.Sprintf(`{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","resourceVersion":"%d",`+
		`"labels":{"karmada.io/managed":"true"},"annotations":{"work.karmada.io/namespace":"karmada-es-member1","work.karmada.io/name":"w"}},"data":{"phase":"p%d","health":%q}}}`, version, version, health)
}

// bench is the observation of one Work, with a hub that stores what is written.
type bench struct {
	*Works
	t       *testing.T
	hub     client.Client
	events  chan string // of the member
	news    chan string // published
	reports *workstatus.Writer
	metrics *prometheus.Registry
}

var theWork = types.NamespacedName{Namespace: "karmada-es-member1", Name: "w"}

func newBench(t *testing.T, interpreter StatusReader) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{workv1alpha1.AddToScheme, clusterv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1", UID: "c"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, InsecureSkipTLSVerification: true}}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: theWork.Namespace, Name: theWork.Name, Generation: 1}}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"}}`),
	}}}
	s := &bench{t: t, events: make(chan string), news: make(chan string, 16), metrics: prometheus.NewRegistry()}
	s.hub = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(work, cluster).WithObjects(cluster, work).Build()
	web := httptest.NewTLSServer(memberServer(s.events))
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	fleet, err := member.NewFleet(member.Config{AllowLoopback: true, Loops: controlloop.NewSet(s.metrics, clock.RealClock{}), Credentials: func(context.Context, *clusterv1alpha1.Cluster) (member.Credential, error) {
		return member.Credential{Endpoint: web.URL}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fleet.Close)
	if s.reports, err = workstatus.New(workstatus.Config{Client: s.hub, Live: s.hub}); err != nil {
		t.Fatal(err)
	}
	s.Works, err = newWorks(s.hub, nil, WorkDeps{Fleet: fleet, Report: s.reports, Interpreter: interpreter,
		Events: events.RecorderFunc(func(e events.Event) { s.news <- e.String() })})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	go func() { s.reports.Run(ctx); done <- struct{}{} }()
	go func() { _ = s.queues.Start(ctx); done <- struct{}{} }()
	t.Cleanup(func() { cancel(); <-done; <-done })
	if err := fleet.Upsert(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	return s
}

// applied means what apply says when it is done.
func (s *bench) applied() {
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: theWork.Namespace, Name: theWork.Name}}
	s.reports.Update(work, workstatus.Apply, func(w *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
		meta.SetStatusCondition(&status.Conditions, workv1alpha1.Applied(w.Generation))
	})
}

// wait returns the Work once its status is as it should be.
func (s *bench) wait(what string, is func(workv1alpha1.WorkStatus) bool) {
	s.t.Helper()
	work := &workv1alpha1.Work{}
	for deadline := time.After(3 * time.Minute); ; {
		if err := s.hub.Get(s.t.Context(), theWork, work); err != nil {
			s.t.Fatal(err)
		}
		if is(work.Status) {
			return
		}
		select {
		case <-deadline:
			s.t.Fatalf("never: %s; status is %+v", what, work.Status)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func health(status workv1alpha1.WorkStatus) workv1alpha1.ResourceHealth {
	if len(status.ManifestStatuses) != 1 {
		return ""
	}
	return status.ManifestStatuses[0].Health
}

func TestAWorkReportsWhatBecameOfItsObjects(t *testing.T) {
	s := newBench(t, knowing{})
	s.applied()
	s.events <- configMap(5, "Unhealthy")
	s.events <- allKnown
	s.wait("the object is seen", func(status workv1alpha1.WorkStatus) bool {
		return health(status) == workv1alpha1.ResourceUnhealthy && meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkAvailable) &&
			meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkProgressing)
	})
	s.events <- configMap(11, "Healthy")
	s.wait("its health and status follow", func(status workv1alpha1.WorkStatus) bool {
		return health(status) == workv1alpha1.ResourceHealthy && strings.Contains(string(status.ManifestStatuses[0].Status.Raw), "p11") &&
			status.ManifestStatuses[0].Identifier.Resource == "configmaps" && meta.IsStatusConditionFalse(status.Conditions, workv1alpha1.WorkProgressing)
	})
	s.events <- strings.Replace(configMap(12, "Healthy"), "MODIFIED", "DELETED", 1)
	s.wait("it is missed", func(status workv1alpha1.WorkStatus) bool {
		return meta.IsStatusConditionFalse(status.Conditions, workv1alpha1.WorkAvailable) && health(status) == workv1alpha1.ResourceUnknown
	})
}

func TestNothingIsReportedBeforeApply(t *testing.T) {
	s := newBench(t, knowing{})
	said := make(chan struct{}, 16)
	s.reports.OnUpdate(func(_ types.NamespacedName, by workstatus.Source) {
		if by == workstatus.Observe {
			said <- struct{}{}
		}
	})
	if _, err := s.reconcile(t.Context(), "member1", theWork); err != nil {
		t.Fatal(err)
	}
	select {
	case <-said:
		t.Error("a Work that is about to be applied is reported as missing")
	default:
	}
}

// After a start the first look may come before the connection, and of a Work that is suspended apply says nothing more.
func TestAWorkWaitsForTheConnectionToItsMember(t *testing.T) {
	s := newBench(t, knowing{})
	s.fleet.Remove("member1")
	work, cluster := &workv1alpha1.Work{}, &clusterv1alpha1.Cluster{}
	if err := s.hub.Get(t.Context(), theWork, work); err != nil {
		t.Fatal(err)
	}
	meta.SetStatusCondition(&work.Status.Conditions, workv1alpha1.DispatchingSuspended(work.Generation))
	if err := s.hub.Status().Update(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	if err := s.hub.Get(t.Context(), types.NamespacedName{Name: "member1"}, cluster); err != nil {
		t.Fatal(err)
	}
	var waits *member.UnavailableError
	if _, err := s.reconcile(t.Context(), "member1", theWork); !errors.As(err, &waits) {
		t.Fatalf("without a connection: %v; it would not be retried", err)
	}
	if _, err := s.reconcile(t.Context(), "member2", theWork); !errors.As(err, &waits) {
		t.Fatalf("without a Cluster: %v; it would not be retried", err)
	}
	s.queues.Add("member1", theWork)
	if err := s.fleet.Upsert(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	s.events <- configMap(5, "Healthy")
	s.events <- allKnown
	s.wait("it is seen once there is a connection", func(status workv1alpha1.WorkStatus) bool {
		return health(status) == workv1alpha1.ResourceHealthy
	})
}

func TestALostMemberIsUnknownUntilItIsFound(t *testing.T) {
	s := newBench(t, knowing{})
	go s.revisits.run(t.Context())
	s.applied()
	s.events <- configMap(5, "Healthy")
	s.events <- allKnown
	s.wait("the object is healthy", func(status workv1alpha1.WorkStatus) bool { return health(status) == workv1alpha1.ResourceHealthy })

	before, after := &clusterv1alpha1.Cluster{}, &clusterv1alpha1.Cluster{}
	turn := func(ready metav1.Condition) {
		t.Helper()
		if err := s.hub.Get(t.Context(), types.NamespacedName{Name: "member1"}, before); err != nil {
			t.Fatal(err)
		}
		before.DeepCopyInto(after)
		meta.SetStatusCondition(&after.Status.Conditions, ready)
		if err := s.hub.Status().Update(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		s.clusterChanged(before, after, false)
	}
	turn(clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "no route"))
	s.wait("its state is unknown", func(status workv1alpha1.WorkStatus) bool {
		c := meta.FindStatusCondition(status.Conditions, workv1alpha1.WorkAvailable)
		return health(status) == workv1alpha1.ResourceUnknown && c.Status == metav1.ConditionUnknown && strings.Contains(string(status.ManifestStatuses[0].Status.Raw), "p5")
	})
	turn(clusterv1alpha1.Ready())
	s.wait("it is known again", func(status workv1alpha1.WorkStatus) bool {
		return health(status) == workv1alpha1.ResourceHealthy && meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkAvailable)
	})
}

// What a member had before it was lost must not be said after that it is.
func TestAnOlderObservationDoesNotUndoThatAMemberIsLost(t *testing.T) {
	s := newBench(t, knowing{})
	s.applied()
	s.events <- configMap(5, "Healthy")
	s.events <- allKnown
	s.wait("the object is healthy", func(status workv1alpha1.WorkStatus) bool { return health(status) == workv1alpha1.ResourceHealthy })
	reports, err := workstatus.New(workstatus.Config{Client: s.hub, Live: s.hub})
	if err != nil {
		t.Fatal(err)
	}
	reports.OnUpdate(func(types.NamespacedName, workstatus.Source) { t.Error("it is said how the object is") })
	slow, err := newWorks(s.hub, nil, WorkDeps{Fleet: s.fleet, Report: reports, Interpreter: knowing{meanwhile: func() {
		cluster := &clusterv1alpha1.Cluster{}
		if err := s.hub.Get(t.Context(), types.NamespacedName{Name: "member1"}, cluster); err != nil {
			t.Error(err)
		}
		meta.SetStatusCondition(&cluster.Status.Conditions, clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "no route"))
		if err := s.hub.Status().Update(t.Context(), cluster); err != nil {
			t.Error(err)
		}
	}}, Events: events.RecorderFunc(func(events.Event) {})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slow.reconcile(t.Context(), "member1", theWork); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := s.hub.Get(t.Context(), types.NamespacedName{Name: "member1"}, cluster); err != nil || !isLost(cluster) {
		t.Errorf("the webhook was not called: %v", err)
	}
}

// Another may empty the whole status by hand, while nothing happens in the member.
func TestAStatusThatWasEmptiedIsWrittenAgain(t *testing.T) {
	s := newBench(t, knowing{})
	s.applied()
	s.events <- configMap(5, "Healthy")
	s.events <- allKnown
	s.reports.OnForeignChange(func(types.NamespacedName) { s.applied() }) // as apply does
	whole := func(status workv1alpha1.WorkStatus) bool {
		return health(status) == workv1alpha1.ResourceHealthy && len(status.Conditions) == 5 &&
			meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkApplied) &&
			meta.IsStatusConditionFalse(status.Conditions, workv1alpha1.WorkProgressing)
	}
	s.wait("the status is whole", whole)
	for what, empty := range map[string]func(*workv1alpha1.WorkStatus){
		"all":            func(status *workv1alpha1.WorkStatus) { *status = workv1alpha1.WorkStatus{} },
		"the conditions": func(status *workv1alpha1.WorkStatus) { status.Conditions = nil },
		"one of them": func(status *workv1alpha1.WorkStatus) {
			meta.RemoveStatusCondition(&status.Conditions, workv1alpha1.WorkApplied)
		},
	} {
		if err := s.reports.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var before, after *workv1alpha1.Work
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the writer may write meanwhile
			before = &workv1alpha1.Work{}
			if err := s.hub.Get(t.Context(), theWork, before); err != nil {
				return err
			}
			after = before.DeepCopy()
			empty(&after.Status)
			return s.hub.Status().Update(t.Context(), after)
		})
		if err != nil {
			t.Fatal(err)
		}
		s.reports.Handler().OnUpdate(before, after)
		s.wait(what+" is written again", whole)
	}
}

func TestAReportIsNotWrittenToAWorkOfTheSameName(t *testing.T) {
	first := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{UID: "first"}}
	for uid, want := range map[types.UID]int{"first": 1, "second": 0} {
		status := &workv1alpha1.WorkStatus{}
		about(first, func(_ *workv1alpha1.Work, status *workv1alpha1.WorkStatus) {
			status.ManifestStatuses = manifestsOf(healthy)
		})(&workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{UID: uid}}, status)
		if got := len(status.ManifestStatuses); got != want {
			t.Errorf("the %s has %d statuses, want %d", uid, got, want)
		}
	}
}

func TestAnInterpreterThatFailsIsReported(t *testing.T) {
	s := newBench(t, knowing{err: errors.New("boom")})
	s.applied()
	s.events <- configMap(5, "Healthy")
	s.events <- allKnown
	s.wait("health is unknown, the object is there", func(status workv1alpha1.WorkStatus) bool {
		return health(status) == workv1alpha1.ResourceUnknown && meta.IsStatusConditionTrue(status.Conditions, workv1alpha1.WorkAvailable)
	})
	if first, second := <-s.news, <-s.news; !strings.Contains(first, events.ReflectStatusFailed) || !strings.Contains(second, events.InterpretHealthFailed) {
		t.Errorf("published %q and %q", first, second)
	}
	if again, err := s.reconcile(t.Context(), "member1", theWork); err != nil || again != interpretAgain {
		t.Errorf("it is interpreted again after %s: %v", again, err)
	}
}
