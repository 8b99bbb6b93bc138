package clusterstatus

import (
	"context"
	"slices"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	draclient "k8s.io/dynamic-resource-allocation/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
)

// deviceWatch watches the devices of one member: its classes, and only while there are any, its slices and claims. A member without
// classes costs one watch. Of a member that serves v1alpha2 it also watches the names of that version's classes.
type deviceWatch struct {
	group *memberwatch.Group
	// kube finds out which version the member serves, and translates.
	kube    *draclient.Client
	meta    metadata.Interface
	devices *summary.Devices
	changed func()

	running bool
	// stopOld ends the watch of classes of v1alpha2, if it runs.
	stopOld context.CancelFunc

	mu sync.Mutex
	// stop ends the watches of slices and claims, if they run.
	stop []context.CancelFunc
}

func newDeviceWatch(group *memberwatch.Group, kube kubernetes.Interface, heads metadata.Interface, changed func()) *deviceWatch {
	w := &deviceWatch{group: group, kube: draclient.New(kube), meta: heads, changed: changed}
	w.devices = summary.NewDevices(w.classesChanged, changed)
	return w
}

// oldClasses are the classes of v1alpha2.
var oldClasses = resourcev1alpha2.GroupVersion.WithResource(resourcev1alpha2.ResourcePluralResourceClass)

// countable means that a member has DeviceClasses, in whichever version.
func countable(apis apiList) bool {
	return slices.ContainsFunc([]string{"v1", "v1beta2", "v1beta1"}, func(version string) bool {
		return apis.serves(resourcev1.GroupName+"/"+version, "DeviceClass")
	})
}

// follow starts the watches of classes, once, when the member turns out to have such.
func (w *deviceWatch) follow(apis apiList) {
	if !w.running && countable(apis) {
		w.running = true
		classes := w.kube.DeviceClasses()
		w.group.Follow("deviceclasses", memberwatch.ListWatch(classes.List, classes.Watch), &resourcev1.DeviceClass{}, w.devices.Classes)
	}
	switch served := apis.serves(resourcev1alpha2.GroupVersion.String(), resourcev1alpha2.KindResourceClass); {
	case !served && apis.condition.Status == metav1.ConditionTrue: // it was upgraded, or never had them
		if w.stopOld != nil {
			w.stopOld()
			w.stopOld = nil
		}
		w.devices.NoOldClasses()
	case served && w.stopOld == nil:
		classes := w.meta.Resource(oldClasses)
		w.stopOld = w.group.Follow("resourceclasses", memberwatch.ListWatch(classes.List, classes.Watch), &metav1.PartialObjectMetadata{}, w.devices.WatchOldClasses())
	}
}

// classesChanged watches all slices and claims again: the classes of a device are found when its slice is read. What an ended watch
// still delivers goes to a store that is not used any more.
func (w *deviceWatch) classesChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, stop := range w.stop {
		stop()
	}
	w.stop = nil
	w.devices.Unlist()
	defer w.changed()
	if !w.devices.AnyClass() {
		return
	}
	published, claims := w.kube.ResourceSlices(), w.kube.ResourceClaims(metav1.NamespaceAll)
	w.stop = []context.CancelFunc{
		w.group.Go(func(ctx context.Context) {
			w.mu.Lock()
			stopped := ctx.Err() != nil // the classes have changed again
			var store cache.ReflectorStore
			if !stopped {
				store = w.devices.WatchSlices(ctx)
			}
			w.mu.Unlock()
			if !stopped {
				memberwatch.Run(ctx, "resourceslices", memberwatch.ListWatch(published.List, published.Watch), &resourcev1.ResourceSlice{}, store)
			}
		}),
		w.group.Follow("resourceclaims", memberwatch.ListWatch(claims.List, claims.Watch), &resourcev1.ResourceClaim{}, w.devices.WatchClaims()),
	}
}

// writeTo adds what is known of devices to a summary that replaces another.
func (w *deviceWatch) writeTo(sums, before *clusterv1alpha1.ResourceSummary) {
	w.devices.WriteTo(sums, before)
}
