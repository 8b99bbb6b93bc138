package capacity

import (
	"sync"
	"time"
)

// Reservations remember what was promised to clusters and cannot be seen in their
// status yet, so that a burst of decisions does not give the same room away
// twice. A promise ends when its owner reports the copy running and the
// cluster has reported its resources after that, when it is taken back, or
// when it gets too old to be believed. It is safe for concurrent use.
type Reservations struct {
	mu       sync.Mutex
	lifetime time.Duration
	owners   map[string]map[string]*promise // by owner, then cluster
	clusters map[string]map[string]*promise // the same by cluster, then owner
	totals   map[string]Usage
	changed  map[string]struct{}
}

type promise struct {
	demand  Demand
	units   int64
	made    time.Time
	running bool
}

// NewReservations returns an empty set whose promises are believed for lifetime.
func NewReservations(lifetime time.Duration) *Reservations {
	return &Reservations{
		lifetime: lifetime,
		owners:   map[string]map[string]*promise{},
		clusters: map[string]map[string]*promise{},
		totals:   map[string]Usage{},
		changed:  map[string]struct{}{},
	}
}

// Promise notes that owner will use units more of demand in each cluster of
// units; negative numbers take back, down to nothing. It says whether some
// cluster has been promised less by that.
func (l *Reservations) Promise(owner string, demand Demand, units map[string]int32, now time.Time) (freed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for cluster, n := range units {
		p := l.owners[owner][cluster]
		if p == nil {
			if n <= 0 {
				continue
			}
			p = &promise{}
			file(l.owners, owner, cluster, p)
			file(l.clusters, cluster, owner, p)
		}
		freed = freed || n < 0 && p.units > 0
		l.settle(cluster, p, -p.units)
		p.demand, p.made, p.running = demand, now, false
		p.units = max(p.units+int64(n), 0)
		l.settle(cluster, p, p.units)
		if p.units == 0 {
			l.end(owner, cluster, p)
		}
	}
	return freed
}

// Running notes that owner's copy in cluster runs in full: the next report of
// the cluster will contain it.
func (l *Reservations) Running(owner, cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.owners[owner][cluster]; p != nil {
		p.running = true
	}
}

// Reported notes that cluster has reported its resources: promises to it whose
// copies run are part of the report and end here.
func (l *Reservations) Reported(cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, p := range l.clusters[cluster] {
		if p.running {
			l.end(owner, cluster, p)
		}
	}
}

// Forget ends all promises of owner, and says whether there were any.
func (l *Reservations) Forget(owner string) (freed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for cluster, p := range l.owners[owner] {
		l.end(owner, cluster, p)
		freed = true
	}
	return freed
}

// Expire ends promises that were made longer ago than their lifetime.
func (l *Reservations) Expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, clusters := range l.owners {
		for cluster, p := range clusters {
			if now.Sub(p.made) > l.lifetime {
				l.end(owner, cluster, p)
			}
		}
	}
}

// Taken returns what is promised to cluster in total.
func (l *Reservations) Taken(cluster string) Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals[cluster]
}

// Changes returns what is promised to each cluster for which that has changed
// since the last call.
func (l *Reservations) Changes() map[string]Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.changed) == 0 {
		return nil
	}
	out := make(map[string]Usage, len(l.changed))
	for cluster := range l.changed {
		out[cluster] = l.totals[cluster]
	}
	clear(l.changed)
	return out
}

func (l *Reservations) end(owner, cluster string, p *promise) {
	l.settle(cluster, p, -p.units)
	unfile(l.owners, owner, cluster)
	unfile(l.clusters, cluster, owner)
}

func (l *Reservations) settle(cluster string, p *promise, units int64) {
	if units == 0 {
		return
	}
	l.changed[cluster] = struct{}{}
	total := l.totals[cluster].Plus(p.demand, units)
	if total.IsZero() {
		delete(l.totals, cluster)
		return
	}
	l.totals[cluster] = total
}

func file(drawers map[string]map[string]*promise, drawer, key string, p *promise) {
	if drawers[drawer] == nil {
		drawers[drawer] = map[string]*promise{}
	}
	drawers[drawer][key] = p
}

func unfile(drawers map[string]map[string]*promise, drawer, key string) {
	delete(drawers[drawer], key)
	if len(drawers[drawer]) == 0 {
		delete(drawers, drawer)
	}
}
