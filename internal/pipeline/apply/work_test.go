package apply

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/results"
)

const (
	mapA = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}, data: {k: v}}`
	mapB = `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}, data: {k: v}}`

	pathA = "/api/v1/namespaces/shop/configmaps/a"
	pathB = "/api/v1/namespaces/shop/configmaps/b"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestANewObjectIsOneRequest(t *testing.T) {
	b := newBench(t, cluster(), work(t, mapA))
	var body string
	b.server.set(func(w http.ResponseWriter, r *http.Request, sent string) {
		body = sent
		accept(w, r, sent)
	})
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests("PATCH " + pathA)
	if !strings.Contains(body, `"resourceVersion":"1"`) || strings.Contains(body, `"uid"`) {
		t.Errorf("an object that exists would be changed: %s", body)
	}
	if c := b.condition(workv1alpha1.WorkApplied); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 1 {
		t.Errorf("Applied is %+v", c)
	}
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests() // nothing is to be done
	if len(b.events) > 0 {
		t.Errorf("success makes events: %q", b.events)
	}
	want := []string{"Normal WorkDispatching Work/w: Work is being dispatched to member clusters.", "Normal SyncSucceed Work/w: 1 manifests are applied"}
	if !slices.Equal(b.successes[:2], want) {
		t.Errorf("success is published as %q, want %q", b.successes, want)
	}
}

// An object may be deleted before the answer to its creation arrives: the watch has shown both then, and sends no further
// event.
func TestAnAnswerThatTheWatchHasOvertakenIsNoProof(t *testing.T) {
	b := newBench(t, cluster(), work(t, mapA))
	conn, _ := b.fleet.Get("member1")
	conn.Hold("test", configMaps)
	b.awaitWatch()
	b.server.set(func(w http.ResponseWriter, r *http.Request, sent string) { // the watch is at 10
		answer := httptest.NewRecorder()
		accept(answer, r, sent)
		_, _ = w.Write([]byte(strings.Replace(answer.Body.String(), `"resourceVersion":"20"`, `"resourceVersion":"7"`, 1)))
	})
	for range 2 {
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests("PATCH " + pathA)
	}
}

func TestAFailureFailsOnlyItself(t *testing.T) {
	tests := map[string]struct {
		reason string
		code   int
		status metav1.StatusReason
		want   string
	}{
		"Error":     {"the member fails", http.StatusInternalServerError, metav1.StatusReasonInternalError, "InternalError"},
		"Busy":      {"the member has too much to do", http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "TooManyRequests"},
		"Invalid":   {"the member does not want it", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "Invalid"},
		"Forbidden": {"we may not", http.StatusForbidden, metav1.StatusReasonForbidden, "Forbidden"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, cluster(), work(t, mapA, mapB))
			b.server.set(func(w http.ResponseWriter, r *http.Request, body string) {
				if r.URL.Path == pathA {
					refuse(w, tc.code, tc.status)
					return
				}
				accept(w, r, body)
			})
			if again, err := b.reconcile(t.Context(), "member1", theWork); err != nil || again == 0 {
				t.Errorf("%s: again after %v, %v, want a pause", tc.reason, again, err)
			}
			b.wantRequests("PATCH "+pathA, "PATCH "+pathB)
			c := b.condition(workv1alpha1.WorkApplied)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "(1/2)") || !strings.Contains(c.Message, "ConfigMap shop/a") || !strings.Contains(c.Message, tc.want) {
				t.Errorf("%s: Applied is %+v", tc.reason, c)
			}
			if len(b.events) != 1 || !strings.Contains(b.events[0], "SyncFailed") {
				t.Errorf("%s: events are %q", tc.reason, b.events)
			}
			b.server.set(accept)
			if err := b.look(); err != nil {
				t.Error(err)
			}
			b.wantRequests("PATCH " + pathA)
			if c := b.condition(workv1alpha1.WorkApplied); c.Status != metav1.ConditionTrue {
				t.Errorf("%s: afterwards Applied is %+v", tc.reason, c)
			}
		})
	}
}

func TestAMissingNamespaceIsNotReported(t *testing.T) {
	b := newBench(t, cluster(), work(t, mapA))
	b.server.set(func(w http.ResponseWriter, _ *http.Request, _ string) {
		send(w, http.StatusNotFound, metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
			Message: `namespaces "shop" not found`, Details: &metav1.StatusDetails{Kind: "namespaces", Name: "shop"}})
	})
	if err := b.look(); err == nil {
		t.Error("it is not tried again soon")
	}
	if c := b.condition(workv1alpha1.WorkApplied); c != nil {
		t.Errorf("reported already: %+v", c)
	}
	b.server.taken()
	b.server.set(accept)
	if err := b.look(); err != nil {
		t.Error(err)
	}
	b.wantRequests("PATCH " + pathA)
}

// holding is a KindPolicy that lets nothing through, as long as it has a reason.
type holding struct {
	objects.NoKindPolicy
	reason string
}

func (h *holding) Hold(context.Context, string, schema.GroupVersionKind) string { return h.reason }

func TestAWorkThatWaitsForItsDefinitionReportsItOnlyWhenItTakesLong(t *testing.T) {
	b := newBench(t, cluster(), work(t, mapA))
	policy := &holding{reason: "its definition is on the way"}
	clock := clocktesting.NewFakeClock(b.clock.Now())
	b.objects.KindPolicy = policy
	b.setClock(clock)
	look := func() {
		t.Helper()
		if again, err := b.reconcile(t.Context(), "member1", theWork); err != nil || again != time.Second {
			t.Fatalf("it is reconciled again after %v, error %v", again, err)
		}
		b.wantRequests()
	}
	look()
	if c := b.condition(workv1alpha1.WorkApplied); c != nil || len(b.events) > 0 {
		t.Errorf("reported already: %+v, %q", c, b.events)
	}
	clock.Step(grace)
	look()
	if c := b.condition(workv1alpha1.WorkApplied); c == nil || c.Status != metav1.ConditionFalse || c.Message != policy.reason || len(b.events) != 1 {
		t.Errorf("Applied is %+v, events %q", c, b.events)
	}
	policy.reason = ""
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests("PATCH " + pathA)
	if c := b.condition(workv1alpha1.WorkApplied); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("Applied is %+v", c)
	}
}

// TestAConditionThatOthersRemovedIsWrittenAgain without a request to the member.
func TestAConditionThatOthersRemovedIsWrittenAgain(t *testing.T) {
	b := newBench(t, cluster(), work(t, mapA))
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests("PATCH " + pathA)
	if c := b.condition(workv1alpha1.WorkApplied); c == nil || c.Status != metav1.ConditionTrue {
		t.Fatalf("Applied is %+v", c)
	}
	for what, change := range map[string]func(*workv1alpha1.WorkStatus){
		"removed": func(status *workv1alpha1.WorkStatus) {
			meta.RemoveStatusCondition(&status.Conditions, workv1alpha1.WorkApplied)
		},
		"changed": func(status *workv1alpha1.WorkStatus) {
			meta.SetStatusCondition(&status.Conditions, workv1alpha1.NotApplied(1, "forged"))
		},
		"emptied": func(status *workv1alpha1.WorkStatus) { *status = workv1alpha1.WorkStatus{} },
	} {
		before, after := b.changeStatus(change)
		queued := b.queued()
		b.reports.Handler().OnUpdate(before, after)
		if n := b.queued() - queued; n != 1 && queued == 0 {
			t.Fatalf("%s: %d Works are queued, want 1", what, n)
		}
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests()
		if c := b.condition(workv1alpha1.WorkApplied); c == nil || c.Status != metav1.ConditionTrue {
			t.Errorf("%s: Applied is %+v", what, c)
		}
	}
}

// TestAConditionThatAnAgentRemovesStaysRemoved: this process does not apply to its cluster.
func TestAConditionThatAnAgentRemovesStaysRemoved(t *testing.T) {
	b := newBench(t, cluster(), work(t, mapA))
	b.fleet.Remove("member1")
	queued := b.queued()
	before, after := b.changeStatus(func(*workv1alpha1.WorkStatus) {})
	meta.SetStatusCondition(&before.Status.Conditions, workv1alpha1.Applied(1))
	b.reports.Handler().OnUpdate(before, after)
	if b.queued() != queued {
		t.Errorf("%d Works are queued, want none", b.queued()-queued)
	}
	if c := b.condition(workv1alpha1.WorkApplied); c != nil {
		t.Errorf("Applied is %+v", c)
	}
}

func TestAKindThatIsNotServedDoesNotBlockTheRest(t *testing.T) {
	b := newBench(t, cluster(), work(t, `{apiVersion: example.io/v1, kind: Foo, metadata: {name: f}}`, mapA))
	if err := b.look(); err == nil {
		t.Error("it is not tried again soon")
	}
	b.wantRequests("PATCH " + pathA)
}

func TestAnObjectThatIsNotOursIsLeftAlone(t *testing.T) {
	b := newBench(t, cluster(), work(t, mapA))
	b.server.set(func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"theirs","resourceVersion":"7"}}`))
			return
		}
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	})
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests("PATCH "+pathA, "GET "+pathA)
	if c := b.condition(workv1alpha1.WorkApplied); c == nil || !strings.Contains(c.Message, "already exists in the cluster member1") {
		t.Errorf("Applied is %+v", c)
	}
}

