package capacity

import (
	"sync"
	"time"
)

// Reservations keep what is reserved in clusters and is not in their status yet, so that a burst of decisions does not use the
// same resources twice. A reservation ends when the copy runs and the cluster has reported its resources after that, when it is taken
// back, or when its lifetime is over. It is safe for concurrent use.
type Reservations struct {
	mu       sync.Mutex
	lifetime time.Duration
	owners   map[string]map[string]*reservation // by owner, then cluster
	clusters map[string]map[string]*reservation // the same by cluster, then owner
	totals   map[string]Usage
	changed  map[string]struct{}
}

type reservation struct {
	demand  Demand
	units   int64
	made    time.Time
	running bool
}

// NewReservations returns an empty set whose reservations last for lifetime.
func NewReservations(lifetime time.Duration) *Reservations {
	return &Reservations{
		lifetime: lifetime,
		owners:   map[string]map[string]*reservation{},
		clusters: map[string]map[string]*reservation{},
		totals:   map[string]Usage{},
		changed:  map[string]struct{}{},
	}
}

// Reserve records that owner will use units more of demand in each cluster of units; negative numbers take back, down to nothing.
// Freed is true if less is reserved in some cluster now.
func (r *Reservations) Reserve(owner string, demand Demand, units map[string]int32, now time.Time) (freed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	demand.pieces = nil // of no use for what is taken
	for cluster, n := range units {
		p := r.owners[owner][cluster]
		if p == nil {
			if n <= 0 {
				continue
			}
			p = &reservation{}
			insert(r.owners, owner, cluster, p)
			insert(r.clusters, cluster, owner, p)
		}
		freed = freed || n < 0 && p.units > 0
		r.count(cluster, p, -p.units)
		p.demand, p.made, p.running = demand, now, false
		p.units = max(p.units+int64(n), 0)
		r.count(cluster, p, p.units)
		if p.units == 0 {
			r.end(owner, cluster, p)
		}
	}
	return freed
}

// Running records that owner's copy in cluster runs in full: the next report of the cluster will contain it.
func (r *Reservations) Running(owner, cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.owners[owner][cluster]; p != nil {
		p.running = true
	}
}

// Reported ends the reservations in cluster whose copies run: they are part of the resources that it has just reported.
func (r *Reservations) Reported(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner, p := range r.clusters[cluster] {
		if p.running {
			r.end(owner, cluster, p)
		}
	}
}

// Forget ends all reservations of owner. Freed is true if there were any.
func (r *Reservations) Forget(owner string) (freed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for cluster, p := range r.owners[owner] {
		r.end(owner, cluster, p)
		freed = true
	}
	return freed
}

// Expire ends reservations that were made longer ago than their lifetime.
func (r *Reservations) Expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for owner, clusters := range r.owners {
		for cluster, p := range clusters {
			if now.Sub(p.made) > r.lifetime {
				r.end(owner, cluster, p)
			}
		}
	}
}

// Taken returns what is reserved in cluster in total.
func (r *Reservations) Taken(cluster string) Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.totals[cluster]
}

// Changes returns what is reserved in each cluster for which that has changed since the last call.
func (r *Reservations) Changes() map[string]Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.changed) == 0 {
		return nil
	}
	out := make(map[string]Usage, len(r.changed))
	for cluster := range r.changed {
		out[cluster] = r.totals[cluster]
	}
	clear(r.changed)
	return out
}

func (r *Reservations) end(owner, cluster string, p *reservation) {
	r.count(cluster, p, -p.units)
	remove(r.owners, owner, cluster)
	remove(r.clusters, cluster, owner)
}

func (r *Reservations) count(cluster string, p *reservation, units int64) {
	if units == 0 {
		return
	}
	r.changed[cluster] = struct{}{}
	total := r.totals[cluster].Plus(p.demand, units)
	if total.IsZero() {
		delete(r.totals, cluster)
		return
	}
	r.totals[cluster] = total
}

func insert(index map[string]map[string]*reservation, first, second string, p *reservation) {
	if index[first] == nil {
		index[first] = map[string]*reservation{}
	}
	index[first][second] = p
}

func remove(index map[string]map[string]*reservation, first, second string) {
	delete(index[first], second)
	if len(index[first]) == 0 {
		delete(index, first)
	}
}
