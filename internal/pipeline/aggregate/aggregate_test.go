package aggregate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

var web = Request{Namespace: "shop", Name: "web-deployment"}

// fixture is a hub with one binding, its Works and its template.
type fixture struct {
	t         *testing.T
	client    client.Client
	clock     *clocktesting.FakePassiveClock
	loop      *aggregator
	templates *oneTemplate
	writing   sync.Mutex
	writes    []string
	events    []string
	refuse    error
}

func newFixture(t *testing.T, binding client.Object, works ...*workv1alpha1.Work) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{workv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(start)}
	s.templates = &oneTemplate{fixture: s, object: deployment()}
	objects := []client.Object{binding}
	for _, w := range works {
		objects = append(objects, w)
	}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{}, &workv1alpha1.Work{}).
		WithIndex(&workv1alpha1.Work{}, indexBinding, bindingIDs).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
				if _, isBinding := obj.(workv1alpha2.Binding); !isBinding {
					return c.SubResource(sub).Update(ctx, obj, opts...)
				}
				s.writing.Lock()
				s.writes = append(s.writes, "binding")
				s.writing.Unlock()
				if s.refuse != nil {
					return s.refuse
				}
				return c.SubResource(sub).Update(ctx, obj, opts...)
			},
		}).Build()
	s.loop = newAggregator(s.client, Deps{
		Templates: s.templates, Statuses: s.templates, Clock: s.clock,
		Events: events.RecorderFunc(func(e events.Event) {
			if !slices.Contains(s.events, e.String()) { // events.Memory only counts what is repeated
				s.events = append(s.events, e.String())
			}
		}),
	})
	return s
}

// binding is scheduled to a and b.
func binding() *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Namespace: web.Namespace, Name: web.Name, Generation: 2,
		Labels: map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "id"},
	}, Spec: specWith("a", "b")}
	b.Status.LastScheduledTime = ptr.To(metav1.NewTime(start))
	meta.SetStatusCondition(&b.Status.Conditions, workv1alpha2.ScheduledCondition(2, "ok"))
	return b
}

func deployment() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	u.SetNamespace("shop")
	u.SetName("web")
	u.SetUID("u")
	u.SetGeneration(5)
	return u
}

// oneTemplate is a store of one object and an interpreter that notes which
// clusters have applied it.
type oneTemplate struct {
	fixture *fixture
	object  *unstructured.Unstructured
	reads   int
	fail    error
	// meanwhile, if set, happens while the status is written.
	meanwhile func()
}

func (*oneTemplate) Supports(schema.GroupVersionKind, configv1alpha1.InterpreterOperation) bool {
	return true
}

func (o *oneTemplate) HasStatus(gvk schema.GroupVersionKind) bool { return gvk.Kind == "Deployment" }

func (o *oneTemplate) Read(context.Context, hubstore.Ref, string) (*unstructured.Unstructured, error) {
	o.reads++
	if o.object == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "web")
	}
	return o.object.DeepCopy(), nil
}

func (o *oneTemplate) UpdateStatus(_ context.Context, _, after *unstructured.Unstructured) (bool, error) {
	if o.meanwhile != nil {
		o.meanwhile()
	}
	if o.fail != nil {
		return false, o.fail
	}
	o.fixture.writes = append(o.fixture.writes, "template")
	o.object = after
	return true, nil
}

func (o *oneTemplate) Finished(_ context.Context, obj *unstructured.Unstructured) (bool, error) {
	over, _, _ := unstructured.NestedBool(obj.Object, "status", "over")
	return over, nil
}

func (o *oneTemplate) Aggregate(_ context.Context, obj *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	var applied []string
	for _, item := range items {
		if item.Applied {
			applied = append(applied, item.ClusterName)
		}
	}
	want := strings.Join(applied, ",")
	if have, _, _ := unstructured.NestedString(obj.Object, "status", "applied"); have == want {
		return obj, nil
	}
	after := obj.DeepCopy()
	return after, unstructured.SetNestedField(after.Object, want, "status", "applied")
}

