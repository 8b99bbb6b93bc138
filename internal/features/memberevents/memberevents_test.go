package memberevents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestWarningsOfSeveralPodsAndClustersAreEqual(t *testing.T) {
	event := func(kind, name, message string) *corev1.Event {
		return &corev1.Event{Reason: "Failed", Message: message, InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: "u-1"}}
	}
	for name, tc := range map[string]struct {
		event           *corev1.Event
		object, message string
	}{
		"Image":       {event("Pod", "web-5d4f-x2v9k", `Back-off pulling image "web:1.2"`), "web-*", `Back-off pulling image "web:1.2"`},
		"NameInText":  {event("Pod", "web-5d4f-x2v9k", "Back-off restarting failed container web in pod web-5d4f-x2v9k_shop(u-1)"), "web-*", "Back-off restarting failed container web in pod web-*_shop"},
		"Quota":       {event("ReplicaSet", "web-5d4f", `Error creating: pods "web-5d4f-x2v9k" is forbidden: exceeded quota`), "web-*", `Error creating: pods "web-*" is forbidden: exceeded quota`},
		"OfTemplate":  {event("Job", "web", `Error creating: pods "web-x2v9k" is forbidden`), "web", `Error creating: pods "web-*" is forbidden`},
		"OtherName":   {event("PersistentVolumeClaim", "data-web-0", "no volume"), "data-web-0", "no volume"},
		"ImageOfName": {event("Pod", "web-5d4f-x2v9k", `image "web-front:1"`), "web-*", `image "web-front:1"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := subjectOf(tc.event, "work", "web")
			if got.Object != tc.object || got.Message != tc.message {
				t.Errorf("object %q, message %q; want %q, %q", got.Object, got.Message, tc.object, tc.message)
			}
		})
	}
}

func TestTextsAreBounded(t *testing.T) {
	got := Subject{
		Kind: "Pod\n", Reason: "Back Off\x1b[31m", Object: strings.Repeat("a", 1000), Message: "one\r\n\ttwo\u202e\x00three" + strings.Repeat("é", 1000),
	}.bounded()
	if got.Kind != "Pod" || got.Reason != "BackOff31m" || len(got.Object) != maxName {
		t.Errorf("kind %q, reason %q, object of %d bytes", got.Kind, got.Reason, len(got.Object))
	}
	if !strings.HasPrefix(got.Message, "one two threeé") || !strings.HasSuffix(got.Message, "é...") || len(got.Message) > maxMessage {
		t.Errorf("message of %d bytes: %q", len(got.Message), got.Message)
	}
	if got := (Subject{}).bounded(); got.Kind != "Unknown" || got.Reason != "Unknown" {
		t.Errorf("an Event without kind and reason becomes %+v", got)
	}
}

func TestASetIsBounded(t *testing.T) {
	s := set{}
	for i := range 1000 {
		if !s.add(Subject{Work: "noisy", Message: fmt.Sprint(i)}, epoch.Add(time.Duration(i)*time.Second)) {
			t.Fatal("a new Warning is not reported")
		}
	}
	if len(s) != maxOfWork || s[Subject{Work: "noisy", Message: "999"}] == nil {
		t.Errorf("%d Warnings of one Work, want the last %d", len(s), maxOfWork)
	}
	for i := range 1000 {
		s.add(Subject{Work: fmt.Sprint(i)}, epoch.Add(time.Hour))
	}
	if len(s) != maxOfMember {
		t.Errorf("%d Warnings of one member, want %d", len(s), maxOfMember)
	}
	if len(s.report(epoch.Add(2*time.Hour))) != 0 {
		t.Error("Warnings are reported after their time")
	}
}

func TestARepetitionIsReportedAfterTenMinutes(t *testing.T) {
	s, subject := set{}, Subject{Work: "web", Reason: "BackOff"}
	s.add(subject, epoch)
	s.report(epoch)
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{time.Minute, false}, {9 * time.Minute, false}, {10 * time.Minute, true}} {
		if got := s.add(subject, epoch.Add(tc.after)); got != tc.want {
			t.Errorf("after %s it is reported: %v, want %v", tc.after, got, tc.want)
		}
	}
	if got := s.report(epoch.Add(11 * time.Minute)); len(got) != 1 || !got[0].Last.Equal(epoch.Add(10*time.Minute)) {
		t.Errorf("the report is %+v", got)
	}
}

func TestAReportIsNotTrusted(t *testing.T) {
	var report []Warning
	for i := range 1000 {
		report = append(report, Warning{Subject{Work: "web", Message: fmt.Sprint(i)}, epoch})
	}
	if got := accept(report, epoch); len(got) != maxOfWork {
		t.Errorf("%d Warnings of a Work are accepted", len(got))
	}
	got := accept([]Warning{
		{Subject{Work: "future", Reason: "a b"}, epoch.Add(24 * time.Hour)}, {Subject{Work: "old"}, epoch.Add(-2 * time.Hour)},
	}, epoch).report(epoch)
	want := []Warning{{Subject{Work: "future", Kind: "Unknown", Reason: "ab"}, epoch}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCombine(t *testing.T) {
	pull := Subject{Kind: "Pod", Object: "web-*", Reason: "BackOff", Message: "Back-off pulling image"}
	quota := Subject{Kind: "ReplicaSet", Object: "web-*", Reason: "FailedCreate", Message: "exceeded quota"}
	byCluster := map[string][]Warning{}
	for i := range 12 {
		of := pull
		of.Work = fmt.Sprint("web-", i)
		byCluster[fmt.Sprintf("m%02d", i)] = []Warning{{of, epoch.Add(time.Duration(i) * time.Second)}}
	}
	byCluster["m00"] = append(byCluster["m00"], Warning{quota, epoch})
	byCluster["m01"] = append(byCluster["m01"], Warning{quota, epoch.Add(-lifetime)})
	got := combine(byCluster, epoch)
	if len(got) != 2 || !got[0].last.Equal(epoch.Add(11*time.Second)) {
		t.Fatalf("combined are %+v", got)
	}
	want := []string{"12 clusters (m00, m01, m02, m03, m04, ...): Pod web-*: Back-off pulling image", "m00: ReplicaSet web-*: exceeded quota"}
	if diff := cmp.Diff(want, []string{got[0].message(), got[1].message()}); diff != "" {
		t.Error(diff)
	}
	if got[0].grown(got[0]) || !got[0].grown(combined{clusters: []string{"m00"}, last: got[0].last}) || !got[0].grown(combined{clusters: got[0].clusters, last: epoch}) {
		t.Error("a Warning has to be published when it was repeated or is in further clusters, and otherwise not")
	}
	for i := range 100 {
		byCluster["m02"] = append(byCluster["m02"], Warning{Subject{Message: fmt.Sprint(i)}, epoch.Add(time.Minute)})
	}
	if got := combine(byCluster, epoch); len(got) != maxOfTemplate || got[0].Subject != pull {
		t.Errorf("%d of a template, the first is %+v", len(got), got[0])
	}
}

const (
	control = "11111111-0000"
	space1  = "karmada-es-eu"
)

func work(namespace, name, bindingNamespace string) *workv1alpha1.Work {
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
		workv1alpha2.ResourceBindingNamespaceAnnotation: bindingNamespace, workv1alpha2.ResourceBindingNameAnnotation: "web-deployment",
	}}}
	w.SetManifest([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"` + bindingNamespace + `","name":"web"}}`))
	return w
}

