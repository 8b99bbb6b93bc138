package decision

import "sync"

// Plan is the result of the fixed filters for every cluster of a snapshot.
type Plan struct {
	Dropped []uint16 // per cluster: 0 for one that passes, else 1 + the place in reasons
	Reasons []PlanReason
}

type PlanReason struct {
	Reason *Reason
	Filter uint8
}

// maxPlanned bounds the plans that are kept, by the clusters in them all: at two bytes each a few megabytes.
const maxPlanned = 2_000_000

// plans caches plans. It is safe for concurrent use.
type plans struct {
	mu    sync.Mutex
	known map[string]*Plan
	size  int
}

func (p *plans) Get(key string) *Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[key]
}

func (p *plans) Put(key string, made *Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size += len(made.Dropped); p.known == nil || p.size > maxPlanned {
		p.known, p.size = map[string]*Plan{}, len(made.Dropped)
	}
	p.known[key] = made
}