func (s *fixture) reconcile() time.Duration {
	s.t.Helper()
	result, err := s.loop.Reconcile(s.t.Context(), web)
	if err != nil {
		s.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (s *fixture) expectWrites(reason string, want ...string) {
	s.t.Helper()
	if !slices.Equal(s.writes, want) {
		s.t.Errorf("%s: writes %q, want %q", reason, s.writes, want)
	}
	s.writes = nil
}

func (s *fixture) report(cluster string, options ...workOption) {
	s.t.Helper()
	w := work(cluster)
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
		s.t.Fatal(err)
	}
	for _, option := range options {
		option(w)
	}
	if err := s.client.Status().Update(s.t.Context(), w); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fixture) status() *workv1alpha2.ResourceBindingStatus {
	s.t.Helper()
	return &s.binding().Status
}

func (s *fixture) binding() *workv1alpha2.ResourceBinding {
	s.t.Helper()
	b := &workv1alpha2.ResourceBinding{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: web.Namespace, Name: web.Name}, b); err != nil {
		s.t.Fatal(err)
	}
	return b
}

func TestOneWriteForAllWorks(t *testing.T) {
	s := newFixture(t, binding(), work("a"), work("b"))
	if wait := s.reconcile(); wait != silence {
		t.Errorf("before any member reported it is reconciled again after %s, want %s", wait, silence)
	}
	s.report("a", appliedAt(1), reporting(`{"x":1}`, workv1alpha1.ResourceHealthy))
	s.clock.SetTime(s.clock.Now().Add(50 * time.Millisecond))
	if wait := s.reconcile(); wait != quiet-50*time.Millisecond {
		t.Errorf("half a picture waits %s", wait)
	}
	s.expectWrites("half a picture")
	s.report("b", appliedAt(1), reporting(`{"x":2}`, workv1alpha1.ResourceHealthy))
	s.reconcile()
	s.expectWrites("the whole picture", "binding", "template")
	s.reconcile()
	s.expectWrites("nothing new")

	status := s.status()
	if len(status.AggregatedStatus) != 2 || status.AggregatedStatus[0].ClusterName != "a" || !status.AggregatedStatus[1].Applied {
		t.Errorf("aggregated status is %+v", status.AggregatedStatus)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, workv1alpha2.FullyApplied) || !meta.IsStatusConditionTrue(status.Conditions, workv1alpha2.Scheduled) {
		t.Errorf("conditions are %+v, want FullyApplied beside Scheduled", status.Conditions)
	}
	want := []string{
		"Normal AggregateStatusSucceed Deployment/web: Applied to all 2 clusters (generation 5)",
		"Normal AggregateStatusSucceed ResourceBinding/web-deployment: Applied to all 2 clusters (generation 5)",
	}
	if !slices.Equal(s.events, want) {
		t.Errorf("events %q, want %q", s.events, want)
	}
}

func TestAnUnstableSummaryIsWrittenInTheEnd(t *testing.T) {
	s := newFixture(t, binding(), work("a", appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)), work("b"))
	s.reconcile()
	s.clock.SetTime(s.clock.Now().Add(patience))
	s.reconcile()
	s.expectWrites("a cluster that does not answer", "binding", "template")
	condition := meta.FindStatusCondition(s.status().Conditions, workv1alpha2.FullyApplied)
	if condition.Status != metav1.ConditionFalse || !strings.HasSuffix(condition.Message, "1 of 2 clusters lack it: b") {
		t.Errorf("condition %+v", condition)
	}
	if len(s.events) > 0 {
		t.Errorf("success was published: %q", s.events)
	}
	s.report("a", reporting(`{"x":1}`, workv1alpha1.ResourceUnhealthy))
	s.reconcile()
	s.expectWrites("news of another cluster meanwhile", "binding")
}

func TestAnUpdateInFlightShowsNoFlicker(t *testing.T) {
	s := newFixture(t, binding(), work("a", appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)), work("b", appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)))
	s.reconcile()
	s.writes = nil
	for _, cluster := range []string{"a", "b"} {
		w := work(cluster)
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			t.Fatal(err)
		}
		w.Generation = 2
		if err := s.client.Update(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	s.reconcile()
	s.expectWrites("Works that were just rewritten")
	s.report("a", appliedAt(2))
	s.report("b", appliedAt(2))
	s.reconcile()
	s.expectWrites("applied again, with the same status")
}

