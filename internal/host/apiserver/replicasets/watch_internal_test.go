package replicasets

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/apps"
)

// etcd is storage of one collection that the test feeds. Progress is what it reports on request.
type etcd struct {
	storage.Interface
	list     func(out runtime.Object)
	watch    *watch.FakeWatcher
	progress chan struct{}
}

func (e etcd) GetList(_ context.Context, _ string, _ storage.ListOptions, out runtime.Object) error {
	e.list(out)
	return nil
}

func (e etcd) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return e.watch, nil
}
func (etcd) Versioner() storage.Versioner                              { return storage.APIObjectVersioner{} }
func (etcd) GetCurrentResourceVersion(context.Context) (uint64, error) { return 10, nil }
func (e etcd) RequestWatchProgress(context.Context) error {
	select {
	case e.progress <- struct{}{}:
	default:
	}
	return nil
}

func at(revision int) func(*apps.Deployment) {
	return func(d *apps.Deployment) { d.ResourceVersion = strconv.Itoa(revision) }
}

func image(name string) func(*apps.Deployment) {
	return func(d *apps.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
}

func stored(name string, revision int) *apps.ReplicaSet {
	return &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: strconv.Itoa(revision)}}
}

// both is a storage with one Deployment at revision 5, and what feeds it.
func both(t *testing.T) (s *Storage, replicaSets, deployments etcd) {
	t.Helper()
	replicaSets = etcd{watch: watch.NewFakeWithChanSize(10, false), progress: make(chan struct{}, 1), list: func(out runtime.Object) {
		out.(*apps.ReplicaSetList).Items = []apps.ReplicaSet{*stored("own", 4)}
	}}
	deployments = etcd{watch: watch.NewFakeWithChanSize(10, false), progress: make(chan struct{}, 1), list: func(out runtime.Object) {
		out.(*apps.DeploymentList).Items = []apps.Deployment{*deployment("web", at(5))}
	}}
	return &Storage{
		Interface: replicaSets, stored: collection{replicaSets, replicaSets, "/replicasets"},
		deployments: &collection{deployments, deployments, "/deployments"},
	}, replicaSets, deployments
}

func watching(t *testing.T, s *Storage, from string) watch.Interface {
	t.Helper()
	predicate := storage.Everything
	predicate.AllowWatchBookmarks = true
	w, err := s.watchBoth(t.Context(), "/replicasets/", storage.ListOptions{ResourceVersion: from, Predicate: predicate, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

func next(w watch.Interface) string {
	event := <-w.ResultChan()
	rs := event.Object.(*apps.ReplicaSet)
	return fmt.Sprintf("%s %s %s", event.Type, rs.Name, rs.ResourceVersion)
}

func expectNext(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	for _, want := range want {
		if got := next(w); got != want {
			t.Fatalf("it sends %q, want %q", got, want)
		}
	}
}

// TestOrderOfAMergedWatch: who resumes from what was sent last misses nothing.
func TestOrderOfAMergedWatch(t *testing.T) {
	s, replicaSets, deployments := both(t)
	w := watching(t, s, "10")
	first, second := derived(t, deployment("web")), derived(t, deployment("web", image("nginx:2")))

	// One of a later revision waits for the earlier one of the other side.
	replicaSets.watch.Modify(stored("own", 12))
	<-deployments.progress
	deployments.watch.Modify(deployment("web", at(11)))
	expectNext(t, w, "MODIFIED "+first.Name+" 11")
	deployments.watch.Action(watch.Bookmark, deployment("", at(13)))
	expectNext(t, w, "MODIFIED own 12")

	// Another template is another ReplicaSet; the end of the earlier one is before it.
	deployments.watch.Modify(deployment("web", image("nginx:2"), at(20)))
	<-replicaSets.progress
	replicaSets.watch.Action(watch.Bookmark, stored("", 25))
	expectNext(t, w, "DELETED "+first.Name+" 19", "ADDED "+second.Name+" 20")
	deployments.watch.Delete(deployment("web", at(22)))
	expectNext(t, w, "DELETED "+second.Name+" 22")
	deployments.watch.Action(watch.Bookmark, deployment("", at(30)))
	expectNext(t, w, "BOOKMARK  25")
}

func TestInitialEventsOfAMergedWatch(t *testing.T) {
	s, _, _ := both(t)
	w := watching(t, s, "")
	got := []string{next(w), next(w)}
	slices.Sort(got)
	if want := []string{"ADDED own 4", "ADDED " + derived(t, deployment("web")).Name + " 5"}; !slices.Equal(got, want) {
		t.Errorf("it sends %q, want %q", got, want)
	}
}

func TestAMergedWatchEndsWithEitherSide(t *testing.T) {
	for name, end := range map[string]func(replicaSets, deployments etcd, w watch.Interface){
		"Stored":  func(replicaSets, _ etcd, _ watch.Interface) { replicaSets.watch.Stop() },
		"Derived": func(_, deployments etcd, _ watch.Interface) { deployments.watch.Stop() },
		"Client":  func(_, _ etcd, w watch.Interface) { w.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			s, replicaSets, deployments := both(t)
			w := watching(t, s, "10")
			end(replicaSets, deployments, w)
			if event, open := <-w.ResultChan(); open {
				t.Errorf("it sends %v", event)
			}
		})
	}
}
