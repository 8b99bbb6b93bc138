package memberwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
	// pageSize bounds one answer of a plain list, for members that cannot stream one.
	pageSize = 500
	// longestPause is how long a watch that failed several times waits at most before it begins again.
	longestPause = 30 * time.Second
	// recovered is how long a watch must have run well for the next pause to be a short one again.
	recovered = 2 * time.Minute
	// shortestWatch is how long a watch without events must have run, or it counts as failed.
	shortestWatch = time.Second
	// leastLife and mostLife are how long a watch is requested for, as client-go does.
	leastLife, mostLife = 5 * time.Minute, 10 * time.Minute
)

var (
	errShort      = errors.New("the watch ended at once")
	errIncomplete = errors.New("the watch ended within its list")
)

// Run lists and watches into a store until ctx ends. What fails is tried again with a backoff.
//
// It does what cache.Reflector does without resyncs, in one goroutine. A Reflector has three for each watch, which are most of what an
// idle member costs.
func Run(ctx context.Context, name string, source Source, store cache.ReflectorStore) {
	clk := clock.RealClock{}
	r := &runner{
		name: name, source: source, store: store, clock: clk,
		pause: wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Cap: longestPause / 2, Steps: 16}. // the jitter doubles it at most
																DelayWithReset(clk, recovered),
	}
	for ctx.Err() == nil {
		err := controlloop.CatchPanic(func() error { return r.once(ctx) })
		if err == nil || ctx.Err() != nil {
			continue
		}
		r.report(ctx, err)
		timer := clk.NewTimer(r.pause())
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// runner is the state of Run.
type runner struct {
	name   string
	source Source
	store  cache.ReflectorStore
	clock  clock.PassiveClock
	pause  wait.DelayFunc
	// version is that of the last event, from which the next watch goes on. Without one, it begins with a list.
	version string
}

// listInTurn lists when it is the turn of the member. A list that panics gives its turn back, too.
func (r *runner) listInTurn(ctx context.Context) (Stream, error) {
	_, release := r.source.Lists.Acquire(ctx)
	defer release()
	return r.list(ctx)
}

// once runs one watch. Without an error, the next one may begin at once.
func (r *runner) once(ctx context.Context) error {
	var stream Stream
	var err error
	if r.version == "" {
		stream, err = r.listInTurn(ctx)
	} else {
		stream, err = r.source.Watch(ctx, r.options())
	}
	if err != nil {
		if !mayGoOn(err) {
			r.version = ""
		}
		return err
	}
	if stream == nil {
		return nil
	}
	defer stream.Close()
	err = r.follow(ctx, stream)
	if err != nil && !mayGoOn(err) {
		r.version = ""
	}
	return err
}

// mayGoOn returns whether a watch from the same version may succeed.
func mayGoOn(err error) bool {
	return utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) || errors.Is(err, errShort)
}

func (r *runner) options() metav1.ListOptions {
	life := int64((leastLife + rand.N(mostLife-leastLife)).Seconds())
	return metav1.ListOptions{ResourceVersion: r.version, AllowWatchBookmarks: true, TimeoutSeconds: &life}
}

// list fills the store. A member streams the list, and the stream goes on as the watch; from one that does not, pages are read, and
// there is no stream.
func (r *runner) list(ctx context.Context) (Stream, error) {
	o := r.options()
	o.SendInitialEvents, o.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
	stream, err := r.source.Watch(ctx, o)
	if err == nil {
		if err = r.receive(stream); err == nil {
			return stream, nil
		}
		stream.Close()
	}
	if mayGoOn(err) || errors.Is(err, errIncomplete) || ctx.Err() != nil {
		return nil, err
	}
	return nil, r.read(ctx)
}

// receive fills the store with the list at the beginning of a stream.
func (r *runner) receive(stream Stream) error {
	listed := map[types.NamespacedName]any{}
	transformed := func(object any) (any, error) { return object, nil }
	if t, ok := r.store.(cache.TransformingStore); ok && t.Transformer() != nil {
		transformed = t.Transformer()
	}
	for {
		event, err := stream.Next()
		if err != nil {
			if isEnd(err) {
				err = errIncomplete
			}
			return err
		}
		object, err := r.objectOf(event)
		if err != nil {
			return err
		}
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		switch {
		case event.Type == watch.Deleted:
			delete(listed, key)
		case event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
			items := make([]any, 0, len(listed))
			for _, item := range listed {
				items = append(items, item)
			}
			return r.replace(items, object.GetResourceVersion())
		case event.Type != watch.Bookmark:
			if listed[key], err = transformed(event.Object); err != nil {
				return fmt.Errorf("reducing an object: %w", err)
			}
		}
	}
}

// read fills the store page by page.
func (r *runner) read(ctx context.Context) error {
	pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) { return r.source.List(ctx, o) }))
	pages.PageSize = pageSize
	list, _, err := pages.ListWithAlloc(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	objects, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	whole, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("reading the version of a list: %w", err)
	}
	items := make([]any, len(objects))
	for i := range objects {
		items[i] = objects[i]
	}
	return r.replace(items, whole.GetResourceVersion())
}

func (r *runner) replace(items []any, version string) error {
	if err := r.store.Replace(items, version); err != nil {
		return fmt.Errorf("taking over a list: %w", err)
	}
	r.version = version
	return nil
}

// follow takes over the events of a stream until it ends.
func (r *runner) follow(ctx context.Context, stream Stream) error {
	began, shown := r.clock.Now(), false
	for {
		event, err := stream.Next()
		switch {
		case err != nil && isEnd(err) && (shown || r.clock.Since(began) >= shortestWatch):
			return nil
		case err != nil && isEnd(err):
			return errShort
		case err != nil:
			return err
		}
		object, err := r.objectOf(event)
		if err != nil {
			return err
		}
		if err := controlloop.CatchPanic(func() error { return r.keep(event) }); err != nil { // of this object alone
			utilruntime.HandleErrorWithContext(ctx, err, "Failed to store an object", "watch", r.name)
		}
		r.version, shown = object.GetResourceVersion(), true
	}
}

// keep takes over one event.
func (r *runner) keep(event watch.Event) error {
	switch event.Type {
	case watch.Added:
		return r.store.Add(event.Object)
	case watch.Modified:
		return r.store.Update(event.Object)
	case watch.Deleted:
		return r.store.Delete(event.Object)
	default:
		return nil
	}
}

// objectOf returns the metadata of what an event shows, or the error that it is.
func (r *runner) objectOf(event watch.Event) (metav1.Object, error) {
	if event.Type == watch.Error {
		return nil, apierrors.FromObject(event.Object)
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return nil, fmt.Errorf("reading the event of a %T: %w", event.Object, err)
	}
	return object, nil
}

// isEnd returns whether a stream has ended without a sign that events were lost.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// report logs why a watch begins again, unless that is usual.
func (r *runner) report(ctx context.Context, err error) {
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || isEnd(err) || errors.Is(err, errShort) || errors.Is(err, errIncomplete) {
		return
	}
	utilruntime.HandleErrorWithContext(ctx, err, "Failed to watch", "watch", r.name)
}
