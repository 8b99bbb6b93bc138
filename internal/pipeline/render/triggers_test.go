package render

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/expectations"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/triggers"
)

// fleet is a stage with three bindings: web (label app=web) in m1 and m2, db in m2, and config in m1 of namespace other.
func fleet(t *testing.T) (*stage, *triggers.Triggers) {
	t.Helper()
	binding := func(namespace, kind, name string, clusters ...string) *workv1alpha2.ResourceBinding {
		b := nginxBinding(clusters...)
		b.Namespace, b.Name = namespace, workv1alpha2.BindingName(kind, name)
		b.Spec.Resource.Namespace, b.Spec.Resource.Kind, b.Spec.Resource.Name = namespace, kind, name
		return b
	}
	s := newStage(t, threeClusters(
		binding("shop", "Deployment", "web", "m1", "m2"),
		binding("shop", "StatefulSet", "db", "m2"),
		binding("other", "Deployment", "api", "m1"),
	)...)
	s.put(parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {app: web}}}"))
	s.put(parse(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: other}}"))
	return s, &triggers.Triggers{Reader: s.client, Templates: s.templates, Conversion: s.reconciler.deps.Conversion, Namespaced: true}
}

func newQueue() queue {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
}

func drain(q queue) []string {
	names := []string{}
	for q.Len() > 0 {
		item, _ := q.Get()
		q.Done(item)
		names = append(names, item.String())
	}
	slices.Sort(names)
	return names
}

func selecting(kind, name string, labels map[string]string) []policyv1alpha1.ResourceSelector {
	selector := policyv1alpha1.ResourceSelector{APIVersion: "apps/v1", Kind: kind, Name: name}
	if labels != nil {
		selector.LabelSelector = &metav1.LabelSelector{MatchLabels: labels}
	}
	return []policyv1alpha1.ResourceSelector{selector}
}

func TestPolicyChangesReachWhatTheyTouch(t *testing.T) {
	rule := func(clusters ...string) []policyv1alpha1.RuleWithCluster {
		return []policyv1alpha1.RuleWithCluster{{TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: clusters}}}
	}
	cases := map[string]struct {
		namespace string
		spec      policyv1alpha1.OverrideSpec
		want      []string
	}{
		"Everything":          {"", policyv1alpha1.OverrideSpec{}, []string{"other/api-deployment", "shop/db-statefulset", "shop/web-deployment"}},
		"OwnNamespace":        {"shop", policyv1alpha1.OverrideSpec{}, []string{"shop/db-statefulset", "shop/web-deployment"}},
		"ByKind":              {"", policyv1alpha1.OverrideSpec{ResourceSelectors: selecting("Deployment", "", nil)}, []string{"other/api-deployment", "shop/web-deployment"}},
		"ByName":              {"", policyv1alpha1.OverrideSpec{ResourceSelectors: selecting("Deployment", "api", nil)}, []string{"other/api-deployment"}},
		"ByLabel":             {"", policyv1alpha1.OverrideSpec{ResourceSelectors: selecting("Deployment", "", map[string]string{"app": "web"})}, []string{"shop/web-deployment"}},
		"ByCluster":           {"", policyv1alpha1.OverrideSpec{OverrideRules: rule("m2")}, []string{"shop/db-statefulset", "shop/web-deployment"}},
		"ClusterWithoutWorks": {"", policyv1alpha1.OverrideSpec{OverrideRules: rule("m3")}, []string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, triggers := fleet(t)
			var policy policyv1alpha1.Override = &policyv1alpha1.ClusterOverridePolicy{Spec: tc.spec}
			if tc.namespace != "" {
				policy = &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace}, Spec: tc.spec}
			}
			for verb, send := range map[string]func(queue){
				"create": func(q queue) { triggers.PolicyChanges().Create(t.Context(), crevent.CreateEvent{Object: policy}, q) },
				"delete": func(q queue) { triggers.PolicyChanges().Delete(t.Context(), crevent.DeleteEvent{Object: policy}, q) },
			} {
				q := newQueue()
				send(q)
				if diff := cmp.Diff(tc.want, drain(q)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", verb, diff)
				}
			}
			q := newQueue()
			triggers.PolicyChanges().Create(t.Context(), crevent.CreateEvent{Object: policy, IsInInitialList: true}, q)
			triggers.PolicyChanges().Update(t.Context(), crevent.UpdateEvent{ObjectOld: policy, ObjectNew: policy}, q)
			if got := drain(q); len(got) != 0 {
				t.Errorf("nothing changed, but %v are queued", got)
			}
		})
	}
}

