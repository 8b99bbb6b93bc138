package clusterstatus

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
)

const (
	// kindsPause lets a member establish a definition, which takes it some 50 ms, before its API list is read again.
	kindsPause = 250 * time.Millisecond
	// pageSize bounds what a list of nodes or pods holds in memory at a time.
	pageSize = 500
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// watchNews is what to do when something changed.
type watchNews struct{ summary, kinds func() }

// resourceWatch follows the nodes, pods and definitions of one member.
type resourceWatch struct {
	tally   *summary.Resources
	refused *refusals
	devices *deviceWatch
	stop    context.CancelFunc
	ctx     context.Context // of the watches, which begin at different times
}

// watchResources starts following a member. The watches wait by themselves while the member is unavailable.
func watchResources(ctx context.Context, group *watchGroup, conn *member.Conn, news watchNews) *resourceWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &resourceWatch{tally: summary.NewResources(), refused: &refusals{news: news.summary}, stop: cancel, ctx: ctx}
	cfg, client := conn.RESTConfig(), conn.PatientHTTPClient()
	cfg.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfigAndClient(cfg, client)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot watch the resources of a cluster", "cluster", conn.Name())
		return w
	}
	heads, err := metadata.NewForConfigAndClient(conn.RESTConfig(), client)
	if err != nil {
		log.FromContext(ctx).Error(err, "Cannot watch the definitions of a cluster", "cluster", conn.Name())
		return w
	}
	w.devices = &deviceWatch{kube: draclient.New(kube), meta: heads, tally: summary.NewDevices(), news: news.summary, group: group}
	group.follow(ctx, nodeLister(kube, w.refused), &corev1.Node{}, sink{
		reset: func() { w.tally.ResetNodes(); w.refused.note("nodes", nil) },
		set:   func(obj any) bool { n, ok := obj.(*corev1.Node); return ok && w.tally.SetNode(n) },
		drop:  func(obj any) bool { n, ok := obj.(*corev1.Node); return ok && w.tally.DropNode(n.Name) },
		news:  news.summary,
	})
	group.follow(ctx, podLister(kube, w.refused), &corev1.Pod{}, sink{
		reset: func() { w.tally.ResetPods(); w.refused.note("pods", nil) },
		set:   func(obj any) bool { p, ok := obj.(*corev1.Pod); return ok && w.tally.SetPod(p) },
		drop:  func(obj any) bool { p, ok := obj.(*corev1.Pod); return ok && w.tally.DropPod(p.UID) },
		news:  news.summary,
	})
	changed := func(any) bool { return true }
	group.follow(ctx, definitionLister(heads), &metav1.PartialObjectMetadata{}, sink{
		reset: func() {}, set: changed, drop: changed, news: news.kinds,
	})
	return w
}

// writeTo fills in what is known of nodes and resources; before the first full list everything stays as it was. What the
// control plane may not read is absent, and a condition says so.
func (w *resourceWatch) writeTo(status *clusterv1alpha1.ClusterStatus, models []clusterv1alpha1.ResourceModel) {
	if reasons := w.refused.list(); len(reasons) > 0 {
		status.NodeSummary, status.ResourceSummary = nil, nil
		meta.SetStatusCondition(&status.Conditions, clusterv1alpha1.ResourcesNotReadable(strings.Join(reasons, "; ")))
		return
	}
	meta.RemoveStatusCondition(&status.Conditions, clusterv1alpha1.ClusterConditionResourcesReadable)
	nodes, resources := w.tally.Summary(models)
	if nodes != nil {
		w.devices.writeTo(resources, status.ResourceSummary)
		status.NodeSummary, status.ResourceSummary = nodes, resources
	}
}

// serve tells which kinds the member serves: some are watched only then.
func (w *resourceWatch) serve(apis apiList) { w.devices.follow(w.ctx, apis) }

// watchGroup is the watches that run.
type watchGroup struct{ sync.WaitGroup }

func (g *watchGroup) follow(ctx context.Context, lw cache.ListerWatcher, example runtime.Object, s sink) {
	r := cache.NewReflectorWithOptions(lw, example, s, cache.ReflectorOptions{})
	r.WatchListPageSize = pageSize
	g.Go(func() { r.RunWithContext(ctx) })
}

// refusals are the resources that the member does not let the control plane list, and why.
type refusals struct {
	news func()

	mu      sync.Mutex
	reasons map[string]string
}

// note takes note of how a request for a resource ended.
func (r *refusals) note(resource string, err error) {
	if err != nil && !apierrors.IsForbidden(err) {
		return // says nothing about rights
	}
	r.mu.Lock()
	_, before := r.reasons[resource]
	switch {
	case err == nil:
		delete(r.reasons, resource)
	case r.reasons == nil:
		r.reasons = map[string]string{resource: err.Error()}
	default:
		r.reasons[resource] = err.Error()
	}
	r.mu.Unlock()
	if before != (err != nil) {
		r.news()
	}
}

func (r *refusals) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Values(r.reasons))
}

func nodeLister(kube kubernetes.Interface, refused *refusals) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := kube.CoreV1().Nodes().List(ctx, o)
			refused.note("nodes", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return kube.CoreV1().Nodes().Watch(ctx, o)
		},
	}
}

// podLister leaves out pods that have finished: they take nothing.
func podLister(kube kubernetes.Interface, refused *refusals) cache.ListerWatcher {
	const live = "status.phase!=Succeeded,status.phase!=Failed"
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = live
			list, err := kube.CoreV1().Pods("").List(ctx, o)
			refused.note("pods", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = live
			return kube.CoreV1().Pods("").Watch(ctx, o)
		},
	}
}

func definitionLister(heads metadata.Interface) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return heads.Resource(definitions).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return heads.Resource(definitions).Watch(ctx, o)
		},
	}
}

// sink takes what a reflector delivers and keeps none of it.
type sink struct {
	reset     func()
	set, drop func(obj any) bool
	news      func()
}

// Add implements cache.ReflectorStore.
func (s sink) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s sink) Update(obj any) error {
	if s.set(obj) {
		s.news()
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (s sink) Delete(obj any) error {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if s.drop(obj) {
		s.news()
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s sink) Replace(objs []any, _ string) error {
	s.reset()
	for _, obj := range objs {
		s.set(obj)
	}
	s.news()
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to send again.
func (s sink) Resync() error { return nil }

var _ cache.ReflectorStore = sink{}
