package aggregate

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// gather is how long news of one binding is gathered before it is written.
	gather = 30 * time.Millisecond
	// slowest is the window for a binding whose copies change all the time.
	slowest = time.Second
	// idle is how long a binding must be quiet to be quick again.
	idle = 3 * time.Second
	// quiet is how long nothing must be heard before an unsettled picture is
	// written all the same.
	quiet = 500 * time.Millisecond
	// patience is how long an unsettled picture is held back at most.
	patience = 2 * time.Second
	// silence is how long a picture is held back in which nobody says anything, and
	// longestSilence how long while many are so: then the members are busy, and a
	// write for each binding that says nothing would keep everybody busier still.
	silence        = 5 * time.Second
	longestSilence = time.Minute
	// silentShare is how much each further silent binding adds.
	silentShare = 20 * time.Millisecond
)

// pace decides how soon the news of a binding is written: at once, nearly, when
// it is rare, and more and more slowly while it does not end, as in a rollout
// over many clusters.
type pace struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	tracks map[Request]*track
	silent int // tracks that are, and of which that is not written yet
}

type track struct {
	lastWrite time.Time
	lastNews  time.Time
	streak    int
	// unsettledSince is zero while the picture is settled.
	unsettledSince time.Time
	// silent says that nobody had anything to say when it was last looked at.
	silent bool
	// generation of the binding as last seen, and since when.
	generation      int64
	generationSince time.Time
}

func newPace(clock clock.PassiveClock) *pace {
	return &pace{clock: clock, tracks: map[Request]*track{}}
}

// window is how long to gather before looking at a binding again.
func (p *pace) window(request Request) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.tracks[request]
	if !ok || p.clock.Since(t.lastWrite) > idle {
		return gather
	}
	// The first two writes, applied and ready, are what people wait for.
	if t.streak <= 2 {
		return gather
	}
	return min(gather<<min(t.streak-2, 6), slowest)
}

// wrote notes a write.
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

// heard notes that somebody has news of a binding.
func (p *pace) heard(request Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.track(request).lastNews = p.clock.Now()
}

// hold says how much longer an unsettled picture is to be held back. Things
// mostly settle within moments, and then one write tells all.
func (p *pace) hold(request Request, picture Summary) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.track(request)
	p.setSilent(t, picture.Silent && !picture.Settled)
	if picture.Settled {
		t.unsettledSince = time.Time{}
		return 0
	}
	now := p.clock.Now()
	if t.unsettledSince.IsZero() {
		t.unsettledSince = now
	}
	if picture.Silent {
		wait := min(silence+time.Duration(p.silent-1)*silentShare, longestSilence)
		return max(0, wait-now.Sub(t.unsettledSince))
	}
	since := t.unsettledSince
	if t.lastNews.After(since) {
		since = t.lastNews
	}
	return max(0, min(quiet-now.Sub(since), patience-now.Sub(t.unsettledSince)))
}

// holdGeneration says how much longer to wait before confirming that nothing is
// to change for a new generation of the binding: render may still be at it.
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
