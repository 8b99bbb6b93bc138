package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
)

// devices drops clusters that lack a class of devices the object claims, or have none of it left. A cluster that has
// the object keeps it: the devices it holds are not free. A cluster that does not count devices passes.
type devices struct{}

func (devices) Name() string { return "Devices" }

func (devices) Prepare(r *Round) (Check, error) {
	needs := r.Request.Devices.Together()
	if needs.IsEmpty() {
		return nil, nil
	}
	wants := wantsOf(needs)
	return func(v *Candidate) *Reason {
		if v.Held {
			return nil
		}
		given := map[capacity.Class]int64{}
		for i := range wants {
			if reason := wants[i].drops(r.Snapshot, v.Cluster, given); reason != nil {
				return reason
			}
		}
		return nil
	}, nil
}

// want is a number of devices of one class, or of the first of several that a cluster has.
type want struct {
	options []capacity.Option
	absent  []*Reason // by option: schedulers want to know every class that a claim names
	full    *Reason
}

// wantsOf lists what there is to find, the fixed numbers first: what they take a choice cannot have.
func wantsOf(needs capacity.Devices) []want {
	var all []want
	for _, class := range slices.SortedFunc(maps.Keys(needs.Fixed), capacity.CompareClasses) {
		all = append(all, wantOf([]capacity.Option{{Class: class, Count: needs.Fixed[class]}}))
	}
	for _, choice := range needs.Choices {
		all = append(all, wantOf(choice))
	}
	return all
}

func wantOf(options []capacity.Option) want {
	w := want{options: options}
	var names, counts []string
	for _, o := range options {
		w.absent = append(w.absent, has("no device class "+o.Name))
		names = append(names, o.Name)
		counts = append(counts, fmt.Sprintf("fewer than %d free devices of class %s", o.Count, o.Name))
	}
	w.full = has("no free device of class " + strings.Join(names, " or "))
	if slices.ContainsFunc(options, func(o capacity.Option) bool { return o.Count > 1 }) {
		w.full = has(strings.Join(counts, ", and "))
	}
	return w
}

func has(what string) *Reason { return &Reason{"has " + what, "have " + what} }

// drops takes the first option that the cluster has beside what was given before, or says why there is none.
func (w *want) drops(s *Snapshot, c *Cluster, given map[capacity.Class]int64) *Reason {
	for i, o := range w.options {
		if !s.devices(c, o.Class).Has(0) {
			return w.absent[i]
		}
	}
	for _, o := range w.options {
		if s.devices(c, o.Class).Has(o.Count + given[o.Class]) {
			given[o.Class] += o.Count
			return nil
		}
	}
	return w.full
}

// devices says what a cluster of the snapshot has left of a class.
func (s *Snapshot) devices(c *Cluster, class capacity.Class) capacity.Stock {
	return c.room.Devices(class, &s.taken[s.index[c.Name]])
}

// freeDevices prefers clusters with more free devices of the class that is scarcest there, measured by the most that a
// cluster of the fleet has of it; of a choice, the class that is most plentiful there counts.
type freeDevices struct{}

func (freeDevices) Name() string { return "FreeDevices" }

func (freeDevices) Prepare(r *Round) Rate {
	wants := wantsOf(r.Request.Devices.Together())
	most := map[capacity.Class]int64{}
	for i := range wants {
		for _, o := range wants[i].options {
			if o.Count == 0 {
				continue
			}
			for _, c := range r.Snapshot.clusters {
				most[o.Class] = max(most[o.Class], r.Snapshot.devices(c, o.Class).Free)
			}
		}
	}
	maps.DeleteFunc(most, func(_ capacity.Class, n int64) bool { return n == 0 })
	if len(most) == 0 {
		return nil
	}
	return func(v *Candidate) int64 {
		score := int64(MaxScore)
		for i := range wants {
			score = min(score, wants[i].rate(r.Snapshot, v.Cluster, most))
		}
		return score
	}
}

// rate is how plentiful the best option is in a cluster; options of which no cluster has any say nothing.
func (w *want) rate(s *Snapshot, c *Cluster, most map[capacity.Class]int64) int64 {
	best, said := int64(0), false
	for _, o := range w.options {
		if n := most[o.Class]; n > 0 {
			best, said = max(best, max(s.devices(c, o.Class).Free, 0)*MaxScore/n), true
		}
	}
	if !said {
		return MaxScore
	}
	return best
}
