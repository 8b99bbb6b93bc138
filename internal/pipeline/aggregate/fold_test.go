package aggregate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type workOption func(*workv1alpha1.Work)

// work is the Work of Deployment shop/web in a cluster, at generation 1.
func work(cluster string, options ...workOption) *workv1alpha1.Work {
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName("Deployment", "shop", "web"), Generation: 1,
		Labels: map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "id"},
		Annotations: map[string]string{
			workv1alpha2.ResourceBindingNamespaceAnnotation: "shop", workv1alpha2.ResourceBindingNameAnnotation: "web-deployment",
		},
	}}
	for _, option := range options {
		option(w)
	}
	return w
}

func appliedAt(generation int64) workOption {
	return func(w *workv1alpha1.Work) {
		meta.SetStatusCondition(&w.Status.Conditions, workv1alpha1.Applied(generation))
	}
}

func failed(message string) workOption {
	return func(w *workv1alpha1.Work) {
		meta.SetStatusCondition(&w.Status.Conditions, workv1alpha1.NotApplied(w.Generation, message))
	}
}

func reporting(status string, health workv1alpha1.ResourceHealth) workOption {
	return func(w *workv1alpha1.Work) {
		w.Status.ManifestStatuses = []workv1alpha1.ManifestStatus{{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
			Status:     &runtime.RawExtension{Raw: []byte(status)}, Health: health,
		}}
	}
}

func atGeneration(n int64) workOption { return func(w *workv1alpha1.Work) { w.Generation = n } }

func rollingOut(w *workv1alpha1.Work) {
	meta.SetStatusCondition(&w.Status.Conditions, workv1alpha1.Progressing(w.Generation, workv1alpha1.RollingOutReason, "web"))
}

func suspended(w *workv1alpha1.Work) { w.Spec.SuspendDispatching = ptr.To(true) }

func specWith(clusters ...string) workv1alpha2.ResourceBindingSpec {
	spec := workv1alpha2.ResourceBindingSpec{Resource: workv1alpha2.ObjectReference{
		APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "u",
	}}
	for _, cluster := range clusters {
		spec.Clusters = append(spec.Clusters, workv1alpha2.TargetCluster{Name: cluster})
	}
	return spec
}

