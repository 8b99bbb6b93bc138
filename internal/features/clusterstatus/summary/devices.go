package summary

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberwatch"
)

// Devices counts the devices of a member by class, and how many of them claims hold. Of a device it keeps the name and the classes,
// of a claim the devices.
type Devices struct {
	// Classes and OldClasses are the stores of the watches of DeviceClasses and of the classes of v1alpha2. Of the latter only the
	// names are known: only their drivers have the list of the devices.
	Classes    *memberwatch.Store[*deviceClass]
	OldClasses *memberwatch.Store[struct{}]
	changed    func()

	mu     sync.Mutex
	slices *memberwatch.Store[deviceSlice]
	claims *memberwatch.Store[[]deviceName]
	// withoutOld is true for a member that does not serve classes of v1alpha2.
	withoutOld bool
}

// deviceClass is a class with its selectors compiled.
type deviceClass struct {
	expressions []string
	selectors   []cel.CompilationResult
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

// NewDevices returns the devices of a member without any. ClassesChanged is called when the classes changed: slices are to be listed
// again, since the classes of a device are found when its slice is read. Changed is called for all other changes.
func NewDevices(classesChanged, changed func()) *Devices {
	return &Devices{
		changed: changed,
		Classes: &memberwatch.Store[*deviceClass]{
			Keep: memberwatch.Of(readClass), Same: sameClass, Size: (*deviceClass).size, News: func(bool) { classesChanged() },
		},
		OldClasses: newOldClasses(changed),
	}
}

func newOldClasses(changed func()) *memberwatch.Store[struct{}] {
	return &memberwatch.Store[struct{}]{
		Keep: func(any) (struct{}, bool, error) { return struct{}{}, true, nil }, News: func(bool) { changed() },
	}
}

// NoOldClasses records that the member does not serve classes of v1alpha2, until there is a new watch of them.
func (d *Devices) NoOldClasses() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.OldClasses, d.withoutOld = newOldClasses(d.changed), true
}

// WatchOldClasses returns the store of a new watch of classes of v1alpha2.
func (d *Devices) WatchOldClasses() *memberwatch.Store[struct{}] {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.OldClasses, d.withoutOld = newOldClasses(d.changed), false
	return d.OldClasses
}

func readClass(c *resourcev1.DeviceClass) (*deviceClass, bool, error) {
	class := &deviceClass{}
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	for _, s := range c.Spec.Selectors {
		if s.CEL != nil {
			class.expressions = append(class.expressions, s.CEL.Expression)
			class.selectors = append(class.selectors, compiler.CompileCELExpression(s.CEL.Expression, cel.Options{DisableCostEstimation: true}))
		}
	}
	return class, true, nil
}

// size is about how many bytes a class takes: a compiled selector takes many times its text.
func (c *deviceClass) size() int64 {
	const compiled, each = 100, 16 << 10
	total := int64(0)
	for _, text := range c.expressions {
		total += each + compiled*int64(len(text))
	}
	return total
}

func sameClass(a, b *deviceClass) bool { return slices.Equal(a.expressions, b.expressions) }

// matches returns whether a device is of the class. A selector that fails on a device does not select it, as for the
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

// WatchSlices returns the store of a new watch of slices, in place of the one before.
func (d *Devices) WatchSlices(ctx context.Context) *memberwatch.Store[deviceSlice] {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slices = &memberwatch.Store[deviceSlice]{
		Keep: memberwatch.Of(func(s *resourcev1.ResourceSlice) (deviceSlice, bool, error) { return d.readSlice(ctx, s), true, nil }),
		Same: func(deviceSlice, deviceSlice) bool { return false },
		News: func(bool) { d.changed() },
	}
	return d.slices
}

// WatchClaims returns the store of a new watch of claims, in place of the one before.
func (d *Devices) WatchClaims() *memberwatch.Store[[]deviceName] {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.claims = &memberwatch.Store[[]deviceName]{Keep: memberwatch.Of(readClaim), Same: slices.Equal[[]deviceName], News: func(bool) { d.changed() }}
	return d.claims
}

// Unlist drops slices and claims until there are new watches of them.
func (d *Devices) Unlist() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slices, d.claims = nil, nil
}

