package evict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// period is how often the guard checks the fleet and its own clock.
	period = time.Second
	// maxGap is by how much the clock may advance between two checks before the process counts as paused.
	maxGap = 20 * time.Second
	// atOnce is within which time clusters are lost at once.
	atOnce = time.Minute
	// lostObservation is how many observation periods pass after half of the clusters were lost at once.
	lostObservation = 5
)

// hold is why nothing is evicted from a cluster for now; the zero value is no hold. A hold without a reason is that of the rate: it
// ends soon.
type hold struct {
	held            bool
	reason, message string
}

// seen is the last observed state of one cluster.
type seen struct {
	name, zone string
	ready      bool
	// failing is true if the cluster is not ready or has a NoExecute taint.
	failing bool
	// held is true if the Cluster has the condition EvictionHeld.
	held     bool
	released time.Time
	// fingerprint changes with everything that can change a verdict about the cluster.
	fingerprint string
}

// guard decides from which clusters objects may be evicted now. The control plane itself may be the cause: after a start, after a gap in
// its own clock, and after half of the clusters were lost at once, the guard first observes for a while. Clusters of a zone are admitted one
// after the other, and not more of the fleet than its share.
type guard struct {
	config func() Config

	mu sync.Mutex
	// Config is what config returned at the last check.
	Config
	// checked is the last check by the wall clock, which advances while the machine sleeps.
	checked time.Time
	// observing is until when nothing is evicted from clusters that are not ready, and why.
	observing time.Time
	why       string
	known     map[string]seen
	lost      map[string]time.Time
	admitted  map[string]bool
	next      map[string]time.Time // by zone: when its next cluster may be admitted
	holds     map[string]hold
	// waiting are the bindings that would be evicted from a cluster that is held.
	waiting map[string]map[types.NamespacedName]bool
}

func newGuard(config func() Config) *guard {
	return &guard{
		config: config, known: map[string]seen{}, lost: map[string]time.Time{}, admitted: map[string]bool{}, next: map[string]time.Time{},
		holds: map[string]hold{}, waiting: map[string]map[types.NamespacedName]bool{},
	}
}

// check takes the clusters as they are now, and returns those whose bindings are to be reconciled, since the cluster or its hold
// changed.
func (g *guard) check(now time.Time, fleet []seen) (changed []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.Config = g.config().complete()
	now = now.Round(0)
	g.observeClock(now)
	g.observe(now, fleet)
	before := g.holds
	g.decide(now, fleet)
	present := make(map[string]seen, len(fleet))
	for _, c := range fleet {
		present[c.name] = c
		if old, ok := g.known[c.name]; !ok || old.fingerprint != c.fingerprint || before[c.name].held != g.holds[c.name].held {
			changed = append(changed, c.name)
		}
	}
	for name := range g.known {
		if _, ok := present[name]; !ok {
			changed = append(changed, name)
			delete(g.lost, name)
			delete(g.waiting, name)
		}
	}
	g.known = present
	return changed
}

// observeClock begins an observation if the process has just started, or was paused.
func (g *guard) observeClock(now time.Time) {
	gap := now.Sub(g.checked)
	switch {
	case g.checked.IsZero():
		g.suspect(now.Add(g.Observation), "the control plane has just started")
	case gap > maxGap || gap < -maxGap:
		g.suspect(now.Add(g.Observation), fmt.Sprintf("the clock of the control plane jumped by %s", gap.Round(time.Second)))
		clear(g.lost)
	}
	g.checked = now
}

// observe begins an observation if many clusters are lost at once.
func (g *guard) observe(now time.Time, fleet []seen) {
	recent := 0
	for _, c := range fleet {
		if c.ready {
			delete(g.lost, c.name)
		} else if g.known[c.name].ready {
			g.lost[c.name] = now
		}
		if at, ok := g.lost[c.name]; ok && now.Sub(at) < atOnce {
			recent++
		}
	}
	if recent >= 2 && 2*recent >= len(fleet) {
		g.suspect(now.Add(lostObservation*g.Observation), fmt.Sprintf("%d of %d clusters were lost within %s", recent, len(fleet), atOnce))
	}
}

func (g *guard) suspect(until time.Time, why string) {
	if until.After(g.observing) {
		g.observing, g.why = until, why
	}
}

