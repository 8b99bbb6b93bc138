package summary

import (
	"context"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Devices counts the devices of a member by class, and how many of them claims hold. Of a device it keeps the name
// and the classes, of a claim the devices: neither attributes nor objects. It is safe for concurrent use.
type Devices struct {
	mu      sync.Mutex
	classes map[string]*deviceClass
	slices  map[string]deviceSlice
	claims  map[types.UID][]deviceName
	// old are the names of the classes of v1alpha2; only their drivers know what there is of them.
	old sets.Set[string]

	classesListed, slicesListed, claimsListed, oldListed, noOld bool
}

// deviceClass is a class in the form that is asked about devices.
type deviceClass struct {
	text      string // to tell whether it changed
	selectors []cel.CompilationResult
}

// deviceSlice is what one ResourceSlice publishes.
type deviceSlice struct {
	pool       devicePool
	generation int64
	devices    map[string][]string // by name: its classes, shared with equal ones
}

type devicePool struct{ driver, name string }

type deviceName struct {
	pool   devicePool
	device string
}

func NewDevices() *Devices {
	return &Devices{classes: map[string]*deviceClass{}, slices: map[string]deviceSlice{}, claims: map[types.UID][]deviceName{}, old: sets.New[string]()}
}

// setClass takes a class into account; it says whether anything changed, and then the slices have to be listed again.
func (t *Devices) SetClass(c *resourcev1.DeviceClass) bool {
	var expressions []string
	for _, s := range c.Spec.Selectors {
		if s.CEL != nil {
			expressions = append(expressions, s.CEL.Expression)
		}
	}
	text := strings.Join(expressions, "\n")
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.classes[c.Name]; old != nil && old.text == text {
		return false
	}
	class := &deviceClass{text: text}
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	for _, e := range expressions {
		class.selectors = append(class.selectors, compiler.CompileCELExpression(e, cel.Options{DisableCostEstimation: true}))
	}
	t.classes[c.Name] = class
	return true
}

func (t *Devices) DropClass(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.classes[name]
	delete(t.classes, name)
	return known
}

// matches says whether a device is of the class. A selector that fails on a device does not select it, as for the
// member's scheduler, which lets the pod wait.
func (c *deviceClass) matches(ctx context.Context, driver string, d *resourcev1.Device) bool {
	device := cel.Device{
		Driver: driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
	}
	for i := range c.selectors {
		if c.selectors[i].Error != nil {
			return false
		}
		if matches, _, err := c.selectors[i].DeviceMatches(ctx, device); err != nil || !matches {
			return false
		}
	}
	return true
}

// setSlice takes a slice into account; it says whether anything changed.
func (t *Devices) SetSlice(ctx context.Context, s *resourcev1.ResourceSlice) bool {
	share := deviceSlice{
		pool:       devicePool{s.Spec.Driver, s.Spec.Pool.Name},
		generation: s.Spec.Pool.Generation,
		devices:    make(map[string][]string, len(s.Spec.Devices)),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	shared := map[string][]string{}
	for i := range s.Spec.Devices {
		var classes []string
		for name, class := range t.classes {
			if class.matches(ctx, s.Spec.Driver, &s.Spec.Devices[i]) {
				classes = append(classes, name)
			}
		}
		// Most devices of a slice are alike: they share one list.
		list := sets.List(sets.New(classes...))
		key := strings.Join(list, "/")
		if shared[key] == nil {
			shared[key] = list
		}
		share.devices[s.Spec.Devices[i].Name] = shared[key]
	}
	t.slices[s.Name] = share
	return true
}

func (t *Devices) DropSlice(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.slices[name]
	delete(t.slices, name)
	return known
}

// setClaim takes into account what a claim holds; it says whether that changed.
func (t *Devices) SetClaim(c *resourcev1.ResourceClaim) bool {
	var held []deviceName
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			if r.AdminAccess == nil || !*r.AdminAccess { // who administers a device does not take it
				held = append(held, deviceName{devicePool{r.Driver, r.Pool}, r.Device})
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.claims[c.UID]
	if len(held) == 0 {
		delete(t.claims, c.UID)
		return len(old) > 0
	}
	t.claims[c.UID] = held
	if len(old) != len(held) {
		return true
	}
	for i := range held {
		if held[i] != old[i] {
			return true
		}
	}
	return false
}

func (t *Devices) DropClaim(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.claims[uid]
	delete(t.claims, uid)
	return known
}

func (t *Devices) ResetClasses() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.classes)
	t.classesListed = true
}

func (t *Devices) ResetOldClasses() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.old)
	t.oldListed, t.noOld = true, false
}

