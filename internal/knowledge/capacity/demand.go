package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// Demand is what one unit of a workload needs of a cluster. A unit is a replica, or one whole set of a workload with several
// components. The zero value needs one pod and nothing else.
type Demand struct {
	items Amounts
	// extraPods is how many pods a unit needs beyond the first.
	extraPods int64
	// spread is true when the pods of a unit need not share a node.
	spread bool
	// choices are devices of which a unit takes one option each.
	choices [][]Option
	// pieces are the pods of a unit, as nodes have to hold them; none is one pod that needs items.
	pieces []piece
	// charges are what ResourceQuotas count of a unit; none is a unit whose namespace is not known.
	charges []charge
}

// piece is a number of equal pods of a unit.
type piece struct {
	replicas int64
	items    Amounts
	claim    *claim
}

// DemandOf returns the demand of one replica.
func DemandOf(requests corev1.ResourceList) Demand {
	var d Demand
	d.add(requests, 1)
	return d
}

// On returns the demand of a replica that needs a node as the claim describes it.
func (d Demand) On(nodes *workv1alpha2.NodeClaim) Demand {
	d.pieces = []piece{{replicas: 1, items: d.items, claim: claimOf(nodes)}}
	return d
}

// DemandOfSet returns the demand of one whole set of components: every component with all its replicas.
func DemandOfSet(components []workv1alpha2.Component) Demand {
	d := Demand{extraPods: -1, spread: true}
	for _, c := range components {
		d.extraPods += int64(c.Replicas)
		var one Demand
		var class string
		if needs := c.ReplicaRequirements; needs != nil {
			d.add(needs.ResourceRequest, int64(c.Replicas))
			one = DemandOf(needs.ResourceRequest).On(needs.NodeClaim)
			class = needs.PriorityClassName
		} else {
			one = one.On(nil)
		}
		if c.Replicas > 0 {
			one.pieces[0].replicas = int64(c.Replicas)
			d.pieces = append(d.pieces, one.pieces...)
			d.charges = append(d.charges, charge{class: class}.add(charge{pods: 1, items: one.items}, int64(c.Replicas)))
		}
	}
	d.extraPods = max(d.extraPods, 0)
	return d
}

// add adds the requests of n replicas. Requests of zero or less do not count, nor does a request for "pods", since every replica is
// one pod.
func (d *Demand) add(requests corev1.ResourceList, n int64) {
	for name, quantity := range requests {
		if value := count(name, quantity); value > 0 && n > 0 && name != corev1.ResourcePods {
			d.items = d.items.plus(name, times(n, value))
		}
	}
	d.items.sort()
}

func (d *Demand) pods() int64 { return 1 + d.extraPods }

// Usage is an amount of resources taken from a cluster. It is a value: Plus returns a new one. The zero value is nothing.
type Usage struct {
	pods  int64
	items Amounts
	// charges are the same by namespace and priority class.
	charges []charge
}

// Plus returns u with n more units of d. A negative n gives back; nothing falls below zero.
func (u Usage) Plus(d Demand, n int64) Usage {
	out := Usage{pods: max(0, u.pods+n*d.pods()), items: slices.Clone(u.items)}
	for _, item := range d.items {
		out.items = out.items.plus(item.name, times(n, item.value))
	}
	for _, choice := range d.choices {
		out.items = out.items.plus(choiceName(choice), n)
	}
	out.charges = slices.Clone(u.charges)
	for _, c := range d.charges {
		at := slices.IndexFunc(out.charges, func(have charge) bool { return have.namespace == c.namespace && have.class == c.class })
		if at < 0 {
			out.charges = append(out.charges, charge{namespace: c.namespace, class: c.class})
			at = len(out.charges) - 1
		}
		if out.charges[at] = out.charges[at].add(c, n); out.charges[at].pods == 0 {
			out.charges = slices.Delete(out.charges, at, at+1)
		}
	}
	return out
}

// plus adds to one amount, in place if it exists.
func (a Amounts) plus(name corev1.ResourceName, value int64) Amounts {
	i := slices.IndexFunc(a, func(have amount) bool { return have.name == name })
	if i < 0 {
		a = append(a, amount{name: name})
		i = len(a) - 1
	}
	a[i].value = min(max(0, a[i].value+value), maxAmount)
	return a
}

// IsZero is true if nothing is taken.
func (u Usage) IsZero() bool {
	return u.pods == 0 && !slices.ContainsFunc(u.items, func(a amount) bool { return a.value != 0 })
}