func item(cluster string, applied bool, message, status string, health workv1alpha2.ResourceHealth) workv1alpha2.AggregatedStatusItem {
	i := workv1alpha2.AggregatedStatusItem{ClusterName: cluster, Applied: applied, AppliedMessage: message, Health: health}
	if status != "" {
		i.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	return i
}

func TestFold(t *testing.T) {
	const ready = `{"readyReplicas":1}`
	good := []workOption{appliedAt(1), reporting(ready, workv1alpha1.ResourceHealthy)}
	type items = []workv1alpha2.AggregatedStatusItem
	for reason, tc := range map[string]struct {
		spec  workv1alpha2.ResourceBindingSpec
		works []*workv1alpha1.Work
		want  Summary
	}{
		"all is well, in the order of names": {
			spec:  specWith("b", "a"),
			works: []*workv1alpha1.Work{work("b", good...), work("a", good...)},
			want: Summary{Stable: true, Items: items{
				item("a", true, "", ready, "Healthy"), item("b", true, "", ready, "Healthy")}},
		},
		"a failure is named": {
			spec:  specWith("a", "b"),
			works: []*workv1alpha1.Work{work("a", good...), work("b", failed("no such namespace"))},
			want: Summary{Stable: true, Missing: []string{"b"}, Items: items{
				item("a", true, "", ready, "Healthy"), item("b", false, "no such namespace", "", "Unknown")}},
		},
		"a cluster without Work is not left out": {
			spec: specWith("a"),
			want: Summary{Silent: true, Missing: []string{"a"}, Items: items{item("a", false, noWorkMessage, "", "Unknown")}},
		},
		"nor is one that has not said anything": {
			spec:  specWith("a"),
			works: []*workv1alpha1.Work{work("a")},
			want:  Summary{Silent: true, Missing: []string{"a"}, Items: items{item("a", false, waitingMessage, "", "Unknown")}},
		},
		"an earlier version does not count as applied, and its status is shown": {
			spec:  specWith("a"),
			works: []*workv1alpha1.Work{work("a", append(good, atGeneration(2))...)},
			want:  Summary{Missing: []string{"a"}, Items: items{item("a", false, outdated, ready, "Unknown")}},
		},
		"applied but not observed yet": {
			spec:  specWith("a"),
			works: []*workv1alpha1.Work{work("a", appliedAt(1))},
			want:  Summary{Items: items{item("a", true, "", "", "Unknown")}},
		},
		"a rollout under way is not the last word": {
			spec:  specWith("a"),
			works: []*workv1alpha1.Work{work("a", append(good, rollingOut)...)},
			want:  Summary{Items: items{item("a", true, "", ready, "Healthy")}},
		},
		"a suspended Work has nothing more to say": {
			spec:  specWith("a"),
			works: []*workv1alpha1.Work{work("a", append(good, atGeneration(2), suspended)...)},
			want:  Summary{Stable: true, Missing: []string{"a"}, Items: items{item("a", false, outdated, ready, "Unknown")}},
		},
		"Works that are on their way out do not count": {
			spec:  specWith("a"),
			works: []*workv1alpha1.Work{work("a", good...), work("gone", good...)},
			want:  Summary{Stable: true, Items: items{item("a", true, "", ready, "Healthy")}},
		},
		"dependants and drained clusters count, purged ones do not": {
			spec: func() workv1alpha2.ResourceBindingSpec {
				s := specWith("a")
				s.RequiredBy = []workv1alpha2.BindingSnapshot{{Name: "x", Clusters: []workv1alpha2.TargetCluster{{Name: "b"}, {Name: "a"}}}}
				s.GracefulEvictionTasks = []workv1alpha2.GracefulEvictionTask{
					{FromCluster: "c", PurgeMode: policyv1alpha1.PurgeModeGracefully}, {FromCluster: "d", PurgeMode: policyv1alpha1.PurgeModeDirectly}}
				return s
			}(),
			works: []*workv1alpha1.Work{work("a", good...), work("b", good...), work("c", good...), work("d", good...)},
			want: Summary{Stable: true, Items: items{
				item("a", true, "", ready, "Healthy"), item("b", true, "", ready, "Healthy"), item("c", true, "", ready, "Healthy")}},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Fold(&tc.spec, tc.works)); diff != "" {
				t.Errorf("picture (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	for reason, tc := range map[string]struct {
		picture Summary
		status  metav1.ConditionStatus
		message string
	}{
		"everywhere": {Summary{Items: make([]workv1alpha2.AggregatedStatusItem, 2)}, metav1.ConditionTrue, workv1alpha2.FullyAppliedSuccessMessage},
		"not everywhere": {
			Summary{Items: make([]workv1alpha2.AggregatedStatusItem, 2), Missing: []string{"b"}}, metav1.ConditionFalse,
			"Failed to apply all works, see status.aggregatedStatus for details: 1 of 2 clusters lack it: b",
		},
		"nowhere": {Summary{}, metav1.ConditionFalse, "Failed to apply all works, see status.aggregatedStatus for details: no cluster was chosen"},
		"not in many places": {
			Summary{Items: make([]workv1alpha2.AggregatedStatusItem, 12), Missing: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}}, metav1.ConditionFalse,
			"Failed to apply all works, see status.aggregatedStatus for details: 12 of 12 clusters lack it: a, b, c, d, e, f, g, h, i, j and 2 more",
		},
	} {
		condition := tc.picture.Condition(3)
		if condition.Status != tc.status || condition.Message != tc.message || condition.ObservedGeneration != 3 {
			t.Errorf("%s: %+v, want %s %q", reason, condition, tc.status, tc.message)
		}
	}
}

func TestPace(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	p := newPace(clock)
	busy := Request{"shop", "busy"}
	var windows []time.Duration
	for range 10 {
		windows = append(windows, p.window(busy))
		p.wrote(busy)
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
	}
	ms := time.Millisecond
	want := []time.Duration{30 * ms, 30 * ms, 30 * ms, 60 * ms, 120 * ms, 240 * ms, 480 * ms, 960 * ms, 1000 * ms, 1000 * ms}
	if diff := cmp.Diff(want, windows); diff != "" {
		t.Errorf("windows of a binding that never rests (-want +got):\n%s", diff)
	}
	if got := p.window(Request{"shop", "other"}); got != gather {
		t.Errorf("another binding waits %s", got)
	}
	clock.SetTime(clock.Now().Add(idle + time.Second))
	p.wrote(busy)
	if got := p.window(busy); got != gather {
		t.Errorf("after a rest it waits %s, want %s", got, gather)
	}
}

func TestHoldingBack(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	p := newPace(clock)
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	request := Request{"shop", "web"}
	const ms = time.Millisecond
	expect := func(reason string, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%s: holds back %s, want %s", reason, got, want)
		}
	}
	one := make([]workv1alpha2.AggregatedStatusItem, 1)
	underWay, silent, stable := Summary{Items: one}, Summary{Silent: true, Items: one}, Summary{Stable: true, Items: one}
	expect("at first", p.hold(request, underWay), quiet)
	step(200 * ms)
	p.changed(request)
	expect("after news", p.hold(request, underWay), quiet)
	step(quiet)
	expect("after quiet", p.hold(request, underWay), 0)
	for range 12 {
		p.changed(request)
		step(100 * ms)
	}
	expect("with news all the time", p.hold(request, underWay), 100*ms)
	step(100 * ms)
	p.changed(request)
	expect("when patience is over", p.hold(request, underWay), 0)
	expect("once stable", p.hold(request, stable), 0)
	expect("unsettled anew", p.hold(request, underWay), quiet)
	expect("with no member reporting", p.hold(request, silent), silence)
	step(silence)
	expect("with no member reporting for long", p.hold(request, silent), 0)
	p.wrote(request)
	p.changed(request)
	expect("with the first report after a long time", p.hold(request, underWay), quiet)
	expect("a new generation", p.holdGeneration(request, 2), quiet)
	step(quiet)
	expect("the same generation later", p.holdGeneration(request, 2), 0)
	expect("the next generation", p.holdGeneration(request, 3), quiet)
}

func TestManySilentBindingsWaitLonger(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	p := newPace(clock)
	two := make([]workv1alpha2.AggregatedStatusItem, 2)
	silent, stable := Summary{Silent: true, Items: two}, Summary{Stable: true, Items: two}
	request := func(i int) Request { return Request{"shop", fmt.Sprint(i)} }
	for i := range 101 {
		p.hold(request(i), silent)
	}
	if got, want := p.hold(request(0), silent), silence+200*silentShare; got != want {
		t.Errorf("one of 101 is held back %s, want %s", got, want)
	}
	for i := 1; i <= 50; i++ {
		p.hold(request(i), stable)
	}
	for i := 51; i <= 90; i++ {
		p.wrote(request(i))
	}
	for i := 91; i <= 100; i++ {
		p.forget(request(i))
	}
	if got := p.hold(request(0), silent); got != silence {
		t.Errorf("alone it is held back %s, want %s", got, silence)
	}
	for i := range 5000 {
		p.hold(request(i), silent)
	}
	if got := p.hold(Request{"bank", "web"}, silent); got != silence {
		t.Errorf("one of another namespace is held back %s, want %s", got, silence)
	}
	if got := p.hold(request(0), silent); got != longestSilence {
		t.Errorf("one of 5,000 is held back %s, want %s", got, longestSilence)
	}
}

func TestManyUnstableBindingsWaitLonger(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(start)
	p := newPace(clock)
	two := make([]workv1alpha2.AggregatedStatusItem, 2)
	unstable, stable := Summary{Items: two}, Summary{Stable: true, Items: two}
	request := func(i int) Request { return Request{"shop", fmt.Sprint(i)} }
	for i := range 51 {
		p.hold(request(i), unstable)
	}
	if got, want := p.hold(request(0), unstable), quiet+100*quietShare; got != want {
		t.Errorf("one of 51 is held back %s after a change, want %s", got, want)
	}
	clock.SetTime(clock.Now().Add(patience + 100*patienceShare - time.Millisecond))
	p.changed(request(0))
	if got := p.hold(request(0), unstable); got != time.Millisecond {
		t.Errorf("one of 51 that changes all the time is held back %s more, want 1ms", got)
	}
	if got := p.hold(Request{"bank", "web"}, unstable); got != quiet {
		t.Errorf("one of another namespace is held back %s, want %s", got, quiet)
	}
	p.wrote(request(0)) // it stays unstable
	for i := 1; i <= 40; i++ {
		p.hold(request(i), stable)
	}
	for i := 41; i <= 50; i++ {
		p.forget(request(i))
	}
	p.hold(request(0), stable)
	if got := p.hold(request(0), unstable); got != quiet {
		t.Errorf("alone it is held back %s, want %s", got, quiet)
	}
	for i := range 5000 {
		p.hold(request(i), unstable)
	}
	if got := p.hold(request(0), unstable); got != longestQuiet {
		t.Errorf("one of 5,000 is held back %s after a change, want %s", got, longestQuiet)
	}
	clock.SetTime(clock.Now().Add(longestPatience - time.Millisecond))
	p.changed(request(0))
	if got := p.hold(request(0), unstable); got != time.Millisecond {
		t.Errorf("one of 5,000 that changes all the time is held back %s more, want 1ms", got)
	}
	for i := range 5000 {
		p.forget(request(i))
	}
	p.forget(Request{"bank", "web"})
	if len(p.incomplete) > 0 || len(p.tracks) > 0 {
		t.Errorf("left of bindings that are gone: %v, %d tracks", p.incomplete, len(p.tracks))
	}
}

// A user may have made a Work from a copy of a rendered one, with its labels and annotations.
func TestACopyOfAWorkDoesNotCount(t *testing.T) {
	rendered := work("a", appliedAt(1), reporting(`{"x":1}`, workv1alpha1.ResourceHealthy))
	byHand := work("a", failed("it is the other one's"))
	byHand.Name = "copy"
	for name, works := range map[string][]*workv1alpha1.Work{"First": {rendered, byHand}, "Last": {byHand, rendered}} {
		spec := specWith("a")
		if picture := Fold(&spec, works); len(picture.Missing) > 0 {
			t.Errorf("%s: %+v", name, picture)
		}
	}
}

// TestFoldBoundsReports: what a Work reports may be older than the bounds, or written past them.
func TestFoldBoundsReports(t *testing.T) {
	spec := &workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Clusters: []workv1alpha2.TargetCluster{{Name: "a"}, {Name: "b"}},
	}
	long := strings.Repeat("x", 1_568_000)
	items := Fold(spec, []*workv1alpha1.Work{
		work("a", appliedAt(1), reporting(`{"replicas":2,"junk":"`+long+`"}`, "Splendid")), work("b", failed(long)),
	}).Items
	if status := items[0].Status; !reports.WasCut(status) || len(status.Raw) > bounds.MaxStatusBytes || !strings.Contains(string(status.Raw), `"replicas":2`) {
		t.Errorf("the status has %d bytes", len(status.Raw))
	}
	if items[0].Health != workv1alpha2.ResourceUnknown || len(items[1].AppliedMessage) > bounds.MessageBytes {
		t.Errorf("the health is %s, the message has %d bytes", items[0].Health, len(items[1].AppliedMessage))
	}
}