func reader(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{workv1alpha1.AddToScheme, workv1alpha2.AddToScheme, clusterv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestTheWorkOfAnObject(t *testing.T) {
	object := func(kind, namespace, name string, owner *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(kind + name)}}
		o.Kind = kind
		if owner != nil {
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: new(true)}}
		}
		return o
	}
	managed := func(o *metav1.PartialObjectMetadata, id, namespace, name string) *metav1.PartialObjectMetadata {
		o.Labels = map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}
		o.Annotations = map[string]string{
			workv1alpha1.ControlPlaneAnnotation: id, workv1alpha1.WorkNamespaceAnnotation: namespace, workv1alpha1.WorkNameAnnotation: name,
		}
		return o
	}
	web := managed(object("Deployment", "shop", "web", nil), control, space1, "web")
	replicas := managed(object("ReplicaSet", "shop", "web-1", web), control, space1, "web") // it has the annotations of its Deployment
	replicas.Labels = nil
	theirs := managed(object("Deployment", "shop", "theirs", nil), "22222222-0000", space1, "web")
	copied := managed(object("Deployment", "shop", "copied", nil), control, space1, "web")
	elsewhere := managed(object("Deployment", "shop", "elsewhere", nil), control, "karmada-es-us", "web")
	loop := object("ReplicaSet", "shop", "loop", nil)
	loop.OwnerReferences = object("", "", "", loop).OwnerReferences
	forged := object("Pod", "shop", "forged", replicas)
	forged.OwnerReferences[0].UID = "another"
	objects := []*metav1.PartialObjectMetadata{web, replicas, theirs, copied, elsewhere, loop, forged, object("Pod", "shop", "web-1-a", replicas),
		object("Pod", "shop", "web-1-b", replicas), object("Pod", "shop", "alone", nil), object("Pod", "shop", "of-theirs", theirs), object("Pod", "shop", "of-copied", copied)}
	reads := 0
	o := newOwners("eu", ownership.ControlPlane{ID: control}, reader(t, work(space1, "web", "shop")), clocktesting.NewFakePassiveClock(epoch))
	o.metadata = func(_ context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
		reads++
		for _, object := range objects {
			if object.Kind == kind.Kind && object.Name == key.Name && object.Namespace == key.Namespace {
				return object, nil
			}
		}
		return nil, apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	for _, tc := range []struct {
		reason, kind, name, uid string
		work                    string
		reads                   int
	}{
		{"the object of a Work itself", "Deployment", "web", "", "web", 1},
		{"a pod under it", "Pod", "web-1-a", "", "web", 2},
		{"a further pod, whose ReplicaSet is cached", "Pod", "web-1-b", "", "web", 1},
		{"the same pod", "Pod", "web-1-b", "", "web", 0},
		{"a pod of users", "Pod", "alone", "", "", 1},
		{"the same pod costs nothing", "Pod", "alone", "", "", 0},
		{"an object of another control plane", "Pod", "of-theirs", "", "", 2},
		{"an object with annotations that were copied", "Pod", "of-copied", "", "", 2},
		{"an object of a Work of another cluster", "Deployment", "elsewhere", "", "", 1},
		{"an object that is gone", "Pod", "gone", "", "", 1},
		{"an earlier object of the name", "Deployment", "web", "earlier", "", 1},
		{"a reference to an owner of another UID", "Pod", "forged", "", "", 2},
		{"an object that owns itself", "ReplicaSet", "loop", "", "", maxLevels},
	} {
		reads = 0
		ref := corev1.ObjectReference{APIVersion: "apps/v1", Kind: tc.kind, Namespace: "shop", Name: tc.name, UID: types.UID(tc.kind + tc.name)}
		if tc.uid != "" {
			ref.UID = types.UID(tc.uid)
		}
		got, err := o.of(t.Context(), ref, maxLevels)
		if err != nil || got.work != tc.work || reads != tc.reads {
			t.Errorf("%s: Work %q with %d reads, %v; want %q with %d", tc.reason, got.work, reads, err, tc.work, tc.reads)
		}
	}
}

