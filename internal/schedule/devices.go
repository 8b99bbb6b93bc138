package schedule

import (
	"fmt"
	"maps"
	"slices"
)

// devices drops clusters that lack a class of devices the object claims, or have none of it left. A cluster that has
// the object keeps it: the devices it holds are not free. A cluster that does not count devices passes.
type devices struct{}

func (devices) Name() string { return "Devices" }

func (devices) Prepare(r *Round) (Check, error) {
	needs := r.Request.Devices.Together()
	if len(needs) == 0 {
		return nil, nil
	}
	type need struct {
		class        string
		count        int64
		absent, full *Reason
	}
	var all []need
	for _, class := range slices.Sorted(maps.Keys(needs)) {
		n := need{class: class, count: needs[class]}
		n.absent = &Reason{"has no device class " + class, "have no device class " + class}
		n.full = &Reason{"has no free device of class " + class, "have no free device of class " + class}
		if n.count > 1 {
			n.full = &Reason{
				fmt.Sprintf("has fewer than %d free devices of class %s", n.count, class),
				fmt.Sprintf("have fewer than %d free devices of class %s", n.count, class),
			}
		}
		all = append(all, n)
	}
	return func(v *Verdict) *Reason {
		if v.Held {
			return nil
		}
		for _, n := range all {
			free, exists, known := r.Snapshot.devices(v.Cluster, n.class)
			switch {
			case known && !exists:
				return n.absent
			case known && free < n.count:
				return n.full
			}
		}
		return nil
	}, nil
}

// devices says how many devices of a class a cluster of the snapshot has left; see capacity.Room.
func (s *Snapshot) devices(c *Cluster, class string) (free int64, exists, known bool) {
	return c.room.Devices(class, &s.taken[s.index[c.Name]])
}

// freeDevices prefers clusters with more free devices of the class that is scarcest there, measured by the most that a
// cluster of the fleet has of it.
type freeDevices struct{}

func (freeDevices) Name() string { return "FreeDevices" }

func (freeDevices) Prepare(r *Round) Rate {
	most := map[string]int64{}
	for class, count := range r.Request.Devices.Together() {
		if count == 0 {
			continue
		}
		for _, c := range r.Snapshot.clusters {
			free, _, _ := r.Snapshot.devices(c, class)
			most[class] = max(most[class], free)
		}
	}
	maps.DeleteFunc(most, func(_ string, n int64) bool { return n == 0 })
	if len(most) == 0 {
		return nil
	}
	return func(v *Verdict) int64 {
		score := int64(MaxScore)
		for class, best := range most {
			free, _, _ := r.Snapshot.devices(v.Cluster, class)
			score = min(score, max(free, 0)*MaxScore/best)
		}
		return score
	}
}
