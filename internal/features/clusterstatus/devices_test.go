package clusterstatus

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
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
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}}
	for _, d := range devices {
		if c.Status.Allocation == nil {
			c.Status.Allocation = &resourcev1.AllocationResult{}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "gpu.example.com", Pool: pool, Device: d})
	}
	return c
}

func counted(t *deviceTally, before *clusterv1alpha1.ResourceSummary) (all, held map[string]int64) {
	sums := &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{}, Allocated: corev1.ResourceList{}}
	t.writeTo(sums, before)
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

func TestDevicesAreCountedByClass(t *testing.T) {
	tally := newDeviceTally()
	tally.resetClasses()
	tally.setClass(classOf("any", `device.driver == "gpu.example.com"`))
	tally.setClass(classOf("big", `device.driver == "gpu.example.com"`, `device.attributes["gpu.example.com"].big`))
	tally.setClass(classOf("other", `device.driver == "fpga.example.com"`))
	tally.setClass(classOf("faulty", `device.attributes["gpu.example.com"].missing`))
	tally.setClass(classOf("unreadable", `device.`))
	tally.resetSlices()
	tally.setSlice(t.Context(), sliceOf("s1", "n1", 1, "big-0", "gpu-0"))
	tally.setSlice(t.Context(), sliceOf("s2-old", "n2", 1, "gpu-0", "gpu-1", "gpu-2"))
	tally.setSlice(t.Context(), sliceOf("s2", "n2", 2, "gpu-0"))
	tally.resetClaims()
	tally.setClaim(holding("a", "n1", "big-0"))
	tally.setClaim(holding("b", "n1", "big-0")) // shares it
	tally.setClaim(holding("c", "n2", "gpu-2")) // holds one that is not published any more
	tally.setClaim(holding("d", "n1"))

	all, held := counted(tally, nil)
	want := map[string]int64{classes: 5, prefix + "any": 3, prefix + "big": 1, prefix + "other": 0, prefix + "faulty": 0, prefix + "unreadable": 0}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{prefix + "any": 1, prefix + "big": 1}, held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}

	tally.dropClaim("a")
	tally.setClaim(holding("b", "n1"))
	tally.dropSlice("s2")
	tally.dropClass("other")
	all, held = counted(tally, nil)
	if all[prefix+"any"] != 5 || all[classes] != 4 || held[prefix+"any"] != 1 || held[prefix+"big"] != 0 {
		t.Errorf("after changes %v, %v: want 5 devices, one held, and 4 classes", all, held)
	}
}

func TestWhatIsSaidOfDevicesStaysUntilTheyAreKnown(t *testing.T) {
	before := &clusterv1alpha1.ResourceSummary{
		Allocatable: corev1.ResourceList{clusterv1alpha1.DeviceClassesResource: resource.MustParse("1"), prefix + "gpu": resource.MustParse("4"), "cpu": resource.MustParse("1")},
		Allocated:   corev1.ResourceList{prefix + "gpu": resource.MustParse("3")},
	}
	tally := newDeviceTally()
	stays := func(why string) {
		t.Helper()
		all, held := counted(tally, before)
		if diff := cmp.Diff(map[string]int64{classes: 1, prefix + "gpu": 4}, all); diff != "" || held[prefix+"gpu"] != 3 {
			t.Errorf("%s: %v, %v", why, all, held)
		}
	}
	stays("nothing listed")
	tally.resetClasses()
	tally.setClass(classOf("gpu"))
	tally.resetSlices()
	stays("claims not listed")
	tally.resetClaims()
	if all, _ := counted(tally, before); all[prefix+"gpu"] != 0 || all[classes] != 1 {
		t.Errorf("everything listed, and still %v", all)
	}
	tally.unlist()
	stays("listed anew")
	tally.dropClass("gpu")
	if all, held := counted(tally, before); len(all) != 1 || all[classes] != 0 || len(held) != 0 {
		t.Errorf("without classes %v, %v: want only that there are none", all, held)
	}
}

func TestOnlyNewsAboutDevicesIsNews(t *testing.T) {
	tally := newDeviceTally()
	if !tally.setClass(classOf("a", "true")) || tally.setClass(classOf("a", "true")) || !tally.setClass(classOf("a", "false")) {
		t.Error("a class is news when its selectors change")
	}
	if tally.setClaim(holding("a", "n")) || !tally.setClaim(holding("a", "n", "d")) || tally.setClaim(holding("a", "n", "d")) ||
		!tally.setClaim(holding("a", "n", "e")) || !tally.setClaim(holding("a", "n")) || tally.dropClaim("a") {
		t.Error("a claim is news when what it holds changes")
	}
	admin := holding("b", "n", "d")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	if tally.setClaim(admin) {
		t.Error("an administrator's claim takes the device")
	}
}

func TestDevicesAreCountedWhereTheirClassesAre(t *testing.T) {
	list := func(served ...string) apiList {
		var l apiList
		for i := 0; i < len(served); i += 2 {
			l.enabled = append(l.enabled, clusterv1alpha1.APIEnablement{
				GroupVersion: served[i], Resources: []clusterv1alpha1.APIResource{{Kind: served[i+1]}},
			})
		}
		return l
	}
	today, before := []string{"resource.k8s.io/v1", "DeviceClass"}, []string{"resource.k8s.io/v1alpha2", "ResourceClass"}
	for name, c := range map[string]struct {
		apis apiList
		want bool
	}{
		"a cluster of today":          {list(today...), true},
		"one of the old model":        {list(before...), false},
		"one of both":                 {list(append(before, today...)...), true},
		"one that has other versions": {list("resource.k8s.io/v1beta1", "DeviceClass"), true},
		"one that has said nothing":   {list(), false},
	} {
		if got := countable(c.apis); got != c.want {
			t.Errorf("%s: countable is %v", name, got)
		}
	}
}

func TestClassesOfTheOldModelAreNamed(t *testing.T) {
	const count, class = "count/resourceclasses.resource.k8s.io", "resourceclass.resource.k8s.io/gpu"
	before := &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{count: resource.MustParse("1"), class: resource.MustParse("1")}}
	tally := newDeviceTally()
	says := func(why string, want map[string]int64) {
		t.Helper()
		if all, _ := counted(tally, before); !cmp.Equal(want, all) {
			t.Errorf("%s: %v, want %v", why, all, want)
		}
	}
	says("until they are listed they stay", map[string]int64{count: 1, class: 1})
	tally.resetOldClasses()
	if !tally.setOldClass("fpga") || tally.setOldClass("fpga") {
		t.Error("a class is news once")
	}
	says("then they are what was listed", map[string]int64{count: 1, "resourceclass.resource.k8s.io/fpga": 1})
	if !tally.dropOldClass("fpga") || tally.dropOldClass("fpga") {
		t.Error("that it is gone is news once")
	}
	says("even if that is none", map[string]int64{count: 0})
	tally.noOldClasses()
	says("of a member that ceased to serve them nothing is left", map[string]int64{})
}