func TestANewGenerationIsConfirmedOnceRenderHadItsTurn(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	s.reconcile()
	s.writes = nil
	b := &workv1alpha2.ResourceBinding{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: web.Namespace, Name: web.Name}, b); err != nil {
		t.Fatal(err)
	}
	b.Generation = 3
	if err := s.client.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if wait := s.reconcile(); wait != quiet {
		t.Errorf("confirms after %s, want %s", wait, quiet)
	}
	s.expectWrites("a new generation")
	s.clock.SetTime(s.clock.Now().Add(quiet))
	s.reconcile()
	s.expectWrites("later", "binding")
	if got := meta.FindStatusCondition(s.status().Conditions, workv1alpha2.FullyApplied).ObservedGeneration; got != 3 {
		t.Errorf("the verdict is about generation %d, want 3", got)
	}
	if len(s.events) != 2 { // one for the template, one for the binding
		t.Errorf("success was published again: %q", s.events)
	}
}

func TestWhatCannotBeRenderedIsNotFullyApplied(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	b := binding()
	meta.SetStatusCondition(&b.Status.Conditions, workv1alpha2.NotRenderedCondition(2, workv1alpha2.OverrideFailedReason, "no such path"))
	s := newFixture(t, b, work("a", good...), work("b", good...))
	s.reconcile()
	condition := meta.FindStatusCondition(s.status().Conditions, workv1alpha2.FullyApplied)
	if condition.Status != metav1.ConditionFalse || !strings.HasSuffix(condition.Message, "see condition Rendered") {
		t.Errorf("condition %+v", condition)
	}
	if len(s.events) > 0 {
		t.Errorf("success was published: %q", s.events)
	}
	mended := &workv1alpha2.ResourceBinding{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: web.Namespace, Name: web.Name}, mended); err != nil {
		t.Fatal(err)
	}
	meta.RemoveStatusCondition(&mended.Status.Conditions, workv1alpha2.Rendered)
	if err := s.client.Status().Update(t.Context(), mended); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	if !meta.IsStatusConditionTrue(s.status().Conditions, workv1alpha2.FullyApplied) || len(s.events) != 2 {
		t.Errorf("conditions %+v, events %q", s.status().Conditions, s.events)
	}
}

func TestNothingIsAggregatedBeforeScheduling(t *testing.T) {
	b := binding()
	b.Status = workv1alpha2.ResourceBindingStatus{}
	b.Spec.Clusters = nil
	s := newFixture(t, b)
	s.reconcile()
	s.expectWrites("an unscheduled binding")
}

func TestKindsWithoutStatusAreNotRead(t *testing.T) {
	b := binding()
	b.Spec.Resource.Kind, b.Spec.Resource.APIVersion = "ConfigMap", "v1"
	s := newFixture(t, b, work("a", appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)), work("b", appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)))
	s.reconcile()
	s.expectWrites("a ConfigMap", "binding")
	if s.templates.reads > 0 {
		t.Errorf("the template was read %d times", s.templates.reads)
	}
	if slices.ContainsFunc(s.events, func(e string) bool { return strings.HasPrefix(e, "Warning") }) {
		t.Errorf("no cluster reports a status, and the events are %q", s.events)
	}
}