func TestPolicyUpdateReachesOldAndNew(t *testing.T) {
	_, triggers := fleet(t)
	before := &policyv1alpha1.ClusterOverridePolicy{Spec: policyv1alpha1.OverrideSpec{ResourceSelectors: selecting("Deployment", "api", nil)}}
	after := &policyv1alpha1.ClusterOverridePolicy{Spec: policyv1alpha1.OverrideSpec{ResourceSelectors: selecting("StatefulSet", "db", nil)}}
	q := newQueue()
	triggers.PolicyChanges().Update(t.Context(), crevent.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	if diff := cmp.Diff([]string{"other/api-deployment", "shop/db-statefulset"}, drain(q)); diff != "" {
		t.Errorf("what was overridden and what now is (-want +got):\n%s", diff)
	}
}

func TestClusterChangesReachWhatTheyTouch(t *testing.T) {
	s, triggers := fleet(t)
	gold := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}}
	policy := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gold"},
		Spec:       policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{TargetCluster: gold}}},
	}
	if err := s.client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	update := func(name string, before, after map[string]string) []string {
		q := newQueue()
		triggers.ClusterChanges().Update(t.Context(), crevent.UpdateEvent{ObjectOld: cluster(name, before), ObjectNew: cluster(name, after)}, q)
		return drain(q)
	}
	goldLabel := map[string]string{"tier": "gold"}
	if diff := cmp.Diff([]string{"shop/web-deployment"}, update("m1", goldLabel, nil)); diff != "" {
		t.Errorf("m1 is not selected any more; only web is both in m1 and in the policy's namespace (-want +got):\n%s", diff)
	}
	if got := update("m1", goldLabel, map[string]string{"tier": "gold", "new": "label"}); len(got) != 0 {
		t.Errorf("the policy selects m1 before and after, but %v are queued", got)
	}
	if got := update("m3", nil, goldLabel); len(got) != 0 {
		t.Errorf("nothing goes to m3, but %v are queued", got)
	}
	q := newQueue()
	triggers.ClusterChanges().Create(t.Context(), crevent.CreateEvent{Object: cluster("m1", nil)}, q)
	if diff := cmp.Diff([]string{"other/api-deployment", "shop/web-deployment"}, drain(q)); diff != "" {
		t.Errorf("a cluster appears that bindings wait for (-want +got):\n%s", diff)
	}
	another := cluster("m1", nil)
	another.UID = "another"
	triggers.ClusterChanges().Update(t.Context(), crevent.UpdateEvent{ObjectOld: cluster("m1", nil), ObjectNew: another}, q)
	if diff := cmp.Diff([]string{"other/api-deployment", "shop/web-deployment"}, drain(q)); diff != "" {
		t.Errorf("a cluster was made anew under the name of one (-want +got):\n%s", diff)
	}
}