// AnyClass returns whether there is a DeviceClass.
func (d *Devices) AnyClass() bool {
	found := false
	d.Classes.Visit(func(types.NamespacedName, *deviceClass) { found = true })
	return found
}

func (d *Devices) readSlice(ctx context.Context, s *resourcev1.ResourceSlice) deviceSlice {
	share := deviceSlice{
		pool: devicePool{s.Spec.Driver, s.Spec.Pool.Name}, generation: s.Spec.Pool.Generation, devices: make(map[string][]string, len(s.Spec.Devices)),
	}
	shared := map[string][]string{}
	for i := range s.Spec.Devices {
		var classes []string
		d.Classes.Visit(func(key types.NamespacedName, class *deviceClass) {
			if class.matches(ctx, s.Spec.Driver, &s.Spec.Devices[i]) {
				classes = append(classes, key.Name)
			}
		})
		// Most devices of a slice are alike: they share one list.
		slices.Sort(classes)
		key := strings.Join(classes, "/")
		if shared[key] == nil {
			shared[key] = classes
		}
		share.devices[s.Spec.Devices[i].Name] = shared[key]
	}
	return share
}

// readClaim returns the devices that a claim holds. A claim for the administration of a device does not take it.
func readClaim(c *resourcev1.ResourceClaim) ([]deviceName, bool, error) {
	if c.Status.Allocation == nil {
		return nil, false, nil
	}
	var held []deviceName
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.AdminAccess == nil || !*r.AdminAccess {
			held = append(held, deviceName{devicePool{r.Driver, r.Pool}, r.Device})
		}
	}
	return held, len(held) > 0, nil
}

// WriteTo adds the devices of each class to a summary: all of them, and those that claims hold. Until everything was listed once,
// the devices of the summary before stay.
func (d *Devices) WriteTo(sums, before *clusterv1alpha1.ResourceSummary) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.withoutOld:
	case d.OldClasses.Synced():
		count := int64(0)
		d.OldClasses.Visit(func(key types.NamespacedName, _ struct{}) {
			count++
			sums.Allocatable[clusterv1alpha1.ResourceClassResource(key.Name)] = *resource.NewQuantity(1, resource.DecimalSI)
		})
		sums.Allocatable[clusterv1alpha1.ResourceClassesResource] = *resource.NewQuantity(count, resource.DecimalSI)
	default:
		keepDevices(sums, before, clusterv1alpha1.NamesResourceClass)
	}
	complete := d.slices != nil && d.claims != nil && d.slices.Synced() && d.claims.Synced()
	if !d.Classes.Synced() || d.AnyClass() && !complete {
		keepDevices(sums, before, func(name corev1.ResourceName) bool { return !clusterv1alpha1.NamesResourceClass(name) })
		return
	}
	var all, held map[string]int64
	if complete {
		all, held = d.count()
	}
	count := int64(0)
	d.Classes.Visit(func(class types.NamespacedName, _ *deviceClass) {
		count++
		key := clusterv1alpha1.DeviceResource(class.Name)
		sums.Allocatable[key] = *resource.NewQuantity(all[class.Name], resource.DecimalSI)
		if n := held[class.Name]; n > 0 {
			sums.Allocated[key] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	})
	sums.Allocatable[clusterv1alpha1.DeviceClassesResource] = *resource.NewQuantity(count, resource.DecimalSI)
}

// count counts the devices of each class. Of a pool only the slices of its newest generation count. The lock is held.
func (d *Devices) count() (all, held map[string]int64) {
	newest := map[devicePool]int64{}
	d.slices.Visit(func(_ types.NamespacedName, s deviceSlice) { newest[s.pool] = max(newest[s.pool], s.generation) })
	taken := sets.New[deviceName]()
	d.claims.Visit(func(_ types.NamespacedName, devices []deviceName) { taken.Insert(devices...) })
	all, held = map[string]int64{}, map[string]int64{}
	d.slices.Visit(func(_ types.NamespacedName, s deviceSlice) {
		if s.generation < newest[s.pool] {
			return
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
	})
	return all, held
}

// keepDevices copies the devices of one summary, as far as wanted selects them, into another.
func keepDevices(sums, before *clusterv1alpha1.ResourceSummary, wanted func(corev1.ResourceName) bool) {
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
