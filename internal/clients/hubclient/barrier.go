package hubclient

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// barrierTimeout bounds how long a write waits for the cache. A cache that had to list everything again may never have a version that was
// deleted meanwhile; a read after that finds what is there now.
const barrierTimeout = 5 * time.Second

// A WriteBarrier waits until a cache has what was written to the control plane. It is for writes that are no requests: the library, which
// delays the reads that follow a write, does not delay for them. A kind's events have ascending resource versions, so that the latest one is
// enough to compare with.
type WriteBarrier struct {
	informers cache.Informers
	clock     clock.Clock

	mu    sync.Mutex
	kinds map[reflect.Type]*latest
}

// latest is the latest version that a cache has of a kind.
type latest struct {
	mu      sync.Mutex
	version string
	// changed is closed with the next event.
	changed chan struct{}
}

// NewWriteBarrier makes a WriteBarrier for a cache.
func NewWriteBarrier(informers cache.Informers, clk clock.Clock) *WriteBarrier {
	return &WriteBarrier{informers: informers, clock: clk, kinds: map[reflect.Type]*latest{}}
}

// Await waits until the cache has the version of an object that was written, or a later one of its kind.
func (b *WriteBarrier) Await(ctx context.Context, obj client.Object) error {
	kind, err := b.kind(ctx, obj)
	if err != nil {
		return err
	}
	timer := b.clock.NewTimer(barrierTimeout)
	defer timer.Stop()
	for {
		shown, changed := kind.has(obj.GetResourceVersion())
		if shown {
			return nil
		}
		select {
		case <-changed:
		case <-timer.C():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("waiting for the cache to have %s/%s, which is written: %w", obj.GetNamespace(), obj.GetName(), context.Cause(ctx))
		}
	}
}

// kind follows the events of a kind from its first write on.
func (b *WriteBarrier) kind(ctx context.Context, obj client.Object) (*latest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := reflect.TypeOf(obj)
	if known, ok := b.kinds[of]; ok {
		return known, nil
	}
	informer, err := b.informers.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching objects of type %T: %w", obj, err)
	}
	kind := &latest{changed: make(chan struct{})}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    kind.add,
		UpdateFunc: func(_, obj any) { kind.add(obj) },
		DeleteFunc: kind.add,
	})
	if err != nil {
		return nil, fmt.Errorf("watching objects of type %T: %w", obj, err)
	}
	b.kinds[of] = kind
	return kind, nil
}

// add takes the object of an event.
func (l *latest) add(event any) {
	obj, ok := event.(client.Object)
	if !ok {
		return // deleted, and the version is not known
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if newer(l.version, obj.GetResourceVersion()) {
		l.version = obj.GetResourceVersion()
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

func (l *latest) has(version string) (shown bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !newer(l.version, version), l.changed
}

// newer returns whether a version is later than another one, which may be empty.
func newer(before, version string) bool {
	if before == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(before, version)
	return err == nil && order < 0
}