// What an agent records reaches only templates of which its cluster has a Work.
func TestAnAgentConcernsItsOwnTemplates(t *testing.T) {
	binding := func(namespace string) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-deployment"}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "web", UID: "uid"}
		return b
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}}
	hub := reader(t, cluster, binding("shop"), binding("bank"), work(space1, "web", "shop"), work("karmada-es-us", "bank", "bank"))
	warning := func(work string) Warning {
		return Warning{Subject{Work: work, Kind: "Pod", Object: "web-*", Reason: "Failed", Message: "no image"}, epoch}
	}
	if err := Record(hub)(t.Context(), "eu", []Warning{warning("web"), warning("bank"), warning("karmada-es-us/bank"), warning("")}); err != nil {
		t.Fatal(err)
	}
	var published []events.Event
	p := newPublisher(hub, events.RecorderFunc(func(e events.Event) { published = append(published, e) }), clocktesting.NewFakePassiveClock(epoch))
	for _, r := range []request{{Cluster: "eu"}, {Binding: "shop/web-deployment"}, {Binding: "bank/web-deployment"}, {Binding: "shop/web-deployment"}} {
		if _, err := p.Reconcile(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if len(published) != 1 || published[0].Object.Namespace != "shop" || published[0].Message != "eu: Pod web-*: no image" ||
		published[0].Type != corev1.EventTypeWarning || !published[0].InMemory {
		t.Fatalf("published are %+v", published)
	}
	if published[0].Object.FieldPath == "" {
		t.Error("an Event of an agent may replace one of the stages")
	}
	// An agent that is not the agent of its Cluster any more has no effect.
	cluster.Spec.SyncMode = clusterv1alpha1.Push
	if err := hub.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if err := Record(hub)(t.Context(), "eu", []Warning{{warning("web").Subject, epoch.Add(time.Second)}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []request{{Cluster: "eu"}, {Binding: "shop/web-deployment"}} {
		if _, err := p.Reconcile(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if len(published) != 1 {
		t.Errorf("published are %+v", published)
	}
	// When the Cluster is gone, nothing is kept.
	if err := hub.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Reconcile(t.Context(), request{Cluster: "eu"}); err != nil || len(p.bindings)+len(p.published) != 0 {
		t.Errorf("%v; kept are %v and %v", err, p.bindings, p.published)
	}
}

func TestARecordIsARecord(t *testing.T) {
	hub := reader(t)
	if err := Record(hub)(t.Context(), "eu", nil); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: space1, Name: workv1alpha1.EventsRecordName}
	found := &workv1alpha1.Work{}
	if err := hub.Get(t.Context(), key, found); !apierrors.IsNotFound(err) {
		t.Fatalf("a record without an event was written: %v", err)
	}
	var warnings []Warning
	for i := range maxOfMember {
		warnings = append(warnings, Warning{Subject{Work: "web", Kind: "Pod", Object: fmt.Sprint("pod-", i), Reason: "Failed", Message: strings.Repeat("<", maxMessage)}, epoch})
	}
	if err := Record(hub)(t.Context(), "eu", warnings); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), key, found); err != nil {
		t.Fatal(err)
	}
	if !workv1alpha1.IsRecord(found) || len(workv1alpha1.Validate(found)) != 0 {
		t.Errorf("it is no record: %v", workv1alpha1.Validate(found))
	}
	for _, m := range found.Spec.Workload.Manifests {
		if len(m.Raw) > workv1alpha1.MaxRecordedEventBytes {
			t.Fatalf("an event has %d bytes", len(m.Raw))
		}
	}
	if got := decode(found); !slices.EqualFunc(warnings, got, func(a, b Warning) bool { return a.Subject == b.Subject && a.Last.Equal(b.Last) }) {
		t.Errorf("what was recorded is read as %d other Warnings", len(got))
	}
}

// Events in a namespace without propagated objects leave nothing: no memory, no read in the member.
func TestEventsOfOtherNamespacesAreLeftOut(t *testing.T) {
	clock := clocktesting.NewFakeClock(epoch)
	c := &Collector{Deps: Deps{Clock: clock}, spaces: map[string]map[string]int{}, seen: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n"}, []string{"result"})}
	m := &collected{Collector: c, cluster: "eu", conn: &member.Conn{}}
	event := func(namespace string, last time.Time) corev1.Event {
		return corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "p"}, Type: corev1.EventTypeWarning,
			LastTimestamp: metav1.NewTime(last),
		}
	}
	source := m.reduced(memberwatch.FromClient(nil,
		func(context.Context, metav1.ListOptions) (*corev1.EventList, error) {
			list := &corev1.EventList{Items: []corev1.Event{event("shop", epoch), event("shop", epoch.Add(-lifetime))}}
			for range 1000 {
				list.Items = append(list.Items, event("noisy", epoch))
			}
			return list, nil
		},
		func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			changes := watch.NewFakeWithChanSize(3000, false)
			for range 1000 {
				noisy := event("noisy", epoch)
				changes.Modify(&noisy)
			}
			ours, bookmark := event("shop", epoch), corev1.Event{}
			changes.Add(&ours)
			changes.Delete(&ours)
			changes.Action(watch.Bookmark, &bookmark)
			changes.Stop()
			return changes, nil
		}))
	read := func() (listed []corev1.Event, watched []watch.EventType) {
		list, err := source.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		changes, err := source.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for {
			change, err := changes.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			watched = append(watched, change.Type)
		}
		return list.(*corev1.EventList).Items, watched
	}
	if listed, watched := read(); len(listed) != 0 || !slices.Equal(watched, []watch.EventType{watch.Bookmark}) {
		t.Errorf("without Works %d are listed, watched are %v", len(listed), watched)
	}
	c.count(work(space1, "web", "shop"), 1)
	listed, watched := read()
	if len(listed) != 1 || listed[0].ManagedFields != nil || !slices.Equal(watched, []watch.EventType{watch.Added, watch.Bookmark}) {
		t.Errorf("with a Work %d are listed, watched are %v", len(listed), watched)
	}
	c.count(work(space1, "web", "shop"), -1)
	if listed, _ := read(); len(listed) != 0 || len(c.spaces) != 0 {
		t.Errorf("after the Work %d are listed", len(listed))
	}
}