func TestASuspendedWorkWritesNothing(t *testing.T) {
	w := work(t, mapA)
	yes := true
	w.Spec.SuspendDispatching = &yes
	b := newBench(t, cluster(), w)
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests()
	if c := b.condition(workv1alpha1.WorkDispatching); c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("Dispatching is %+v", c)
	}
}

// A default that the member set is not kept over a start, and is no reason to write afterwards.
func TestADefaultOfTheMemberIsNoReasonToWriteAfterAStart(t *testing.T) {
	b := newBench(t, cluster(), work(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}, data: {k: ""}}`))
	b.server.set(func(w http.ResponseWriter, r *http.Request, sent string) {
		accept(w, r, strings.Replace(sent, `"k":""`, `"k":"default"`, 1))
	})
	if err := b.look(); err != nil {
		t.Fatal(err)
	}
	b.wantRequests("PATCH " + pathA)
	b.objects.Results.Forget(results.Place{Cluster: "member1", Resource: configMaps, Object: types.NamespacedName{Namespace: "shop", Name: "a"}}) // as a start does
	for range 3 {
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests()
	}
}

// TestWhatIsAppliedIsNotWrittenThoughNoWatchShowsIt: as after a start with many members, whose watches take their time.
func TestWhatIsAppliedIsNotWrittenThoughNoWatchShowsIt(t *testing.T) {
	first := newBench(t, cluster(), work(t, mapA))
	var live string
	first.server.set(func(w http.ResponseWriter, r *http.Request, body string) {
		answer := httptest.NewRecorder()
		accept(answer, r, body)
		live = answer.Body.String()
		_, _ = io.WriteString(w, live)
	})
	if err := first.look(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		exists   bool
		requests []string
	}{
		"There": {true, []string{"GET " + pathA}},
		"Gone":  {false, []string{"GET " + pathA, "PATCH " + pathA}},
	} {
		t.Run(name, func(t *testing.T) {
			w := work(t, mapA)
			meta.SetStatusCondition(&w.Status.Conditions, workv1alpha1.Applied(w.Generation))
			b := newBench(t, cluster(), w)
			b.server.watchable = make(chan struct{})
			b.server.set(func(w http.ResponseWriter, r *http.Request, body string) {
				if tc.exists && r.Method == http.MethodGet {
					_, _ = io.WriteString(w, live)
					return
				}
				accept(w, r, body)
			})
			clock := clocktesting.NewFakeClock(b.clock.Now())
			b.setClock(clock)
			for range 2 { // at the start, and when others would be read
				if again, err := b.reconcile(t.Context(), "member1", theWork); err != nil || again != patienceUnchanged {
					t.Fatalf("the Work is reconciled again after %v, error %v", again, err)
				}
				b.wantRequests()
				clock.Step(patienceWithWatch)
			}
			clock.Step(patienceUnchanged)
			if err := b.look(); err != nil {
				t.Fatal(err)
			}
			b.wantRequests(tc.requests...)
		})
	}
}

// deleting returns a Work that is being deleted.
func deleting(t *testing.T, manifests ...string) *workv1alpha1.Work {
	t.Helper()
	w := work(t, manifests...)
	now := metav1.Now()
	w.DeletionTimestamp = &now
	return w
}

// inMember is an object in the member that we applied for a Work, or one that is not ours.
func inMember(name, work string) string {
	marks := fmt.Sprintf(`,"labels":{"karmada.io/managed":"true"},"annotations":{"work.karmada.io/namespace":"karmada-es-member1","work.karmada.io/name":%q},
		"managedFields":[{"manager":%q,"operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}]`, work, ownership.FieldManager)
	if work == "" {
		marks = ""
	}
	return strings.Join(strings.Fields(fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"shop","uid":"u-%s","resourceVersion":"5"%s}}`, name, name, marks)), "")
}

// What was applied before the control plane was killed may be in no manifest and in no status: the watch shows it.
func TestObjectsMissingFromTheStatusAreRemovedToo(t *testing.T) {
	remove := []string{"DELETE " + pathB}
	t.Run("WithTheWork", func(t *testing.T) {
		b := newBench(t, cluster(), deleting(t, mapA))
		b.server.shown = []string{inMember("b", "w")}
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests(remove...)
		if b.exists() {
			t.Error("the Work is still there")
		}
	})
	t.Run("FromAWorkThatHasItNoMore", func(t *testing.T) {
		b := newBench(t, cluster(), work(t, mapA))
		b.server.shown, b.server.watchable = []string{inMember("b", "w"), inMember("c", "other")}, make(chan struct{})
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests("PATCH " + pathA)
		if n := b.queued(); n != 0 {
			t.Fatalf("%d Works are enqueued before the watch showed anything", n)
		}
		close(b.server.watchable)
		b.expectQueued(2) // the Works of which objects appeared
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests(remove...)
	})
	t.Run("FromAWorkThatIsGone", func(t *testing.T) {
		b := newBench(t, cluster(), deleting(t, mapA))
		b.server.shown, b.server.watchable = []string{inMember("b", "w")}, make(chan struct{})
		b.expectPatience()
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests("GET " + pathA)
		if b.exists() {
			t.Fatal("the Work is still there")
		}
		close(b.server.watchable)
		b.expectQueued(1)
		if err := b.look(); err != nil {
			t.Fatal(err)
		}
		b.wantRequests(remove...)
	})
}

// An object that appears although no one here is making it was requested by a request that timed out, or by a control
// plane that was killed.
func TestOnlyAnObjectThatIsNotBeingAppliedEnqueuesItsWork(t *testing.T) {
	b := newBench(t, cluster())
	at := results.Place{Cluster: "member1", Resource: configMaps, Object: types.NamespacedName{Namespace: "shop", Name: "a"}}
	appears := objectcache.Change{Cluster: at.Cluster, Resource: at.Resource, Object: at.Object, Work: theWork, New: true}
	made := b.objects.Results.Expect(at)
	b.memberChanged(appears)
	b.objects.Results.Put(at, results.Entry{Version: "7"})
	made()
	b.memberChanged(appears)
	if n := b.queued(); n != 0 {
		t.Errorf("%d Works are enqueued because of objects that they created", n)
	}
	b.objects.Results.Forget(at)
	b.memberChanged(appears)
	if n := b.queued(); n != 1 {
		t.Errorf("%d Works are enqueued because of an object that is not theirs, want 1", n)
	}
}

func TestDeletion(t *testing.T) {
	mine, theirs, others := inMember("a", "w"), inMember("a", ""), inMember("a", "other")
	const unseen = true
	tests := map[string]struct {
		reason   string
		live     string // empty: not found
		preserve bool
		unseen   bool // the watch does not get to show what there is
		requests []string
		body     string
	}{
		"Ours":            {"it is deleted, and nothing of the same name that came later", mine, false, false, []string{"DELETE " + pathA}, `"preconditions":{"uid":"u-a"}`},
		"Preserved":       {"our marks are taken off", mine, true, false, []string{"PATCH " + pathA}, `"path":"/metadata/labels/karmada.io~1managed"`},
		"Theirs":          {"it was never ours", theirs, false, false, nil, ""},
		"Others":          {"it belongs to another Work", others, false, false, nil, ""},
		"Gone":            {"there is nothing to delete", "", false, false, nil, ""},
		"OursUnseen":      {"the member is requested", mine, false, unseen, []string{"GET " + pathA, "DELETE " + pathA, "GET " + pathA}, `"preconditions":{"uid":"u-a"}`},
		"PreservedUnseen": {"the member is requested", mine, true, unseen, []string{"GET " + pathA, "PATCH " + pathA}, `"path":"/metadata/labels/karmada.io~1managed"`},
		"TheirsUnseen":    {"it turns out not to be ours", theirs, false, unseen, []string{"GET " + pathA}, ""},
		"OthersUnseen":    {"it turns out to be another Work's", others, false, unseen, []string{"GET " + pathA}, ""},
		"GoneUnseen":      {"it turns out not to be there", "", false, unseen, []string{"GET " + pathA}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := deleting(t, mapA)
			w.Spec.PreserveResourcesOnDeletion = &tc.preserve
			b := newBench(t, cluster(), w)
			if tc.unseen {
				b.server.watchable = make(chan struct{})
				b.expectPatience()
			} else if tc.live != "" && tc.live != theirs {
				b.server.shown = []string{tc.live}
			}
			var sent string
			deleted := false
			b.server.set(func(w http.ResponseWriter, r *http.Request, body string) {
				switch {
				case r.Method != http.MethodGet:
					sent, deleted = body, r.Method == http.MethodDelete
					_, _ = w.Write([]byte(mine))
				case tc.live == "", deleted:
					refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
				default:
					_, _ = w.Write([]byte(tc.live))
				}
			})
			if err := b.look(); err != nil {
				t.Fatal(err)
			}
			b.wantRequests(tc.requests...)
			if !strings.Contains(sent, tc.body) {
				t.Errorf("%s: sent %s, want %s in it", tc.reason, sent, tc.body)
			}
			if b.exists() {
				t.Errorf("%s: the Work is still there", tc.reason)
			}
		})
	}
}

func TestAWorkIsReleasedOnlyWhenItsObjectsAreGoneOrUnowned(t *testing.T) {
	t.Run("Refused", func(t *testing.T) {
		b := newBench(t, cluster(), deleting(t, mapA))
		b.server.shown = []string{inMember("a", "w")}
		b.server.set(func(w http.ResponseWriter, _ *http.Request, _ string) {
			refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		})
		if err := b.look(); err == nil || !b.exists() {
			t.Errorf("the member did not delete, and the Work is gone: %t, %v", !b.exists(), err)
		}
		if c := b.condition(workv1alpha1.WorkApplied); c == nil || !strings.Contains(c.Message, "Failed to remove") {
			t.Errorf("Applied is %+v", c)
		}
	})
	t.Run("Exclusive", func(t *testing.T) {
		w := deleting(t, mapA)
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, policyv1alpha1.HandoverAnnotation, policyv1alpha1.HandoverExclusive)
		b := newBench(t, cluster(), w)
		b.server.shown, b.server.lies = []string{inMember("a", "w")}, true // it takes its time
		var sent string
		b.server.set(func(w http.ResponseWriter, r *http.Request, body string) {
			if r.Method == http.MethodDelete {
				sent = body
			}
			_, _ = w.Write([]byte(inMember("a", "w")))
		})
		if err := b.look(); err != nil || !b.exists() {
			t.Errorf("the object is still there, and the Work is gone: %t, %v", !b.exists(), err)
		}
		if !strings.Contains(sent, `"propagationPolicy":"Foreground"`) {
			t.Errorf("sent %s", sent)
		}
	})
	t.Run("ALie", func(t *testing.T) {
		b := newBench(t, cluster(), deleting(t, mapA))
		clock := clocktesting.NewFakeClock(b.clock.Now())
		b.setClock(clock)
		b.server.shown, b.server.lies = []string{inMember("a", "w")}, true
		b.server.set(func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = w.Write([]byte(inMember("a", "w"))) })
		for range 3 {
			if err := b.look(); err != nil || !b.exists() {
				t.Fatalf("the object is still there, and the Work is gone: %t, %v", !b.exists(), err)
			}
		}
		b.wantRequests("DELETE " + pathA)
		for pause := range 3 {
			clock.Step(objects.ConfirmPause << pause)
			for range 3 {
				if err := b.look(); err == nil || !strings.Contains(err.Error(), "still has the object") || !b.exists() {
					t.Errorf("deleted again: the Work is gone: %t, %v", !b.exists(), err)
				}
			}
			b.wantRequests("GET "+pathA, "DELETE "+pathA)
		}
		if c := b.condition(workv1alpha1.WorkApplied); c == nil || !strings.Contains(c.Message, "still has the object") {
			t.Errorf("Applied is %+v", c)
		}
		b.server.mu.Lock()
		b.server.lies = false
		b.server.mu.Unlock()
		clock.Step(objects.ConfirmPause << 3)
		if err := b.look(); err == nil {
			t.Error("it is confirmed before the watch shows it")
		}
		b.server.set(func(w http.ResponseWriter, _ *http.Request, _ string) {
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		})
		clock.Step(backoff.Longest)
		if err := b.look(); err != nil || b.exists() {
			t.Errorf("the object is gone: the Work is, too: %t, %v", !b.exists(), err)
		}
	})
	t.Run("Nonsense", func(t *testing.T) {
		for name, page := range map[string]string{
			"Page": "<html>Log in</html>", "Empty": "", "Half": `{"kind":"Status","apiVersion":"v1","sta`, "Object": inMember("b", "w"),
			"Kind": `{"kind":"Pod","apiVersion":"v1"}`, "Failure": `{"kind":"Status","apiVersion":"v1","status":"Failure"}`,
		} {
			b := newBench(t, cluster(), deleting(t, mapA))
			b.server.shown, b.server.lies = []string{inMember("a", "w")}, true
			b.server.set(func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = w.Write([]byte(page)) })
			if err := b.look(); err == nil || !strings.Contains(err.Error(), "no API server's") || !b.exists() {
				t.Errorf("%s: the Work is gone: %t, %v", name, !b.exists(), err)
			}
			if c := b.condition(workv1alpha1.WorkApplied); c == nil || !strings.Contains(c.Message, "no API server's") {
				t.Errorf("%s: Applied is %+v", name, c)
			}
		}
	})
	t.Run("NoConnection", func(t *testing.T) {
		b := newBench(t, cluster(), deleting(t, mapA))
		b.fleet.Remove("member1")
		if err := b.look(); !objects.Unavailable(err) || !b.exists() {
			t.Errorf("the member cannot be reached: gone is %t, error %v", !b.exists(), err)
		}
		if c := b.condition(workv1alpha1.WorkApplied); c == nil || !strings.Contains(c.Message, "Waiting for the cluster") {
			t.Errorf("Applied is %+v", c)
		}
	})
	t.Run("ClusterLeaves", func(t *testing.T) {
		leaving := cluster()
		leaving.Finalizers = []string{clusterFinalizer}
		now := metav1.Now()
		leaving.DeletionTimestamp = &now
		b := newBench(t, leaving, deleting(t, mapA))
		b.fleet.Remove("member1")
		if err := b.look(); err != nil || b.exists() {
			t.Errorf("a cluster that leaves and cannot be reached: gone is %t, error %v", !b.exists(), err)
		}
	})
	t.Run("ClusterLeavesRightAfterAStart", func(t *testing.T) {
		leaving := cluster()
		leaving.Finalizers = []string{clusterFinalizer}
		now := metav1.Now()
		leaving.DeletionTimestamp = &now
		leaving.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionReady, Status: metav1.ConditionTrue}}
		b := newBench(t, leaving, deleting(t, mapA))
		b.fleet.Remove("member1")
		if err := b.look(); !objects.Unavailable(err) || !b.exists() {
			t.Errorf("a cluster that leaves, is ready and has no connection yet: gone is %t, error %v", !b.exists(), err)
		}
	})
	t.Run("ClusterGone", func(t *testing.T) {
		b := newBench(t, deleting(t, mapA))
		if err := b.look(); err != nil || b.exists() {
			t.Errorf("a cluster that is gone: gone is %t, error %v", !b.exists(), err)
		}
	})
}

const clusterFinalizer = "karmada.io/cluster-controller"