// noOldClasses says that the member does not have such a kind.
func (t *Devices) NoOldClasses() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.old)
	t.oldListed, t.noOld = false, true
}

func (t *Devices) SetOldClass(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.old.Has(name)
	t.old.Insert(name)
	return !known
}

func (t *Devices) DropOldClass(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.old.Has(name)
	t.old.Delete(name)
	return known
}

func (t *Devices) ResetSlices() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.slices)
	t.slicesListed = true
}

func (t *Devices) ResetClaims() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.claims)
	t.claimsListed = true
}

// unlist forgets slices, and claims as well, until they are listed again.
func (t *Devices) Unlist() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.slices)
	clear(t.claims)
	t.slicesListed, t.claimsListed = false, false
}

func (t *Devices) AnyClass() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.classes) > 0
}

// writeTo adds the devices of each class to a summary: all of them, and those that claims hold. Until everything was
// listed once, what the summary before said of devices stays.
func (t *Devices) WriteTo(sums, before *clusterv1alpha1.ResourceSummary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.noOld:
	case t.oldListed:
		sums.Allocatable[clusterv1alpha1.ResourceClassesResource] = *resource.NewQuantity(int64(len(t.old)), resource.DecimalSI)
		for name := range t.old {
			sums.Allocatable[clusterv1alpha1.ResourceClassResource(name)] = *resource.NewQuantity(1, resource.DecimalSI)
		}
	default:
		KeepDevices(sums, before, clusterv1alpha1.NamesResourceClass)
	}
	if !t.classesListed || len(t.classes) > 0 && (!t.slicesListed || !t.claimsListed) {
		KeepDevices(sums, before, func(name corev1.ResourceName) bool { return !clusterv1alpha1.NamesResourceClass(name) })
		return
	}
	all, held := t.count()
	for name := range t.classes {
		key := clusterv1alpha1.DeviceResource(name)
		sums.Allocatable[key] = *resource.NewQuantity(all[name], resource.DecimalSI)
		if n := held[name]; n > 0 {
			sums.Allocated[key] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	sums.Allocatable[clusterv1alpha1.DeviceClassesResource] = *resource.NewQuantity(int64(len(t.classes)), resource.DecimalSI)
}

// count counts the devices of each class. Of a pool only the slices of its newest generation count.
func (t *Devices) count() (all, held map[string]int64) {
	newest := map[devicePool]int64{}
	for _, s := range t.slices {
		newest[s.pool] = max(newest[s.pool], s.generation)
	}
	taken := sets.New[deviceName]()
	for _, devices := range t.claims {
		taken.Insert(devices...)
	}
	all, held = map[string]int64{}, map[string]int64{}
	for _, s := range t.slices {
		if s.generation < newest[s.pool] {
			continue
		}
		for device, classes := range s.devices {
			isTaken := taken.Has(deviceName{s.pool, device})
			for _, class := range classes {
				all[class]++
				if isTaken {
					held[class]++
				}
			}
		}
	}
	return all, held
}

// keepDevices copies what one summary says of devices, as far as it is wanted, into another.
func KeepDevices(sums, before *clusterv1alpha1.ResourceSummary, wanted func(corev1.ResourceName) bool) {
	if before == nil {
		return
	}
	for from, to := range map[*corev1.ResourceList]corev1.ResourceList{
		&before.Allocatable: sums.Allocatable, &before.Allocated: sums.Allocated,
	} {
		for name, q := range *from {
			if clusterv1alpha1.CountsDevices(name) && wanted(name) {
				to[name] = q
			}
		}
	}
}