func TestBindingChanges(t *testing.T) {
	cases := map[string]struct {
		edit func(*workv1alpha2.ResourceBinding)
		want bool
	}{
		"NewSpec": {func(b *workv1alpha2.ResourceBinding) { b.Generation++ }, true},
		"Deleted": {func(b *workv1alpha2.ResourceBinding) { b.DeletionTimestamp = &metav1.Time{} }, true},
		"GotItsID": {func(b *workv1alpha2.ResourceBinding) {
			b.Labels = map[string]string{workv1alpha2.ResourceBindingPermanentIDLabel: "x"}
		}, true},
		"Claimed": {func(b *workv1alpha2.ResourceBinding) {
			b.Labels = map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: "x"}
			b.Annotations = map[string]string{policyv1alpha1.PropagationPolicyNamespaceAnnotation: "shop", policyv1alpha1.PropagationPolicyNameAnnotation: "p"}
		}, true},
		"NewsFromMembers": {func(b *workv1alpha2.ResourceBinding) {
			b.Status.AggregatedStatus = make([]workv1alpha2.AggregatedStatusItem, 1)
		}, false},
		"Observed": {func(b *workv1alpha2.ResourceBinding) { b.Status.SchedulerObservedGeneration++ }, false},
		"Refused": {func(b *workv1alpha2.ResourceBinding) {
			b.Status.Conditions = []metav1.Condition{workv1alpha2.NotRenderedCondition(2, workv1alpha2.OverrideFailedReason, "no such path")}
		}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := nginxBinding("m1"), nginxBinding("m1")
			tc.edit(after)
			if got := bindingChanges().Update(crevent.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	before, after := nginxBinding("m1"), nginxBinding("m1")
	for _, b := range []*workv1alpha2.ResourceBinding{before, after} {
		b.Generation, b.Spec.Replicas = 3, 99
	}
	after.Status.SchedulerObservedGeneration = 3
	if !bindingChanges().Update(crevent.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("the end of the wait for the scheduler has to be let through")
	}
	before, after = nginxBinding(), nginxBinding()
	before.Status.SchedulerObservedGeneration = 0
	if !bindingChanges().Update(crevent.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("that there are no clusters for it has to be let through: a namesake may have left Works")
	}
}

func TestWorkChanges(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	work := s.work("m1")
	changes := s.reconciler.workChanges()
	const owner = "default/nginx-deployment"

	send := func(reason string, want []string, event func(queue)) {
		t.Helper()
		q := newQueue()
		event(q)
		if diff := cmp.Diff(want, drain(q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
	}
	send("the event of our own create", []string{}, func(q queue) {
		changes.Create(t.Context(), crevent.CreateEvent{Object: work}, q)
	})
	status := edited(work, "100", func(w *workv1alpha1.Work) { w.Status.Conditions = []metav1.Condition{{Type: "Applied"}} })
	send("news from the member", []string{}, func(q queue) {
		changes.Update(t.Context(), crevent.UpdateEvent{ObjectOld: work, ObjectNew: status}, q)
	})
	meddled := edited(status, "101", func(w *workv1alpha1.Work) { w.Generation++ })
	send("the spec was changed", []string{owner}, func(q queue) {
		changes.Update(t.Context(), crevent.UpdateEvent{ObjectOld: status, ObjectNew: meddled}, q)
	})
	stripped := edited(meddled, "102", func(w *workv1alpha1.Work) { w.Annotations = nil })
	send("the annotations that name the binding were removed", []string{owner}, func(q queue) {
		changes.Update(t.Context(), crevent.UpdateEvent{ObjectOld: meddled, ObjectNew: stripped}, q)
	})
	send("it is gone", []string{owner}, func(q queue) {
		changes.Delete(t.Context(), crevent.DeleteEvent{Object: work}, q)
	})
	send("it is found at the start", []string{owner}, func(q queue) {
		changes.Create(t.Context(), crevent.CreateEvent{Object: work, IsInInitialList: true}, q)
	})
	byHand := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: "by-hand"}}
	send("it was made by hand", []string{}, func(q queue) {
		changes.Create(t.Context(), crevent.CreateEvent{Object: byHand}, q)
	})
	other := edited(work, "1", func(w *workv1alpha1.Work) {
		w.Annotations = map[string]string{workv1alpha2.ClusterResourceBindingNameAnnotation: "x"}
	})
	send("it is for the loop of the other scope", []string{}, func(q queue) {
		changes.Create(t.Context(), crevent.CreateEvent{Object: other}, q)
	})
}

func edited(work *workv1alpha1.Work, version string, edit func(*workv1alpha1.Work)) *workv1alpha1.Work {
	out := work.DeepCopy()
	out.ResourceVersion = version
	edit(out)
	return out
}

func TestStaleCacheIsHarmless(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	// The cache has not received the watch event yet: Works that were written are used instead.
	s.reconciler.client = &blind{Client: s.client}
	wantWrites(t, "the Work that was written is cached", s.mustReconcile(binding))
	// A process that has just started has no writes.
	s.reconciler.writes = expectations.Writes[*workv1alpha1.Work]{}
	writes, result, err := s.reconcile(binding)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %+v, %v; want a requeue soon and no error", result, err)
	}
	wantWrites(t, "the create is refused", writes, "create "+workM1)
	if len(s.events) != 0 {
		t.Errorf("events are %v, want none", s.events)
	}
}

// TestRollbackBeforeTheCacheCaughtUp changes a template and changes it back before the watch events arrive.
func TestRollbackBeforeTheCacheCaughtUp(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	first := s.work("m1")
	s.reconciler.writes.Observe(first)
	s.put(parse(t, strings.Replace(nginx, "nginx:1.27", "nginx:1.28", 1)))
	s.mustReconcile(binding)
	s.put(parse(t, nginx))
	s.reconciler.client = &blind{Client: s.client, shows: first}
	wantWrites(t, "the cache has the wanted Work, the API server has not", s.mustReconcile(binding), "patch "+workM1)
}

// TestAChangeRightBeforeOurWriteIsSeen edits a Work, and changes something else of the Work that render writes, before the
// watch event of the edit arrives.
func TestAChangeRightBeforeOurWriteIsSeen(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	first := s.work("m1")
	s.reconciler.writes.Observe(first)
	meddled := s.work("m1")
	s.change(meddled, func() {
		manifest := &meddled.Spec.Workload.Manifests[0]
		manifest.Raw = []byte(strings.Replace(string(manifest.Raw), "nginx:1.27", "nginx:broken", 1))
	})
	s.change(binding, func() { binding.Spec.PreserveResourcesOnDeletion = new(true) })
	s.reconciler.client = &blind{Client: s.client, shows: first}
	_, result, err := s.reconcile(binding)
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %+v, %v; want a requeue soon and no error", result, err)
	}
	s.mustReconcile(binding)
	if raw := string(s.work("m1").Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, "nginx:1.27") {
		t.Errorf("the edit stays: %s", raw)
	}
	wantWrites(t, "all is well", s.mustReconcile(binding))
}

