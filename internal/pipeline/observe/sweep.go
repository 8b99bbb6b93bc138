package observe

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// sweepPause is the pause between two Works when all Works of clusters are to be looked at again: a hundred per second,
// however many clusters and Works there are. Each may lead to three writes, of the Work, its binding and its template.
const sweepPause = 10 * time.Millisecond

// sweep goes through the Works of clusters that were lost or found, one after the other at a steady pace. Clusters take
// turns, so that a large one does not keep a small one waiting.
type sweep struct {
	clock clock.WithTicker
	visit func(ctx context.Context, cluster string, work types.NamespacedName)

	mu    sync.Mutex
	turns []string // clusters with Works that wait, the next one first
	waits map[string]*queue
	added chan struct{}
}

// queue is what waits of one cluster, in order and without duplicates.
type queue struct {
	works  []types.NamespacedName
	queued sets.Set[types.NamespacedName]
}

func newSweep(clock clock.WithTicker, visit func(ctx context.Context, cluster string, work types.NamespacedName)) *sweep {
	return &sweep{clock: clock, visit: visit, waits: map[string]*queue{}, added: make(chan struct{}, 1)}
}

// add has Works of a cluster visited; one that waits already keeps its turn.
func (s *sweep) add(cluster string, works ...types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.waits[cluster]
	for _, work := range works {
		if q == nil {
			q = &queue{queued: sets.New[types.NamespacedName]()}
			s.waits[cluster] = q
			s.turns = append(s.turns, cluster)
		}
		if !q.queued.Has(work) {
			q.queued.Insert(work)
			q.works = append(q.works, work)
		}
	}
	select {
	case s.added <- struct{}{}:
	default:
	}
}

// next takes the Work whose turn it is.
func (s *sweep) next() (cluster string, work types.NamespacedName, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.turns) == 0 {
		return "", work, false
	}
	cluster = s.turns[0]
	s.turns = slices.Delete(s.turns, 0, 1)
	q := s.waits[cluster]
	work, q.works = q.works[0], q.works[1:]
	q.queued.Delete(work)
	if len(q.works) > 0 {
		s.turns = append(s.turns, cluster)
	} else {
		delete(s.waits, cluster)
	}
	return cluster, work, true
}

// run visits until ctx ends.
func (s *sweep) run(ctx context.Context) {
	for ctx.Err() == nil {
		cluster, work, ok := s.next()
		if !ok {
			select {
			case <-s.added:
			case <-ctx.Done():
			}
			continue
		}
		s.visit(ctx, cluster, work)
		pause := s.clock.NewTimer(sweepPause)
		select {
		case <-pause.C():
		case <-ctx.Done():
		}
		pause.Stop()
	}
}
