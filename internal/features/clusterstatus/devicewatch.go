package clusterstatus

import (
	"context"
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	draclient "k8s.io/dynamic-resource-allocation/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
)

// deviceWatch follows the devices of one member: its classes, and only while there are any, its slices and claims. A
// member without classes costs one watch that says nothing. Of a member that serves v1alpha2 it also follows the names of
// that version's classes.
type deviceWatch struct {
	// kube finds out which version the member serves, and translates.
	kube  *draclient.Client
	meta  metadata.Interface
	tally *summary.Devices
	news  func()
	group *watchGroup

	running bool
	// stopOld ends the watch of classes of v1alpha2, if it runs.
	stopOld context.CancelFunc

	mu sync.Mutex
	// stop ends the watches of slices and claims, if they run.
	stop context.CancelFunc
}

// oldClasses are the classes of v1alpha2.
var oldClasses = resourcev1alpha2.GroupVersion.WithResource(resourcev1alpha2.ResourcePluralResourceClass)

// countable says that a member has DeviceClasses, in whichever version.
func countable(apis apiList) bool {
	return slices.ContainsFunc([]string{"v1", "v1beta2", "v1beta1"}, func(version string) bool {
		return apis.serves(resourcev1.GroupName+"/"+version, "DeviceClass")
	})
}

// follow starts the watches of classes, once, when the member turns out to have such.
func (w *deviceWatch) follow(ctx context.Context, apis apiList) {
	if w == nil {
		return
	}
	if !w.running && countable(apis) {
		w.running = true
		classes := w.kube.DeviceClasses()
		w.group.follow(ctx, listWatch(classes.List, classes.Watch), &resourcev1.DeviceClass{}, sink{
			reset: w.tally.ResetClasses,
			set:   func(obj any) bool { c, ok := obj.(*resourcev1.DeviceClass); return ok && w.tally.SetClass(c) },
			drop:  func(obj any) bool { c, ok := obj.(*resourcev1.DeviceClass); return ok && w.tally.DropClass(c.Name) },
			news:  func() { w.classesChanged(ctx) },
		})
	}
	switch served := apis.serves(resourcev1alpha2.GroupVersion.String(), resourcev1alpha2.KindResourceClass); {
	case !served && apis.condition.Status == metav1.ConditionTrue: // it was upgraded, or never had them
		if w.stopOld != nil {
			w.stopOld()
			w.stopOld = nil
		}
		w.tally.NoOldClasses()
	case served && w.stopOld == nil:
		ctx, w.stopOld = context.WithCancel(ctx)
		classes := w.meta.Resource(oldClasses)
		w.group.follow(ctx, listWatch(classes.List, classes.Watch), &metav1.PartialObjectMetadata{}, sink{
			reset: w.tally.ResetOldClasses,
			set:   func(obj any) bool { c, ok := obj.(metav1.Object); return ok && w.tally.SetOldClass(c.GetName()) },
			drop:  func(obj any) bool { c, ok := obj.(metav1.Object); return ok && w.tally.DropOldClass(c.GetName()) },
			news:  w.news,
		})
	}
}

// classesChanged looks at all devices anew: which class a device is in was decided when it was seen.
func (w *deviceWatch) classesChanged(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	w.tally.Unlist()
	defer w.news()
	if !w.tally.AnyClass() || ctx.Err() != nil {
		return
	}
	ctx, w.stop = context.WithCancel(ctx)
	// What an ended watch still delivers must not count.
	live := func(set func() bool) bool { return ctx.Err() == nil && set() }
	ifLive := func(reset func()) func() {
		return func() { live(func() bool { reset(); return true }) }
	}
	published, claims := w.kube.ResourceSlices(), w.kube.ResourceClaims(metav1.NamespaceAll)
	w.group.follow(ctx, listWatch(published.List, published.Watch), &resourcev1.ResourceSlice{}, sink{
		reset: ifLive(w.tally.ResetSlices),
		set: func(obj any) bool {
			s, ok := obj.(*resourcev1.ResourceSlice)
			return ok && live(func() bool { return w.tally.SetSlice(ctx, s) })
		},
		drop: func(obj any) bool {
			s, ok := obj.(*resourcev1.ResourceSlice)
			return ok && live(func() bool { return w.tally.DropSlice(s.Name) })
		},
		news: w.news,
	})
	w.group.follow(ctx, listWatch(claims.List, claims.Watch), &resourcev1.ResourceClaim{}, sink{
		reset: ifLive(w.tally.ResetClaims),
		set: func(obj any) bool {
			c, ok := obj.(*resourcev1.ResourceClaim)
			return ok && live(func() bool { return w.tally.SetClaim(c) })
		},
		drop: func(obj any) bool {
			c, ok := obj.(*resourcev1.ResourceClaim)
			return ok && live(func() bool { return w.tally.DropClaim(c.UID) })
		},
		news: w.news,
	})
}

// writeTo adds what is known of devices to a summary that replaces another.
func (w *deviceWatch) writeTo(sums, before *clusterv1alpha1.ResourceSummary) {
	if w == nil {
		summary.KeepDevices(sums, before, clusterv1alpha1.CountsDevices)
		return
	}
	w.tally.WriteTo(sums, before)
}

// listWatch makes the methods of a typed client what a reflector wants.
func listWatch[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error), follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		WatchFuncWithContext: follow,
	}
}