// TestAStatusThatCannotBeWrittenIsNamed: the definition has no subresource for it.
func TestAStatusThatCannotBeWrittenIsNamed(t *testing.T) {
	b := binding()
	b.Spec.Resource.Kind = "Workflow"
	done := []workOption{appliedAt(1), reporting(`{"phase":"Succeeded"}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, b, work("a", done...), work("b", done...))
	s.reconcile()
	s.expectWrites("a kind without the subresource", "binding")
	if !slices.ContainsFunc(s.events, func(e string) bool {
		return strings.Contains(e, "AggregateStatusFailed") && strings.Contains(e, "has no subresource status")
	}) {
		t.Errorf("the events are %q", s.events)
	}
	s.events = nil
	s.reconcile()
	if len(s.events) > 0 {
		t.Errorf("nothing changed, and the events are %q", s.events)
	}
}

func TestAConflictIsTriedAgain(t *testing.T) {
	s := newFixture(t, binding(), work("a", failed("x")), work("b", failed("x")))
	s.refuse = apierrors.NewConflict(schema.GroupResource{}, web.Name, fmt.Errorf("changed"))
	if wait := s.reconcile(); wait != backoff.Conflict {
		t.Errorf("tries again after %s, want %s", wait, backoff.Conflict)
	}
	s.refuse = nil
	s.writes = nil
	s.reconcile()
	s.expectWrites("after the conflict", "binding")
}

// Whoever reads a status of the template finds it on the binding as well.
func TestTheBindingIsWrittenBeforeTheTemplate(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	s.refuse = apierrors.NewConflict(schema.GroupResource{}, web.Name, fmt.Errorf("changed"))
	s.reconcile()
	s.expectWrites("a conflict on the binding", "binding")
	s.refuse = nil
	s.reconcile()
	s.expectWrites("after the conflict", "binding", "template")
}

// The process may end between the two writes. Only bindings that were among the last writes before the start are compared.
func TestAStartBetweenTheTwoWrites(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	for reason, tc := range map[string]struct {
		later uint64
		want  []string
	}{
		"among the last writes": {inFlight - 1, []string{"template"}},
		"long before":           {inFlight + 1, nil},
	} {
		s := newFixture(t, binding(), work("a", good...), work("b", good...))
		before := s.templates.object
		s.reconcile()
		s.templates.object, s.writes = before, nil
		s.loop = newAggregator(s.client, Deps{Templates: s.templates, Statuses: s.templates, Clock: s.clock, Events: s.loop.events})
		newest := binding()
		version, err := strconv.ParseUint(s.binding().ResourceVersion, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		newest.Name, newest.ResourceVersion = "other", strconv.FormatUint(version+tc.later, 10)
		s.loop.noteStart(web, s.binding())
		s.loop.noteStart(Request{Namespace: "shop", Name: "other"}, newest)
		reads := s.templates.reads
		s.reconcile()
		s.expectWrites(reason, tc.want...)
		if got := s.templates.reads - reads; got != len(tc.want) {
			t.Errorf("%s: the template was read %d times", reason, got)
		}
		s.reconcile()
		s.expectWrites(reason + ", again")
	}
}

func TestATemplateThatRefusesItsStatus(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	s.templates.fail = fmt.Errorf("status is invalid")
	if _, err := s.loop.Reconcile(t.Context(), web); err == nil {
		t.Error("the failure was swallowed")
	}
	s.expectWrites("the binding gets its status nevertheless", "binding")
	if !slices.ContainsFunc(s.events, func(e string) bool {
		return strings.Contains(e, "Warning AggregateStatusFailed Deployment/web: status is invalid")
	}) {
		t.Errorf("the event was not published: %q", s.events)
	}
	s.templates.fail = nil
	s.reconcile()
	s.expectWrites("the template gets it later", "template")
	s.reconcile()
	s.expectWrites("and then it is quiet")
}

// A user may empty a status by hand.
func TestAStatusThatWasTakenAwayIsWrittenAgain(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	s.reconcile()
	s.writes = nil
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[Request]())
	t.Cleanup(q.ShutDown)
	handle := onBinding[*workv1alpha2.ResourceBinding](s.loop)
	whole := s.binding()
	handle.Update(t.Context(), ctrlevent.TypedUpdateEvent[*workv1alpha2.ResourceBinding]{ObjectOld: binding(), ObjectNew: whole}, q)
	handle.Update(t.Context(), ctrlevent.TypedUpdateEvent[*workv1alpha2.ResourceBinding]{ObjectOld: whole, ObjectNew: whole}, q)
	if changed := s.loop.pace.track(web).lastChange; !changed.IsZero() {
		t.Error("our own write is reconciled again")
	}
	for what, empty := range map[string]func(*workv1alpha2.ResourceBindingStatus){
		"all": func(status *workv1alpha2.ResourceBindingStatus) {
			*status = workv1alpha2.ResourceBindingStatus{LastScheduledTime: status.LastScheduledTime}
		},
		"the items": func(status *workv1alpha2.ResourceBindingStatus) { status.AggregatedStatus = nil },
		"one of them": func(status *workv1alpha2.ResourceBindingStatus) {
			status.AggregatedStatus = status.AggregatedStatus[1:]
		},
		"the verdict": func(status *workv1alpha2.ResourceBindingStatus) {
			meta.RemoveStatusCondition(&status.Conditions, workv1alpha2.FullyApplied)
		},
	} {
		robbed := s.binding()
		empty(&robbed.Status)
		if err := s.client.Status().Update(t.Context(), robbed); err != nil {
			t.Fatal(err)
		}
		s.writes = nil
		handle.Update(t.Context(), ctrlevent.TypedUpdateEvent[*workv1alpha2.ResourceBinding]{ObjectOld: whole, ObjectNew: robbed}, q)
		if s.loop.pace.track(web).lastChange.IsZero() {
			t.Errorf("%s: it is not reconciled again", what)
		}
		s.loop.forget(web)
		s.reconcile()
		s.expectWrites(what, "binding")
		if status := s.status(); len(status.AggregatedStatus) != 2 || !meta.IsStatusConditionTrue(status.Conditions, workv1alpha2.FullyApplied) {
			t.Errorf("%s: status is %+v", what, status)
		}
	}
}

// The scheduler, say, writes to the binding right before the note that its template could not be written.
func TestWhatOthersWriteMeanwhileStays(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	s.templates.fail = fmt.Errorf("unreachable")
	s.templates.meanwhile = func() {
		other := s.binding()
		meta.SetStatusCondition(&other.Status.Conditions, workv1alpha2.ScheduledCondition(2, "news"))
		if err := s.client.Status().Update(t.Context(), other); err != nil {
			t.Error(err)
		}
		s.templates.meanwhile = nil
	}
	for range 2 { // a conflict may come first
		_, _ = s.loop.Reconcile(t.Context(), web)
	}
	if c := meta.FindStatusCondition(s.status().Conditions, workv1alpha2.Scheduled); c.Message != "news" {
		t.Errorf("the other's condition is %+v", c)
	}
	if !meta.IsStatusConditionTrue(s.status().Conditions, workv1alpha2.FullyApplied) {
		t.Errorf("conditions are %+v", s.status().Conditions)
	}
}

// A customization may change while the control plane is down.
func TestAStatusIsAggregatedAgainAfterACustomizationChanges(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	meaning := ""
	s.loop.customized = func(schema.GroupVersionKind) string { return meaning }
	s.reconcile()
	s.expectWrites("at first", "binding", "template")
	for _, meaning = range []string{"one", "another", ""} {
		s.templates.object = deployment() // as the earlier script left it
		s.reconcile()
		s.expectWrites("users say "+meaning, "template")
		reads := s.templates.reads
		s.reconcile()
		s.expectWrites("and nothing else")
		if s.templates.reads > reads {
			t.Errorf("the template is read again although users say %q as before", meaning)
		}
	}
}

func TestASuccessorsStatusIsItsOwn(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	s.templates.object.SetUID("second")
	s.reconcile()
	s.expectWrites("a template that was replaced", "binding")
}

// Of some kinds a template must not say what its copies said when there are none any more.
func TestATemplateThatLostItsBinding(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	for name, clears := range map[string]bool{"Cleared": true, "LeftAsItWas": false} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, binding(), work("a", good...), work("b", good...))
			if clears {
				s.loop.conversion = deploymentsLoseStatus{}
			}
			s.reconcile()
			s.expectWrites("at first", "binding", "template")
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[Request]())
			t.Cleanup(q.ShutDown)
			gone := binding()
			if err := s.client.Delete(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
			onBinding[*workv1alpha2.ResourceBinding](s.loop).Delete(t.Context(), ctrlevent.TypedDeleteEvent[*workv1alpha2.ResourceBinding]{Object: gone}, q)
			if !clears {
				s.reconcile()
				s.expectWrites("no customization requested it")
				return
			}
			if request, _ := q.Get(); request != web {
				t.Errorf("queued is %v", request)
			}
			s.templates.fail = fmt.Errorf("unreachable")
			if _, err := s.loop.Reconcile(t.Context(), web); err == nil {
				t.Error("the failure was swallowed")
			}
			s.templates.fail = nil
			s.reconcile()
			s.expectWrites("without copies", "template")
			if applied, _, _ := unstructured.NestedString(s.templates.object.Object, "status", "applied"); applied != "" {
				t.Errorf("the template still says %q", applied)
			}
			s.reconcile()
			s.expectWrites("and then it is quiet")
		})
	}
}

// A template that could not be written is written after a start, although the binding shows everything already.
func TestATemplateThatCouldNotBeWrittenBeforeAStart(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	s := newFixture(t, binding(), work("a", good...), work("b", good...))
	s.templates.fail = fmt.Errorf("unreachable")
	if _, err := s.loop.Reconcile(t.Context(), web); err == nil {
		t.Fatal("the failure was swallowed")
	}
	s.expectWrites("before", "binding")
	s.templates.fail = nil
	s.loop = newAggregator(s.client, Deps{Templates: s.templates, Statuses: s.templates, Clock: s.clock, Events: s.loop.events})
	s.reconcile()
	s.expectWrites("after the start", "template")
	s.loop = newAggregator(s.client, Deps{Templates: s.templates, Statuses: s.templates, Clock: s.clock, Events: s.loop.events})
	s.reconcile()
	s.expectWrites("after another one")
}

// The status of the template is written while the binding exists: a control plane that is killed right after it has let the binding
// go finds it no more.
func TestATemplateThatIsAboutToLoseItsBinding(t *testing.T) {
	good := []workOption{appliedAt(1), reporting(`{}`, workv1alpha1.ResourceHealthy)}
	held := binding()
	held.Finalizers = []string{held.Finalizer()}
	s := newFixture(t, held, work("a", good...), work("b", good...))
	s.loop.conversion = deploymentsLoseStatus{}
	s.reconcile()
	s.expectWrites("at first", "binding", "template")
	if err := s.client.Delete(t.Context(), binding()); err != nil {
		t.Fatal(err)
	}
	s.loop = newAggregator(s.client, Deps{Templates: s.templates, Statuses: s.templates, Clock: s.clock, Conversion: deploymentsLoseStatus{}, Events: s.loop.events})
	s.reconcile()
	s.expectWrites("after a start that finds it going", "template")
	if applied, _, _ := unstructured.NestedString(s.templates.object.Object, "status", "applied"); applied != "" {
		t.Errorf("the template still says %q", applied)
	}
	s.reconcile()
	s.expectWrites("and then it is quiet")
}

func TestWorksLeadToTheirBinding(t *testing.T) {
	if got := requestsOf(work("a")); !slices.Equal(got, []Request{web}) {
		t.Errorf("requests %v", got)
	}
	wide := &workv1alpha1.Work{}
	wide.Annotations = map[string]string{workv1alpha2.ClusterResourceBindingNameAnnotation: "reader-clusterrole"}
	wide.Labels = map[string]string{workv1alpha2.ClusterResourceBindingPermanentIDLabel: "x"}
	if got := requestsOf(wide); !slices.Equal(got, []Request{{Name: "reader-clusterrole"}}) {
		t.Errorf("requests %v", got)
	}
	if got := bindingIDs(wide); !slices.Equal(got, []string{"x"}) {
		t.Errorf("ids %v", got)
	}
}

type deploymentsLoseStatus struct{ conversion.Unchanged }

func (deploymentsLoseStatus) LosesStatus(kind schema.GroupVersionKind) bool {
	return kind.Kind == "Deployment"
}
