package capacity

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

const (
	// maxQuotas bounds the ResourceQuotas of a ClusterCapacity.
	maxQuotas = 512
	// maxQuotaBytes bounds their names and values together: a ClusterCapacity has 512 KiB at most, of which its nodes take 100. Five hundred
	// usual ones have 50.
	maxQuotaBytes = 128 << 10
	// amountBytes is what an amount has in JSON beside the name of its resource.
	amountBytes = 32
	// maxQuotaScopes bounds the requirements of one on priority classes.
	maxQuotaScopes = 16
	// podCount is what a quota calls the number of pods, besides "pods".
	podCount = "count/pods"
)

// QuotaOf returns what a ResourceQuota leaves for pods. It returns false for one that bounds none, or whose pods do not follow from a
// template.
func QuotaOf(q *corev1.ResourceQuota) (fleetv1alpha1.Quota, bool) {
	out := fleetv1alpha1.Quota{Namespace: q.Namespace, Name: q.Name}
	for _, scope := range q.Spec.Scopes {
		out.PriorityClasses = append(out.PriorityClasses, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		out.PriorityClasses = append(out.PriorityClasses, q.Spec.ScopeSelector.MatchExpressions...)
	}
	if len(out.PriorityClasses) > maxQuotaScopes || slices.ContainsFunc(out.PriorityClasses, func(r corev1.ScopedResourceSelectorRequirement) bool {
		return r.ScopeName != corev1.ResourceQuotaScopePriorityClass
	}) {
		return out, false
	}
	var free Amounts
	for name, hard := range q.Status.Hard {
		counted, bounds := requested(name)
		if !bounds || len(counted) > maxNameBytes {
			continue
		}
		used := q.Status.Used[name]
		left := min(max(count(counted, hard)-count(counted, used), 0), maxCounted)
		if before, twice := free.Of(counted); twice { // as cpu and as requests.cpu
			left = min(left, before)
			free = slices.DeleteFunc(free, func(a amount) bool { return a.name == counted })
		}
		free = append(free, amount{intern(counted), left})
	}
	if free.sort(); len(free) == 0 {
		return out, false
	}
	out.Free = free.Bounded().List()
	return out, true
}

// requested returns the resource whose requests a name in a quota bounds, or pods.
func requested(name corev1.ResourceName) (corev1.ResourceName, bool) {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods:
		return name, true
	case podCount:
		return corev1.ResourcePods, true
	case corev1.ResourceRequestsStorage: // of volumes
		return "", false
	}
	counted, requests := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
	return corev1.ResourceName(counted), requests
}