// TestAWorkThatTheCacheNeverHadIsCreatedAgain deletes a Work of which the cache received neither
// creation nor deletion.
func TestAWorkThatTheCacheNeverHadIsCreatedAgain(t *testing.T) {
	binding := nginxBinding("m1")
	s := newStage(t, threeClusters(binding)...)
	s.mustReconcile(binding)
	work := s.work("m1")
	s.change(work, func() { work.Finalizers = nil })
	if err := s.client.Delete(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	s.put(parse(t, strings.Replace(nginx, "nginx:1.27", "nginx:1.28", 1)))
	if _, _, err := s.reconcile(binding); err == nil {
		t.Fatal("a Work that is not there was written")
	}
	wantWrites(t, "it is known to be gone", s.mustReconcile(binding), "create "+workM1)
}

// failingReader fails a number of lists.
type failingReader struct {
	client.Reader
	failures int
}

func (r *failingReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if r.failures--; r.failures >= 0 {
		return errors.New("the list failed")
	}
	return r.Reader.List(ctx, list, options...)
}

// TestEventsAreNotLostWhenAListFails: a worker repeats what a handler of events could not do.
func TestEventsAreNotLostWhenAListFails(t *testing.T) {
	s, triggers := fleet(t)
	triggers.Reader = &failingReader{s.client, 2}
	s.reconciler.triggers = triggers
	q := newQueue()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m2"}}
	triggers.ClusterChanges().Create(t.Context(), crevent.CreateEvent{Object: cluster}, q)
	if got := drain(q); !slices.Equal(got, []string{"/"}) {
		t.Fatalf("enqueued are %v, want the request for what failed", got)
	}
	if _, err := s.reconciler.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Error("another failure is not an error")
	}
	if _, err := s.reconciler.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Error(err)
	}
	if got := drain(q); len(got) != 2 {
		t.Errorf("enqueued are %v, want both bindings of the cluster", got)
	}
}