func BenchmarkEventsOfOtherNamespaces(b *testing.B) {
	c := &Collector{Deps: Deps{Clock: clocktesting.NewFakeClock(epoch)}, spaces: map[string]map[string]int{"eu": {"shop": 1}},
		seen: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n"}, []string{"result"})}
	m := &collected{Collector: c, cluster: "eu", conn: &member.Conn{}}
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "noisy"}, InvolvedObject: corev1.ObjectReference{Namespace: "noisy"}, Type: corev1.EventTypeWarning}
	b.ReportAllocs()
	for b.Loop() {
		m.needed(e)
	}
}

// TestAnEventOfAMemberIsCut: a megabyte of text in each of two thousand Events that wait would be two gigabytes.
func TestAnEventOfAMemberIsCut(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "e", Annotations: map[string]string{"a": long}, Finalizers: []string{long}},
		InvolvedObject: corev1.ObjectReference{Kind: long, APIVersion: long, Name: long, UID: types.UID(long), FieldPath: long, ResourceVersion: long},
		Type:           corev1.EventTypeWarning, Reason: long, Message: long, Action: long, ReportingController: long, ReportingInstance: long,
		Related: &corev1.ObjectReference{Name: long}, Source: corev1.EventSource{Component: long},
	}
	reduce(e)
	if n := bounds.SizeOf(e); n > 16<<10 {
		t.Errorf("an Event takes %d bytes", n)
	}
	m := &collected{Collector: &Collector{seen: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n"}, []string{"result"})}, incoming: make(chan *corev1.Event, waiting)}
	for range 2 * waiting {
		if kept, _, err := m.Reduce(e); kept != nil || err != nil {
			t.Fatal(kept, err)
		}
	}
	if int64(len(m.incoming)) != bounds.Events.Kept.Objects {
		t.Errorf("%d Events wait", len(m.incoming))
	}
}