// SortQuotas sorts what ResourceQuotas leave, and returns as many as a ClusterCapacity lists, and how many are omitted.
func SortQuotas(quotas []fleetv1alpha1.Quota) (listed []fleetv1alpha1.Quota, omitted int32) {
	slices.SortFunc(quotas, func(a, b fleetv1alpha1.Quota) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	size := 0
	for i := range quotas {
		if more := sizeOf(&quotas[i]); len(listed) < maxQuotas && size+more <= maxQuotaBytes {
			listed, size = append(listed, quotas[i]), size+more
		}
	}
	return listed, int32(min(len(quotas)-len(listed), math.MaxInt32))
}

// sizeOf is about how many bytes of JSON a quota has.
func sizeOf(q *fleetv1alpha1.Quota) int {
	size := len(q.Namespace) + len(q.Name)
	for _, r := range q.PriorityClasses {
		size += len(r.ScopeName) + len(r.Operator)
		for _, value := range r.Values {
			size += len(value)
		}
	}
	for name := range q.Free {
		size += len(name) + amountBytes
	}
	return size
}

// quota is what a ResourceQuota leaves.
type quota struct {
	name    string
	classes []corev1.ScopedResourceSelectorRequirement
	free    Amounts
}

// quotasOf are the quotas of a report by namespace, nil for none.
func quotasOf(reported []fleetv1alpha1.Quota) map[string][]quota {
	var out map[string][]quota
	for i := range reported[:min(len(reported), maxQuotas)] {
		r := &reported[i]
		if out == nil {
			out = map[string][]quota{}
		}
		out[r.Namespace] = append(out[r.Namespace], quota{r.Name, r.PriorityClasses, AmountsOf(r.Free)})
	}
	return out
}

// counts returns whether it counts pods of a priority class, as the admission of Kubernetes decides. An operator that is not known counts.
func (q *quota) counts(class string) bool {
	for _, r := range q.classes {
		named := slices.Contains(r.Values, class)
		switch r.Operator {
		case corev1.ScopeSelectorOpIn:
			if class == "" || !named {
				return false
			}
		case corev1.ScopeSelectorOpNotIn:
			if named {
				return false
			}
		case corev1.ScopeSelectorOpExists:
			if class == "" {
				return false
			}
		case corev1.ScopeSelectorOpDoesNotExist:
			if class != "" {
				return false
			}
		}
	}
	return true
}

// charge is what pods of one priority class in one namespace request. In a Demand it is that of a unit.
type charge struct {
	namespace, class string
	pods             int64
	items            Amounts
}

// In returns the demand of a unit whose pods are made in a namespace, with a priority class; those of a set of components have their own.
func (d Demand) In(namespace, class string) Demand {
	if len(d.charges) == 0 {
		d.charges = []charge{{class: class, pods: d.pods(), items: d.items}}
	}
	d.charges = slices.Clone(d.charges)
	for i := range d.charges {
		d.charges[i].namespace = namespace
	}
	return d
}

// add adds n times more.
func (c charge) add(more charge, n int64) charge {
	c.pods = max(0, c.pods+n*more.pods)
	c.items = slices.Clone(c.items)
	for _, item := range more.items {
		c.items = c.items.plus(item.name, times(n, item.value))
	}
	return c
}

// sumOf adds up the charges in a namespace that a quota counts.
func (q *quota) sumOf(charges []charge, namespace string) (sum charge) {
	for _, c := range charges {
		if c.namespace == namespace && q.counts(c.class) {
			sum = sum.add(c, 1)
		}
	}
	return sum
}

// fit is how many units of d it still holds, when taken is reserved for others.
func (q *quota) fit(d *Demand, taken *Usage, limit int64) int64 {
	namespace := d.charges[0].namespace
	unit := q.sumOf(d.charges, namespace)
	if unit.pods == 0 {
		return limit
	}
	reserved := q.sumOf(taken.charges, namespace)
	for _, free := range q.free {
		needed, used := unit.pods, reserved.pods
		if free.name != corev1.ResourcePods {
			needed, _ = unit.items.Of(free.name)
			used, _ = reserved.items.Of(free.name)
		}
		if needed > 0 {
			limit = min(limit, max(free.value-used, 0)/needed)
		}
	}
	return limit
}

// withinQuotas is how many units of d, at most limit, the ResourceQuotas of its namespace still hold.
func (n *Nodes) withinQuotas(d *Demand, taken *Usage, limit int64) int64 {
	if len(n.quotas) == 0 || len(d.charges) == 0 {
		return limit
	}
	quotas := n.quotas[d.charges[0].namespace]
	for i := range quotas {
		limit = quotas[i].fit(d, taken, limit)
	}
	return limit
}

// FullQuotas are the names of the ResourceQuotas in a cluster that do not hold one more unit of d.
func (r *Headroom) FullQuotas(d *Demand, taken *Usage) (names []string) {
	if r.nodes == nil || len(d.charges) == 0 {
		return nil
	}
	quotas := r.nodes.quotas[d.charges[0].namespace]
	for i := range quotas {
		if quotas[i].fit(d, taken, 1) == 0 {
			names = append(names, quotas[i].name)
		}
	}
	return names
}

// quotasExceed returns whether some quota leaves more than before, or is gone.
func (n *Nodes) quotasExceed(before *Nodes) bool {
	for namespace, had := range before.quotas {
		now := n.quotas[namespace]
		for i := range had {
			at := slices.IndexFunc(now, func(q quota) bool { return q.name == had[i].name })
			if at < 0 || slices.ContainsFunc(now[at].free, func(a amount) bool {
				value, bounded := had[i].free.Of(a.name)
				return bounded && a.value > value
			}) || len(now[at].free) < len(had[i].free) {
				return true
			}
		}
	}
	return false
}
