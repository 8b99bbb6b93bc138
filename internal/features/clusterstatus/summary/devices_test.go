package summary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
)

func classOf(name string, expressions ...string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, e := range expressions {
		c.Spec.Selectors = append(c.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return c
}

// slice publishes devices of a node; a device called big-* is a big one.
func sliceOf(name, pool string, generation int64, devices ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.Driver, s.Spec.Pool = "gpu.example.com", resourcev1.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: 1}
	for _, d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name:       d,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"big": {BoolValue: ptr.To(len(d) > 3 && d[:4] == "big-")}},
		})
	}
	return s
}

func holding(uid, pool string, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: uid}}
	for _, d := range devices {
		if c.Status.Allocation == nil {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "gpu.example.com", Pool: pool, Device: d})
	}
	return c
}

func counted(t *Devices, before *clusterv1alpha1.ResourceSummary) (all, held map[string]int64) {
	sums := &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{}, Allocated: corev1.ResourceList{}}
	t.WriteTo(sums, before)
	plain := func(list corev1.ResourceList) map[string]int64 {
		out := map[string]int64{}
		for name, q := range list {
			out[string(name)] = q.Value()
		}
		return out
	}
	return plain(sums.Allocatable), plain(sums.Allocated)
}

const (
	classes = "count/deviceclasses.resource.k8s.io"
	prefix  = "deviceclass.resource.kubernetes.io/"
)

// tracker is Devices with stores, and whether the last event was a change.
type tracker struct {
	*Devices
	slices *memberwatch.Store[deviceSlice]
	claims *memberwatch.Store[[]deviceName]
	news   bool
}

func newTracker(t *testing.T) *tracker {
	t.Helper()
	k := &tracker{}
	changed := func() { k.news = true }
	k.Devices = NewDevices(changed, changed)
	k.watch(t)
	return k
}

// watch begins the watches of slices and claims.
func (k *tracker) watch(t *testing.T) {
	k.slices, k.claims = k.WatchSlices(t.Context()), k.WatchClaims()
}

// after returns whether an event was a change.
func (k *tracker) after(err error) bool {
	news := k.news
	k.news = false
	return news && err == nil
}

func listed[T any](t *testing.T, store *memberwatch.Store[T], objects ...any) {
	t.Helper()
	if err := store.Replace(objects, ""); err != nil {
		t.Fatal(err)
	}
}

