package appfailover

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// checkPeriod is how often the clock is read, and maxPause by how much it may advance in between.
	checkPeriod, maxPause = 5 * time.Second, 20 * time.Second
	// observation is how long after a start or a pause nothing is evicted: what was reported before may be outdated.
	observation = 30 * time.Second
)

// presence records since when this process runs without a pause.
type presence struct {
	clock clock.WithTicker

	mu          sync.Mutex
	last, began time.Time
}

// since returns since when this process has run without a pause. Only the wall clock advances while a machine is asleep.
func (p *presence) since(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now = now.Round(0)
	if gap := now.Sub(p.last); gap > maxPause || gap < -maxPause {
		p.began = now
	}
	p.last = now
	return p.began
}

// run implements manager.RunnableFunc.
func (p *presence) run(ctx context.Context) error {
	ticker := p.clock.NewTicker(checkPeriod)
	defer ticker.Stop()
	for {
		p.since(p.clock.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}