// decide computes the holds of all clusters that fail.
func (g *guard) decide(now time.Time, fleet []seen) {
	g.holds = map[string]hold{}
	total, unready := map[string]int{}, map[string]int{}
	anyReady := false
	var failing []seen
	for _, c := range fleet {
		total[c.zone]++
		if !c.ready {
			unready[c.zone]++
		}
		anyReady = anyReady || c.ready
		if c.failing {
			failing = append(failing, c)
		}
	}
	isFailing := func(name string) bool {
		return slices.ContainsFunc(failing, func(c seen) bool { return c.name == name })
	}
	for name := range g.admitted {
		if !isFailing(name) {
			delete(g.admitted, name)
		}
	}
	first := len(g.known) == 0 // those that were admitted before a start come before those that were held
	slices.SortFunc(failing, func(a, b seen) int {
		if first && a.held != b.held {
			if a.held {
				return 1
			}
			return -1
		}
		return cmp.Or(g.lost[a.name].Compare(g.lost[b.name]), strings.Compare(a.name, b.name))
	})
	for _, c := range failing {
		h := g.judge(now, c, len(fleet), anyReady, total[c.zone], unready[c.zone])
		g.holds[c.name] = h
		if !h.held {
			g.admitted[c.name] = true
		}
	}
}

// judge returns the hold of one cluster that fails.
func (g *guard) judge(now time.Time, c seen, fleet int, anyReady bool, total, unready int) hold {
	switch {
	case now.Before(c.released) && c.released.Sub(now) <= clusterv1alpha1.MaxEvictionRelease:
		return hold{}
	case !anyReady:
		return hold{true, clusterv1alpha1.ControlPlaneSuspectReason, "no cluster is ready: the control plane may be cut off"}
	case !c.ready && now.Before(g.observing):
		return hold{true, clusterv1alpha1.ControlPlaneSuspectReason, fmt.Sprintf("%s: it observes the clusters until %s", g.why, g.observing.UTC().Format(time.RFC3339))}
	case g.admitted[c.name]:
		return hold{}
	case len(g.admitted) > 0 && float64(len(g.admitted)+1) > g.Share*float64(fleet):
		return hold{true, clusterv1alpha1.FleetShareExceededReason,
			fmt.Sprintf("objects are being evicted from %d of %d clusters, and one more would be over the share of %.4g", len(g.admitted), fleet, g.Share)}
	}
	rate := g.Rate
	if unready > 2 && float64(unready) >= g.UnhealthyZone*float64(total) && unready < total {
		rate = g.SecondaryRate
		if total <= g.LargeZone {
			return hold{true, clusterv1alpha1.ZoneDisruptedReason, fmt.Sprintf("%d of %d clusters of the zone %q are not ready", unready, total, c.zone)}
		}
	}
	if rate <= 0 || now.Before(g.next[c.zone]) {
		return hold{held: true}
	}
	g.next[c.zone] = now.Add(time.Duration(float64(time.Second) / rate))
	return hold{}
}

// admits returns whether a binding may be evicted from a cluster now. If not, the binding counts as waiting.
func (g *guard) admits(cluster string, binding types.NamespacedName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admitted[cluster] && !g.holds[cluster].held {
		delete(g.waiting[cluster], binding)
		return true
	}
	if g.waiting[cluster] == nil {
		g.waiting[cluster] = map[types.NamespacedName]bool{}
	}
	g.waiting[cluster][binding] = true
	return false
}

// forget has a binding wait for no cluster but those listed.
func (g *guard) forget(binding types.NamespacedName, but ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for cluster, bindings := range g.waiting {
		if !slices.Contains(but, cluster) {
			delete(bindings, binding)
		}
	}
}

// concerns returns whether a cluster fails, as far as the guard has seen.
func (g *guard) concerns(cluster string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[cluster].failing
}

// held returns the hold of a cluster that bindings wait for, and how many do.
func (g *guard) held(cluster string) (hold, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holds[cluster], len(g.waiting[cluster])
}

// advance has the next check take no time before now for a gap.
func (g *guard) advance(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.checked = now.Round(0)
}

// tick checks the clock for a gap, and returns whether time alone can change a hold.
func (g *guard) tick(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.observeClock(now.Round(0))
	for _, c := range g.known {
		if c.failing {
			return true
		}
	}
	return false
}
