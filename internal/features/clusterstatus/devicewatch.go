package clusterstatus

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	draclient "k8s.io/dynamic-resource-allocation/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// deviceWatch watches the devices of one member: its classes since there was one, and only while there are any, its slices and claims.
// Whether there is a first class is read once a minute, so that a member without classes costs no watch. Of a member that serves v1alpha2 it
// also watches the names of that version's classes.
type deviceWatch struct {
	group   *memberwatch.Group
	conn    *member.Conn
	devices *summary.Devices
	changed func()

	// kube finds out which version the member serves, and translates. It is nil until there was a class.
	kube *draclient.Client
	// looked is when it was read last whether there is a class.
	looked time.Time
	// stopOld ends the watch of classes of v1alpha2, if it runs.
	stopOld context.CancelFunc

	mu sync.Mutex
	// stop ends the watches of slices and claims, if they run.
	stop []context.CancelFunc
}

func newDeviceWatch(group *memberwatch.Group, conn *member.Conn, changed func()) *deviceWatch {
	w := &deviceWatch{group: group, conn: conn, changed: changed}
	w.devices = summary.NewDevices(w.classesChanged, changed)
	return w
}

// oldClasses are the classes of v1alpha2.
var oldClasses = resourcev1alpha2.GroupVersion.WithResource(resourcev1alpha2.ResourcePluralResourceClass)

// classesAge is how often a member without DeviceClasses is requested them.
const classesAge = time.Minute

// countable returns under which resource a member has DeviceClasses, and false if it does not serve them.
func countable(apis apiList) (schema.GroupVersionResource, bool) {
	for _, version := range []string{"v1", "v1beta2", "v1beta1"} {
		gv := schema.GroupVersion{Group: resourcev1.GroupName, Version: version}
		if apis.serves(gv.String(), "DeviceClass") {
			return gv.WithResource("deviceclasses"), true
		}
	}
	return schema.GroupVersionResource{}, false
}

// found returns whether the member has a class. If that cannot be read, as without the right, it is unknown, and read again in a minute.
func (w *deviceWatch) found(ctx context.Context, classes schema.GroupVersionResource) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %s", probeTimeout))
	defer cancel()
	list, err := w.conn.Metadata().Resource(classes).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case err != nil:
		log.FromContext(ctx).V(1).Info("It is not known whether a cluster has device classes", "cluster", w.conn.Name(), "reason", err.Error())
	case len(list.Items) > 0:
		return true
	case !w.devices.Classes.Synced():
		_ = w.devices.Classes.Replace(nil, "") // nothing that could be refused
	}
	return false
}

// follow starts the watches of classes, once, when the member turns out to have such.
func (w *deviceWatch) follow(ctx context.Context, apis apiList, now time.Time) error {
	resource, ok := countable(apis)
	switch {
	case !ok || w.kube != nil || now.Sub(w.looked) < classesAge:
	case !w.found(ctx, resource):
		w.looked = now
	default:
		kube, err := w.conn.PatientKube()
		if err != nil {
			return err
		}
		w.kube = draclient.New(kube)
		classes := w.kube.DeviceClasses()
		w.group.Follow("deviceclasses", memberwatch.FromClient(w.conn.Accounts(), classes.List, classes.Watch).Within(bounds.DeviceClasses), w.devices.Classes)
	}
	switch served := apis.serves(resourcev1alpha2.GroupVersion.String(), resourcev1alpha2.KindResourceClass); {
	case !served && apis.condition.Status == metav1.ConditionTrue: // it was upgraded, or never had them
		if w.stopOld != nil {
			w.stopOld()
			w.stopOld = nil
		}
		w.devices.NoOldClasses()
	case served && w.stopOld == nil:
		w.stopOld = w.group.Follow("resourceclasses", w.conn.Patient().Metadata(oldClasses, metav1.NamespaceAll).Within(bounds.DeviceClasses), w.devices.WatchOldClasses())
	}
	return nil
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
				memberwatch.Run(ctx, "resourceslices", memberwatch.FromClient(w.conn.Accounts(), published.List, published.Watch).Within(bounds.ResourceSlices), store)
			}
		}),
		w.group.Follow("resourceclaims", memberwatch.FromClient(w.conn.Accounts(), claims.List, claims.Watch).Within(bounds.ResourceClaims), w.devices.WatchClaims()),
	}
}

// writeTo adds what is known of devices to a summary that replaces another.
func (w *deviceWatch) writeTo(sums, before *clusterv1alpha1.ResourceSummary) {
	w.devices.WriteTo(sums, before)
}