func named(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestDevicesAreCountedByClass(t *testing.T) {
	tally := newTracker(t)
	listed(t, tally.Classes,
		classOf("any", `device.driver == "gpu.example.com"`),
		classOf("big", `device.driver == "gpu.example.com"`, `device.attributes["gpu.example.com"].big`),
		classOf("other", `device.driver == "fpga.example.com"`),
		classOf("faulty", `device.attributes["gpu.example.com"].missing`),
		classOf("unreadable", `device.`))
	listed(t, tally.slices,
		sliceOf("s1", "n1", 1, "big-0", "gpu-0"),
		sliceOf("s2-old", "n2", 1, "gpu-0", "gpu-1", "gpu-2"),
		sliceOf("s2", "n2", 2, "gpu-0"))
	listed(t, tally.claims,
		holding("a", "n1", "big-0"),
		holding("b", "n1", "big-0"), // shares it
		holding("c", "n2", "gpu-2"), // holds one that is not published any more
		holding("d", "n1"))

	all, held := counted(tally.Devices, nil)
	want := map[string]int64{classes: 5, prefix + "any": 3, prefix + "big": 1, prefix + "other": 0, prefix + "faulty": 0, prefix + "unreadable": 0}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{prefix + "any": 1, prefix + "big": 1}, held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}

	for _, err := range []error{
		tally.claims.Delete(holding("a", "n1")), tally.claims.Update(holding("b", "n1")), tally.slices.Delete(sliceOf("s2", "n2", 2)), tally.Classes.Delete(classOf("other")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all, held = counted(tally.Devices, nil)
	if all[prefix+"any"] != 5 || all[classes] != 4 || held[prefix+"any"] != 1 || held[prefix+"big"] != 0 {
		t.Errorf("after changes %v, %v: want 5 devices, one held, and 4 classes", all, held)
	}
}

func TestDevicesStayInTheSummaryUntilTheyAreKnown(t *testing.T) {
	before := &clusterv1alpha1.ResourceSummary{
		Allocatable: corev1.ResourceList{clusterv1alpha1.DeviceClassesResource: resource.MustParse("1"), prefix + "gpu": resource.MustParse("4"), "cpu": resource.MustParse("1")},
		Allocated:   corev1.ResourceList{prefix + "gpu": resource.MustParse("3")},
	}
	tally := newTracker(t)
	stays := func(why string) {
		t.Helper()
		all, held := counted(tally.Devices, before)
		if diff := cmp.Diff(map[string]int64{classes: 1, prefix + "gpu": 4}, all); diff != "" || held[prefix+"gpu"] != 3 {
			t.Errorf("%s: %v, %v", why, all, held)
		}
	}
	stays("nothing listed")
	listed(t, tally.Classes, classOf("gpu"))
	listed(t, tally.slices)
	stays("claims not listed")
	listed(t, tally.claims)
	if all, _ := counted(tally.Devices, before); all[prefix+"gpu"] != 0 || all[classes] != 1 {
		t.Errorf("everything listed, and still %v", all)
	}
	tally.Unlist()
	stays("without watches")
	tally.watch(t)
	stays("listed anew")
	if err := tally.Classes.Delete(classOf("gpu")); err != nil {
		t.Fatal(err)
	}
	if all, held := counted(tally.Devices, before); len(all) != 1 || all[classes] != 0 || len(held) != 0 {
		t.Errorf("without classes %v, %v: want only that there are none", all, held)
	}
}

func TestOnlyNewsAboutDevicesIsNews(t *testing.T) {
	tally := newTracker(t)
	class := func(expression string) bool { return tally.after(tally.Classes.Update(classOf("a", expression))) }
	if !class("true") || class("true") || !class("false") {
		t.Error("a class is news when its selectors change")
	}
	claim := func(devices ...string) bool { return tally.after(tally.claims.Update(holding("a", "n", devices...))) }
	if claim() || !claim("d") || claim("d") || !claim("e") || !claim() || tally.after(tally.claims.Delete(holding("a", "n"))) {
		t.Error("a claim is news when what it holds changes")
	}
	admin := holding("b", "n", "d")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	if tally.after(tally.claims.Update(admin)) {
		t.Error("an administrator's claim takes the device")
	}
}

func TestClassesOfTheOldModelAreNamed(t *testing.T) {
	const count, class = "count/resourceclasses.resource.k8s.io", "resourceclass.resource.k8s.io/gpu"
	before := &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{count: resource.MustParse("1"), class: resource.MustParse("1")}}
	tally := newTracker(t)
	says := func(why string, want map[string]int64) {
		t.Helper()
		if all, _ := counted(tally.Devices, before); !cmp.Equal(want, all) {
			t.Errorf("%s: %v, want %v", why, all, want)
		}
	}
	says("until they are listed they stay", map[string]int64{count: 1, class: 1})
	old := tally.WatchOldClasses()
	listed(t, old)
	tally.news = false
	if !tally.after(old.Update(named("fpga"))) || tally.after(old.Update(named("fpga"))) {
		t.Error("a class is news once")
	}
	says("then they are what was listed", map[string]int64{count: 1, "resourceclass.resource.k8s.io/fpga": 1})
	if !tally.after(old.Delete(named("fpga"))) || tally.after(old.Delete(named("fpga"))) {
		t.Error("that it is gone is news once")
	}
	says("even if that is none", map[string]int64{count: 0})
	tally.NoOldClasses()
	says("of a member that ceased to serve them nothing is left", map[string]int64{})
}
