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
)

var definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

const (
	// rediscover is how often kinds are read again without a reason, for those
	// that come from aggregated API servers.
	rediscover = 2 * time.Minute
	// firstLook gathers what changes together, and gives the API server the
	// moment it takes from an established definition to its discovery.
	firstLook = 30 * time.Millisecond
	// lastLook bounds the growing pause between two looks for a kind.
	lastLook = 2 * time.Second
	// looks is how often a defined but unserved kind is looked for; it may never
	// come, when its names are taken.
	looks = 16
)

// Start finds kinds and watches their objects until ctx ends.
func (s *Store) Start(ctx context.Context) error {
	if err := s.discoverFirst(ctx); err != nil {
		return err
	}
	go s.awaitListing(ctx)
	resync := s.clock.NewTimer(rediscover)
	defer resync.Stop()
	look := s.clock.NewTimer(time.Hour)
	defer look.Stop()
	pause := firstLook
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.used:
			s.mu.RLock()
			present := s.catalog
			s.mu.RUnlock()
			if err := s.adopt(ctx, present); err != nil {
				log.FromContext(ctx).Error(err, "Kinds that came into use are not watched")
			}
		case <-s.definitions.changed:
			pause = firstLook
			look.Reset(pause)
		case <-look.C():
			if s.refresh(ctx); s.definitions.settle(s.servesDefinition) {
				pause = min(2*pause, lastLook)
				look.Reset(pause)
			}
		case <-resync.C():
			s.refresh(ctx)
			resync.Reset(rediscover)
		}
	}
}

// NeedLeaderElection has every replica of the hub keep its store warm.
func (s *Store) NeedLeaderElection() bool { return false }

func (s *Store) discoverFirst(ctx context.Context) error {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		err := s.rediscover(ctx)
		if err == nil {
			return nil
		}
		log.FromContext(ctx).V(1).Info("Kinds cannot be read yet", "error", err.Error())
		timer := s.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("reading kinds: %w", ctx.Err())
		}
	}
}

// awaitListing tells when the store is ready. Definitions are waited for without a limit: while they are not known, a
// custom resource looks as if it needed none.
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

func (s *Store) refresh(ctx context.Context) {
	if err := s.rediscover(ctx); err != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Kinds could not be read again")
	}
}

// rediscover reads the kinds and starts and stops watches accordingly.
func (s *Store) rediscover(ctx context.Context) error {
	groups, lists, err := s.discover(ctx)
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
	s.mu.RLock()
	before := s.catalog
	s.mu.RUnlock()
	return s.adopt(ctx, newCatalog(groups, lists, unread, s.separate, before))
}

// adopt makes a catalog the current one. Objects of a kind that is gone are
// told of once more, after they cannot be found any longer.
func (s *Store) adopt(ctx context.Context, next *catalog) error {
	var gone, come []*watch
	idle := s.idle(ctx, next)
	s.mu.Lock()
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
		w, err := s.newWatch(k)
		if err != nil {
			s.mu.Unlock()
			return fmt.Errorf("watching %s: %w", gvk, err)
		}
		s.run(ctx, w)
		s.watches[gvk] = w
		come = append(come, w)
	}
	s.mu.Unlock()

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

// definitions remembers which CustomResourceDefinitions changed and are not yet
// reflected in discovery.
type definitions struct {
	changed chan struct{}

	mu      sync.Mutex
	pending map[string]pendingDefinition
}

type pendingDefinition struct {
	// wanted is the presence in discovery that the change leads to.
	wanted bool
	// atLeast and left count the looks still to be taken: with an updated
	// definition, discovery may show the old state for a moment.
	atLeast, left int
}

func newDefinitions() *definitions {
	return &definitions{changed: make(chan struct{}, 1), pending: map[string]pendingDefinition{}}
}

func (d *definitions) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { d.expect(obj, pendingDefinition{wanted: true, atLeast: 1, left: looks}) },
		UpdateFunc: func(_, obj any) { d.expect(obj, pendingDefinition{wanted: true, atLeast: 4, left: looks}) },
		DeleteFunc: func(obj any) { d.expect(obj, pendingDefinition{atLeast: 1, left: looks}) },
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

// settle drops what discovery reflects by now and says whether to look again.
func (d *definitions) settle(served func(string) bool) bool {
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
