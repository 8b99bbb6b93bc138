package capacity

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Class names a class of devices.
type Class struct {
	// Name is that of a DeviceClass.
	Name string
	// Old is true for a claim of v1alpha2: where a cluster serves that version it means the ResourceClass of the name, elsewhere
	// the DeviceClass that one is translated to.
	Old bool
}

func (c Class) resource() corev1.ResourceName {
	if c.Old {
		return clusterv1alpha1.ResourceClassResource(c.Name)
	}
	return clusterv1alpha1.DeviceResource(c.Name)
}

// Option is a number of devices of one class. Zero means that the class has to exist.
type Option struct {
	Class
	Count int64
}

// Devices are numbers of devices.
type Devices struct {
	// Fixed are those it takes in any case.
	Fixed map[Class]int64
	// Choices are those of which a cluster takes the first that it has. It has to have the classes of all options.
	Choices [][]Option
}

// IsEmpty is true if no device is needed.
func (d Devices) IsEmpty() bool { return len(d.Fixed) == 0 && len(d.Choices) == 0 }

// Add adds devices to d, each so many times; zero times they have to exist.
func (d *Devices) Add(more Devices, times int64) {
	if d.Fixed == nil {
		d.Fixed = map[Class]int64{}
	}
	for class, count := range more.Fixed {
		d.Fixed[class] += count * times
	}
	for _, choice := range more.Choices {
		options := slices.Clone(choice)
		for i := range options {
			options[i].Count *= times
		}
		d.Choices = append(d.Choices, options)
	}
}

// DeviceNeeds are the devices that an object needs in each of its clusters.
type DeviceNeeds struct {
	// Replica is what each replica needs for itself, Cluster what all in a cluster share.
	Replica, Cluster Devices
	// Missing is true if the object names a claim that does not exist, so that there may be more.
	Missing bool
}

// Together is what a cluster must have for one replica.
func (n DeviceNeeds) Together() Devices {
	if n.Replica.IsEmpty() {
		return n.Cluster
	}
	sum := Devices{Fixed: maps.Clone(n.Replica.Fixed), Choices: slices.Clone(n.Replica.Choices)}
	sum.Add(n.Cluster, 1)
	return sum
}

// With returns the demand of a unit that also needs devices.
func (d Demand) With(devices Devices) Demand {
	d.items = slices.Clone(d.items)
	for class, count := range devices.Fixed {
		if count > 0 {
			d.items = append(d.items, amount{class.resource(), count})
		}
	}
	d.items.sort()
	d.choices = devices.Choices
	return d
}

// Stock is what a cluster has of a class.
type Stock struct {
	// Known is true if the cluster reports which classes it has, Exists if it has this one, Counted if it also reports how many
	// devices.
	Known, Exists, Counted bool
	// Free is how many devices are not taken.
	Free int64
}

// Has is true if so many devices are free, or if that is not known.
func (s Stock) Has(count int64) bool {
	return !s.Known || s.Exists && (!s.Counted || s.Free >= count)
}

// Devices is what there is of a class when taken is already reserved.
func (r *Headroom) Devices(class Class, taken *Usage) Stock {
	if class.Old {
		if _, known := r.left.Of(clusterv1alpha1.ResourceClassesResource); known {
			_, exists := r.left.Of(class.resource())
			return Stock{Known: true, Exists: exists}
		}
	}
	if _, known := r.left.Of(clusterv1alpha1.DeviceClassesResource); !known {
		return Stock{}
	}
	left, exists := r.left.Of(clusterv1alpha1.DeviceResource(class.Name))
	for _, old := range []bool{false, true} {
		reserved, _ := taken.items.Of(Class{class.Name, old}.resource())
		left -= reserved
	}
	return Stock{Known: true, Exists: exists, Counted: true, Free: left}
}

// fitDevices bounds how many units fit by the devices they need.
func (r *Headroom) fitDevices(d *Demand, taken *Usage, fit int64) int64 {
	for _, item := range d.items {
		if class, ok := classOf(item.name); ok {
			switch stock := r.Devices(class, taken); {
			case !stock.Has(0):
				return 0
			case stock.Counted:
				fit = min(fit, stock.Free/item.value)
			}
		}
	}
	if len(d.choices) == 0 || fit <= 0 || r.holds(d, taken, fit) {
		return fit
	}
	// The more units, the less is left for the next: the first number that does not fit ends the search.
	none, all := int64(0), fit
	for all-none > 1 {
		if middle := (none + all) / 2; r.holds(d, taken, middle) {
			none = middle
		} else {
			all = middle
		}
	}
	return none
}

// holds is true if n units find an option of every choice, beside their fixed devices. What is reserved out of the same
// choice counts, not what is reserved out of a different one of the same classes: until the cluster reports it, it is not
// known which it took.
func (r *Headroom) holds(d *Demand, taken *Usage, n int64) bool {
	used := map[Class]int64{}
	for _, item := range d.items {
		if class, ok := classOf(item.name); ok {
			used[class] += n * item.value
		}
	}
	for _, choice := range d.choices {
		reserved, _ := taken.items.Of(choiceName(choice))
		wanted := n + reserved
		for _, option := range choice {
			switch stock := r.Devices(option.Class, taken); {
			case !stock.Has(0):
				return false // schedulers refuse a claim that names a class that is not there
			case !stock.Counted || option.Count == 0:
				wanted = 0
			default:
				units := min(wanted, max(stock.Free-used[option.Class], 0)/option.Count)
				used[option.Class] += units * option.Count
				wanted -= units
			}
		}
		if wanted > 0 {
			return false
		}
	}
	return true
}

func classOf(name corev1.ResourceName) (Class, bool) {
	if !clusterv1alpha1.CountsDevices(name) {
		return Class{}, false
	}
	_, class, _ := strings.Cut(string(name), "/")
	return Class{class, clusterv1alpha1.NamesResourceClass(name)}, true
}

// choiceName is the name of a choice among the amounts of a [Usage].
func choiceName(choice []Option) corev1.ResourceName {
	var b strings.Builder
	for _, option := range choice {
		b.WriteString(string(option.resource()) + "=" + strconv.FormatInt(option.Count, 10) + "|")
	}
	return corev1.ResourceName(b.String())
}

// CompareClasses orders classes by name.
func CompareClasses(a, b Class) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), strings.Compare(string(a.resource()), string(b.resource())))
}
