package aggregate

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// gather is how long changes of one binding are gathered before they are written.
	gather = 30 * time.Millisecond
	// slowest is the window for a binding whose copies change all the time.
	slowest = time.Second
	// idle is how long a binding must be quiet to be quick again.
	idle = 3 * time.Second
	// quiet is the time without a change after which an unstable summary is written.
	quiet = 500 * time.Millisecond
	// patience bounds how long an unstable summary is not written.
	patience = 2 * time.Second
	// silence is how long a summary is not written in which no cluster reports, and longestSilence how long while there are many of them:
	// the members are busy then, and writes without content would add to the load.
	silence        = 5 * time.Second
	longestSilence = time.Minute
	// silentShare is what each further silent binding adds.
	silentShare = 20 * time.Millisecond
)

// pace decides how soon the changes of a binding are written: nearly at once if they are rare, more slowly the longer they go on, as in a
// rollout over many clusters.
type pace struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	tracks map[Request]*track
	silent int // the number of tracks that are silent and not written yet
}

type track struct {
	lastWrite  time.Time
	lastChange time.Time
	streak     int
	// unstableSince is zero while the summary is stable.
	unstableSince time.Time
	// silent is true if no cluster had reported at the last reconcile.
	silent bool
	// generation of the binding as last seen, and since when.
	generation      int64
	generationSince time.Time
}

func newPace(clock clock.PassiveClock) *pace {
	return &pace{clock: clock, tracks: map[Request]*track{}}
}

// window returns how long changes are gathered before a binding is reconciled.
func (p *pace) window(request Request) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.tracks[request]
	if !ok || p.clock.Since(t.lastWrite) > idle {
		return gather
	}
	// People wait for the first two writes: applied and ready.
	if t.streak <= 2 {
		return gather
	}
	return min(gather<<min(t.streak-2, 6), slowest)
}

// wrote records a write.
func (p *pace) wrote(request Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.track(request)
	if p.clock.Since(t.lastWrite) > idle {
		t.streak = 0
	}
	t.streak++
	t.lastWrite = p.clock.Now()
	p.setSilent(t, false)
}

// changed records a change of a binding.
func (p *pace) changed(request Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.track(request).lastChange = p.clock.Now()
}

// hold returns how much longer an unstable summary is not written. Most become stable soon, and then one write contains all changes.
func (p *pace) hold(request Request, summary Summary) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.track(request)
	p.setSilent(t, summary.Silent && !summary.Stable)
	if summary.Stable {
		t.unstableSince = time.Time{}
		return 0
	}
	now := p.clock.Now()
	if t.unstableSince.IsZero() {
		t.unstableSince = now
	}
	if summary.Silent {
		wait := min(silence+time.Duration(p.silent-1)*silentShare, longestSilence)
		return max(0, wait-now.Sub(t.unstableSince))
	}
	since := t.unstableSince
	if t.lastChange.After(since) {
		since = t.lastChange
	}
	return max(0, min(quiet-now.Sub(since), patience-now.Sub(t.unstableSince)))
}

// holdGeneration returns how much longer a new generation of the binding is not confirmed while nothing else changes: render may not be
// done with it.
func (p *pace) holdGeneration(request Request, generation int64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.track(request)
	if t.generation != generation {
		t.generation, t.generationSince = generation, p.clock.Now()
	}
	return max(0, quiet-p.clock.Since(t.generationSince))
}

func (p *pace) forget(request Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.tracks[request]; ok {
		p.setSilent(t, false)
	}
	delete(p.tracks, request)
}

// setSilent counts the bindings that report nothing. It is called with the lock held.
func (p *pace) setSilent(t *track, silent bool) {
	switch {
	case silent && !t.silent:
		p.silent++
	case !silent && t.silent:
		p.silent--
	}
	t.silent = silent
}

func (p *pace) track(request Request) *track {
	t, ok := p.tracks[request]
	if !ok {
		t = &track{}
		p.tracks[request] = t
	}
	return t
}
