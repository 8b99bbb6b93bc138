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
	// quiet is the time without a change after which an unstable summary is written, and longestQuiet while there are many of them.
	quiet        = 500 * time.Millisecond
	longestQuiet = 2 * time.Second
	// patience bounds how long an unstable summary is not written, and longestPatience while there are many of them: with all processors busy, the
	// members report one after the other, and a status written for each of them makes all of them later.
	patience        = 2 * time.Second
	longestPatience = 10 * time.Second
	// quietShare and patienceShare are what each cluster of a further unstable binding adds.
	quietShare    = 5 * time.Millisecond
	patienceShare = 25 * time.Millisecond
	// silence is how long a summary is not written in which no cluster reports, and longestSilence how long while there are many of them:
	// the members are busy then, and writes without content would add to the load.
	silence        = 5 * time.Second
	longestSilence = time.Minute
	// silentShare is what each cluster of a further silent binding adds.
	silentShare = 10 * time.Millisecond
)

// pace decides how soon the changes of a binding are written: nearly at once if they are rare, more slowly the longer they go on, as in a
// rollout over many clusters.
type pace struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	tracks map[Request]*track
	// incomplete has the clusters of the bindings of each namespace: those of another namespace, which may be another tenant's, delay nothing.
	incomplete map[string]clusters
}

// clusters is how many target clusters unstable bindings have, and those of them that are silent and not written yet.
type clusters struct{ unstable, silent int }

type track struct {
	lastWrite  time.Time
	lastChange time.Time
	streak     int
	// unstableSince is zero while the summary is stable.
	unstableSince time.Time
	// silent is true if no cluster had reported at the last reconcile.
	silent bool
	// counted is its part of the clusters of its namespace.
	counted clusters
	// generation of the binding as last seen, and since when.
	generation      int64
	generationSince time.Time
}

func newPace(clock clock.PassiveClock) *pace {
	return &pace{clock: clock, tracks: map[Request]*track{}, incomplete: map[string]clusters{}}
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
	p.count(request, t, clusters{unstable: t.counted.unstable})
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
	reportsFirst := t.silent && !summary.Silent
	t.silent = summary.Silent
	if summary.Stable {
		p.count(request, t, clusters{})
		t.unstableSince = time.Time{}
		return 0
	}
	counted := clusters{unstable: len(summary.Items)}
	if summary.Silent {
		counted.silent = counted.unstable
	}
	if t.unstableSince.IsZero() {
		t.unstableSince = p.clock.Now()
	}
	if reportsFirst && t.lastChange.After(t.unstableSince) {
		t.unstableSince = t.lastChange // the time of the report
	}
	p.count(request, t, counted)
	all := p.incomplete[request.Namespace]
	if summary.Silent {
		return max(0, extended(silence, silentShare, longestSilence, all.silent-counted.silent)-p.clock.Since(t.unstableSince))
	}
	since := t.unstableSince
	if t.lastChange.After(since) {
		since = t.lastChange
	}
	others := all.unstable - counted.unstable
	return max(0, min(
		extended(quiet, quietShare, longestQuiet, others)-p.clock.Since(since),
		extended(patience, patienceShare, longestPatience, others)-p.clock.Since(t.unstableSince)))
}

// extended is a duration with a share for each cluster of other bindings, and at most the longest.
func extended(duration, share, longest time.Duration, others int) time.Duration {
	return min(duration+time.Duration(others)*share, longest)
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
		p.count(request, t, clusters{})
	}
	delete(p.tracks, request)
}

// count replaces what a track adds to the clusters of its namespace. It is called with the lock held.
func (p *pace) count(request Request, t *track, now clusters) {
	all := p.incomplete[request.Namespace]
	all.unstable += now.unstable - t.counted.unstable
	all.silent += now.silent - t.counted.silent
	t.counted = now
	if all == (clusters{}) {
		delete(p.incomplete, request.Namespace)
		return
	}
	p.incomplete[request.Namespace] = all
}

func (p *pace) track(request Request) *track {
	t, ok := p.tracks[request]
	if !ok {
		t = &track{}
		p.tracks[request] = t
	}
	return t
}
