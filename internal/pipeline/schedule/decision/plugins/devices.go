package plugins

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// DevicesFilter is the name of the filter that drops clusters for lack of devices.
const DevicesFilter = "Devices"

// devices drops clusters that lack a class of devices the object claims, or have none of it left. A cluster that has the object
// keeps it: the devices it holds are not free. A cluster that does not count devices passes.
func devices(r *decision.Round) decision.Check {
	needs := r.Request.Devices.Together()
	if needs.IsEmpty() {
		return nil
	}
	demands := demandsOf(needs)
	return func(v *decision.Candidate) *decision.Reason {
		if v.Held {
			return nil
		}
		given := map[capacity.Class]int64{}
		for i := range demands {
			if reason := demands[i].drops(r.Snapshot, v.Cluster, given); reason != nil {
				return reason
			}
		}
		return nil
	}
}

// deviceDemand is a number of devices of one class, or of the first of several that a cluster has.
type deviceDemand struct {
	options []capacity.Option
	absent  []*decision.Reason // by option: schedulers refuse a claim that names a class they do not have
	full    *decision.Reason
}

// demandsOf lists what there is to find, the fixed numbers first: what they take a choice cannot have.
func demandsOf(needs capacity.Devices) []deviceDemand {
	var all []deviceDemand
	for _, class := range slices.SortedFunc(maps.Keys(needs.Fixed), capacity.CompareClasses) {
		all = append(all, demandOf([]capacity.Option{{Class: class, Count: needs.Fixed[class]}}))
	}
	for _, choice := range needs.Choices {
		all = append(all, demandOf(choice))
	}
	return all
}

func demandOf(options []capacity.Option) deviceDemand {
	d := deviceDemand{options: options}
	var names, counts []string
	for _, o := range options {
		d.absent = append(d.absent, has("no device class "+o.Name))
		names = append(names, o.Name)
		counts = append(counts, fmt.Sprintf("fewer than %d free devices of class %s", o.Count, o.Name))
	}
	d.full = has("no free device of class " + strings.Join(names, " or "))
	if slices.ContainsFunc(options, func(o capacity.Option) bool { return o.Count > 1 }) {
		d.full = has(strings.Join(counts, ", and "))
	}
	return d
}

func has(what string) *decision.Reason { return decision.NewReason("has "+what, "have "+what) }

// drops takes the first option that the cluster has beside what was taken before, or returns why there is none.
func (d *deviceDemand) drops(s *decision.Snapshot, c *decision.Cluster, given map[capacity.Class]int64) *decision.Reason {
	for i, o := range d.options {
		if !devicesLeft(s, c, o.Class).Has(0) {
			return d.absent[i]
		}
	}
	for _, o := range d.options {
		if devicesLeft(s, c, o.Class).Has(o.Count + given[o.Class]) {
			given[o.Class] += o.Count
			return nil
		}
	}
	return d.full
}

// devicesLeft returns what a cluster of the snapshot has left of a class.
func devicesLeft(s *decision.Snapshot, c *decision.Cluster, class capacity.Class) capacity.Stock {
	return c.Headroom.Devices(class, &s.Taken[s.Index[c.Name]])
}

// freeDevices prefers clusters with more free devices of the class that is scarcest there, measured by the most that a
// cluster of the fleet has of it; of a choice, the class that is most plentiful there counts.
func freeDevices(r *decision.Round) decision.Rate {
	demands := demandsOf(r.Request.Devices.Together())
	most := map[capacity.Class]int64{}
	for i := range demands {
		for _, o := range demands[i].options {
			if o.Count == 0 {
				continue
			}
			for _, c := range r.Snapshot.Clusters {
				most[o.Class] = max(most[o.Class], devicesLeft(r.Snapshot, c, o.Class).Free)
			}
		}
	}
	maps.DeleteFunc(most, func(_ capacity.Class, n int64) bool { return n == 0 })
	if len(most) == 0 {
		return nil
	}
	return func(v *decision.Candidate) int64 {
		score := int64(decision.MaxScore)
		for i := range demands {
			score = min(score, demands[i].rate(r.Snapshot, v.Cluster, most))
		}
		return score
	}
}

// rate is how many of the best option are free in a cluster, by the most in any; options of which no cluster has any do not count.
func (d *deviceDemand) rate(s *decision.Snapshot, c *decision.Cluster, most map[capacity.Class]int64) int64 {
	best, said := int64(0), false
	for _, o := range d.options {
		if n := most[o.Class]; n > 0 {
			best, said = max(best, max(devicesLeft(s, c, o.Class).Free, 0)*decision.MaxScore/n), true
		}
	}
	if !said {
		return decision.MaxScore
	}
	return best
}
