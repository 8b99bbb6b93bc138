package hubstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

var definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

const (
	// rediscover is the period after which kinds are read again, for those of aggregated API servers.
	rediscover = 2 * time.Minute
	// firstPause is the pause before kinds are read after a change of a definition: until an established definition is in discovery.
	firstPause = 30 * time.Millisecond
	// longestPause bounds the growing pause while discovery does not show a change.
	longestPause = 2 * time.Second
	// attempts bounds how often kinds are read for one change; a kind may never be served, if its names are taken.
	attempts = 16
)

// Start finds kinds and watches their objects until ctx ends.
func (s *Store) Start(ctx context.Context) error {
	defer s.running.Wait()
	s.running.Go(func() { _ = s.handlers.Start(ctx) }) // it has no error
	if err := s.discoverFirst(ctx); err != nil {
		return err
	}
	s.running.Go(func() { s.awaitListing(ctx) })
	resync := s.clock.NewTimer(rediscover)
	defer resync.Stop()
	retry := s.clock.NewTimer(time.Hour)
	defer retry.Stop()
	pause := firstPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.used:
			s.loop.Turn(ctx, "watching kinds that came into use", func(context.Context) error {
				return s.adopt(ctx, s.present()) // its watches outlast the turn
			})
		case <-s.definitions.changed:
			pause = firstPause
			retry.Reset(pause)
		case <-retry.C():
			if s.loop.Turn(ctx, "reading kinds", s.rediscovering(ctx)); s.definitions.done(s.servesDefinition) {
				pause = min(2*pause, longestPause)
				retry.Reset(pause)
			}
		case <-resync.C():
			s.loop.Turn(ctx, "reading kinds", s.rediscovering(ctx))
			resync.Reset(rediscover)
		}
	}
}

// NeedLeaderElection has every replica fill its store, so that it can take over at once.
func (s *Store) NeedLeaderElection() bool { return false }

func (s *Store) discoverFirst(ctx context.Context) error {
	failures := 0
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.loop.Do(ctx, "reading kinds", s.rediscovering(ctx))
		if err == nil {
			return nil
		}
		failures++
		_, panicked := errors.AsType[*controlloop.PanicError](err)
		controlloop.LogFailure(log.FromContext(ctx).WithValues("turn", "reading kinds"), err, failures, !panicked) // the API server may be starting
		timer := s.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("reading kinds: %w", ctx.Err())
		}
	}
}

// awaitListing closes ready when the store is filled. The wait for definitions has no limit: without them, a custom resource would seem to
// need none.
func (s *Store) awaitListing(ctx context.Context) {
	defer close(s.ready)
	s.mu.RLock()
	var synced, defined []cache.InformerSynced
	for _, w := range s.watches {
		if w.gvk.GroupKind() == definitionKind {
			defined = append(defined, w.informer.HasSynced)
			continue
		}
		synced = append(synced, w.informer.HasSynced)
	}
	s.mu.RUnlock()
	patience, cancel := context.WithTimeout(ctx, readyAfter)
	defer cancel()
	if !cache.WaitForCacheSync(patience.Done(), synced...) {
		log.FromContext(ctx).Info("Not every kind could be listed in time; going on without")
	}
	cache.WaitForCacheSync(ctx.Done(), defined...) // or until the process ends
}

// rediscovering returns what reads the kinds in one turn, and starts and stops watches accordingly. Ctx is that of the watches.
func (s *Store) rediscovering(ctx context.Context) func(context.Context) error {
	return func(turn context.Context) error {
		groups, lists, err := s.discover(turn)
		unread := map[string]bool{}
		var partial *discovery.ErrGroupDiscoveryFailed
		switch {
		case errors.As(err, &partial):
			for gv := range partial.Groups {
				unread[gv.Group] = true
			}
		case err != nil:
			return fmt.Errorf("reading kinds: %w", err)
		}
		return s.adopt(ctx, newCatalog(groups, lists, unread, s.separate, s.present()))
	}
}

// present returns the current catalog.
func (s *Store) present() *catalog {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.catalog
}

// adopt makes a catalog the current one. Subscribers are notified of the objects of a kind that is gone once more, when the store does not
// have them any more.
func (s *Store) adopt(ctx context.Context, next *catalog) error {
	gone, come, err := s.replaceWatches(ctx, next, s.idle(ctx, next))
	if err != nil {
		return err
	}
	logger := log.FromContext(ctx)
	for _, w := range gone {
		logger.V(1).Info("Kind is no template any longer", "kind", w.gvk.String())
		refs := s.refsOf(w)
		w.stop()
		for _, ref := range refs {
			s.notify(ref)
		}
	}
	for _, w := range come {
		logger.V(2).Info("Kind is a template", "kind", w.gvk.String())
	}
	return nil
}

// replaceWatches makes a catalog the current one, and returns the watches that it does not have any more, which run still, and those that it
// did not have.
func (s *Store) replaceWatches(ctx context.Context, next *catalog, idle map[schema.GroupVersionKind]bool) (gone, come []*watch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog = next
	for gvk, w := range s.watches {
		if next.watched[gvk].gvr != w.gvr {
			delete(s.watches, gvk)
			gone = append(gone, w)
		}
	}
	for gvk, k := range next.watched {
		if s.watches[gvk] != nil || idle[gvk] {
			continue
		}
		w, err := s.newWatch(ctx, k)
		if err != nil {
			return nil, nil, fmt.Errorf("watching %s: %w", gvk, err)
		}
		s.run(ctx, w)
		s.watches[gvk] = w
		come = append(come, w)
	}
	return gone, come, nil
}

// idle are the kinds that are not in use.
func (s *Store) idle(ctx context.Context, c *catalog) map[schema.GroupVersionKind]bool {
	kinds := map[schema.GroupVersionKind]bool{}
	if s.inUse == nil {
		return kinds
	}
	for gvk, k := range c.watched {
		if !s.inUse(ctx, k.gvr.GroupResource()) {
			kinds[gvk] = true
		}
	}
	return kinds
}

func (s *Store) servesDefinition(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.catalog.lists(name)
}

// definitions stores which CustomResourceDefinitions changed and are not yet
// reflected in discovery.
type definitions struct {
	changed chan struct{}

	mu      sync.Mutex
	pending map[string]pendingDefinition
}

type pendingDefinition struct {
	// wanted is the presence in discovery that the change leads to.
	wanted bool
	// atLeast and left count the attempts still to be made: of an updated definition, discovery may show the old state for a moment.
	atLeast, left int
}

func newDefinitions() *definitions {
	return &definitions{changed: make(chan struct{}, 1), pending: map[string]pendingDefinition{}}
}

func (d *definitions) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { d.expect(obj, pendingDefinition{wanted: true, atLeast: 1, left: attempts}) },
		UpdateFunc: func(_, obj any) { d.expect(obj, pendingDefinition{wanted: true, atLeast: 4, left: attempts}) },
		DeleteFunc: func(obj any) { d.expect(obj, pendingDefinition{atLeast: 1, left: attempts}) },
	}
}

func (d *definitions) expect(obj any, p pendingDefinition) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	d.mu.Lock()
	d.pending[name] = p
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// done drops what discovery reflects by now and returns whether something is left.
func (d *definitions) done(served func(string) bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, p := range d.pending {
		p.atLeast--
		p.left--
		if p.left <= 0 || p.atLeast <= 0 && served(name) == p.wanted {
			delete(d.pending, name)
			continue
		}
		d.pending[name] = p
	}
	return len(d.pending) > 0
}
