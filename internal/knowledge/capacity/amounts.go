package capacity

import (
	"cmp"
	"math"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxAmount bounds an amount, and what amounts are multiplied to: what members report and users request may be anything.
	maxAmount = 1 << 53
	// maxCounted bounds one entry of AmountsOf, so that no sum over the nodes or the pods of a cluster overflows.
	maxCounted = 1 << 45
	// maxNames bounds the resources of one list.
	maxNames = 128
	// maxNameBytes is the longest valid name of a resource.
	maxNameBytes = 317
	// maxNodes bounds a reported number of nodes.
	maxNodes = 1 << 20
)

// amount is a quantity of one resource: thousandths for CPU, whole units for everything else.
type amount struct {
	name  corev1.ResourceName
	value int64
}

// Amounts are quantities of resources, sorted by name. Lists are short, so that a search in one is faster than a map, and takes a
// fraction of the memory of a ResourceList.
type Amounts []amount

// AmountsOf returns the amounts of a list. Negative ones count as none, absurd ones as a large number, and of a list with absurdly many
// names it has some.
func AmountsOf(list corev1.ResourceList) Amounts {
	out := make(Amounts, 0, len(list))
	for name, quantity := range list {
		if len(name) > maxNameBytes {
			continue
		}
		out = append(out, amount{intern(name), min(max(count(name, quantity), 0), maxCounted)})
	}
	out.sort()
	return out.Bounded()
}

// Bounded returns the amounts of at most maxNames resources, those of every node among them.
func (a Amounts) Bounded() Amounts {
	others := 0
	return slices.DeleteFunc(a, func(item amount) bool {
		switch item.name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage:
			return false
		}
		others++
		return others > maxNames-4
	})
}

// intern returns the one copy of a name: the names of a thousand nodes are the same few.
func intern(name corev1.ResourceName) corev1.ResourceName { return unique.Make(name).Value() }

// List returns the amounts as a ResourceList.
func (a Amounts) List() corev1.ResourceList {
	out := make(corev1.ResourceList, len(a))
	for _, item := range a {
		switch format := formatOf(item.name); item.name {
		case corev1.ResourceCPU:
			out[item.name] = *resource.NewMilliQuantity(item.value, format)
		default:
			out[item.name] = *resource.NewQuantity(item.value, format)
		}
	}
	return out
}

func formatOf(name corev1.ResourceName) resource.Format {
	switch {
	case name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage, name == corev1.ResourceStorage, isHugePages(name):
		return resource.BinarySI
	default:
		return resource.DecimalSI
	}
}

func isHugePages(name corev1.ResourceName) bool {
	return len(name) > len(corev1.ResourceHugePagesPrefix) && name[:len(corev1.ResourceHugePagesPrefix)] == corev1.ResourceHugePagesPrefix
}

// Of returns the amount of a resource, and whether it is listed.
func (a Amounts) Of(name corev1.ResourceName) (int64, bool) {
	for i := range a {
		if a[i].name == name {
			return a[i].value, true
		}
	}
	return 0, false
}

// Add adds sign times more, in place. What is taken away entirely is removed.
func (a *Amounts) Add(more Amounts, sign int64) {
	for _, item := range more {
		i, found := slices.BinarySearchFunc(*a, item, compareAmounts)
		if !found {
			*a = slices.Insert(*a, i, amount{name: item.name})
		}
		if (*a)[i].value += sign * item.value; (*a)[i].value == 0 && sign < 0 {
			*a = slices.Delete(*a, i, i+1)
		}
	}
}

// Less returns a less taken, at least nothing.
func (a Amounts) Less(taken Amounts) Amounts {
	out := slices.Clone(a)
	for i := range out {
		used, _ := taken.Of(out[i].name)
		out[i].value = max(out[i].value-used, 0)
	}
	return out
}

// Least returns the smaller of both of each amount in a.
func (a Amounts) Least(b Amounts) Amounts {
	out := slices.Clone(a)
	for i := range out {
		other, _ := b.Of(out[i].name)
		out[i].value = min(out[i].value, other)
	}
	return out
}

// Reaches returns whether a has at least each amount of least.
func (a Amounts) Reaches(least Amounts) bool {
	return !slices.ContainsFunc(least, func(item amount) bool {
		value, _ := a.Of(item.name)
		return value < item.value
	})
}

// OnePod returns what a pod takes besides its requests.
func OnePod() Amounts { return Amounts{{corev1.ResourcePods, 1}} }

// Equal returns whether both have the same amounts.
func (a Amounts) Equal(b Amounts) bool { return slices.Equal(a, b) }

func (a Amounts) sort() { slices.SortFunc(a, compareAmounts) }

func compareAmounts(x, y amount) int { return cmp.Compare(x.name, y.name) }

// count is the number by which a quantity is counted. It is safe for quantities such as 1e2147483647, whose exact value takes minutes
// and gigabytes.
func count(name corev1.ResourceName, q resource.Quantity) int64 {
	scale := 1.0
	if name == corev1.ResourceCPU {
		scale = 1000
	}
	switch approximate := scale * q.AsApproximateFloat64(); {
	case approximate == 0, math.IsNaN(approximate):
		return 0
	case math.Abs(approximate) >= maxAmount:
		return int64(math.Copysign(maxAmount, approximate))
	case name == corev1.ResourceCPU:
		return q.MilliValue()
	default:
		return q.Value()
	}
}

// times is n*value, bounded.
func times(n, value int64) int64 {
	if n < 0 {
		return -times(-n, value)
	}
	if n > 0 && value > maxAmount/n {
		return maxAmount
	}
	return n * value
}
