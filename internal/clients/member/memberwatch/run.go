package memberwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/clients/member/answers"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
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
	if held, ok := store.(reducing); ok {
		held.Charge(source.Account)
		defer held.Charge(nil)
	}
	defer source.Accounts.Note(name, nil)
	r := &runner{
		name: name, source: source, store: store, clock: clk, page: bounds.PageObjects,
		pause: wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 1, Cap: longestPause / 2, Steps: 16}. // the jitter doubles it at most
																DelayWithReset(clk, recovered),
	}
	for ctx.Err() == nil {
		err := controlloop.CatchPanic(func() error { return r.once(ctx) })
		if err == nil || ctx.Err() != nil {
			continue
		}
		source.Accounts.Note(name, err)
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
	// page is how many objects a page of a plain list is requested with.
	page int64
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
	if mayGoOn(err) || errors.Is(err, errIncomplete) || bounds.IsTooMuch(err) || ctx.Err() != nil {
		return nil, err
	}
	return nil, r.read(ctx)
}

// receive fills the store with the list at the beginning of a stream.
func (r *runner) receive(stream Stream) error {
	list := r.newList()
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
		switch {
		case event.Type == watch.Deleted:
			list.drop(keyOf(object))
		case event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
			return r.replace(list, object.GetResourceVersion())
		case event.Type != watch.Bookmark:
			if err := list.add(keyOf(object), event.Object); err != nil {
				return err
			}
		}
	}
}

// read fills the store page by page. A page that is too large is read again as smaller ones.
func (r *runner) read(ctx context.Context) error {
	for {
		tooLarge, err := r.readPages(ctx)
		if !tooLarge || r.page == 1 {
			return err
		}
		r.page = max(1, r.page/10)
	}
}

// readPages reads all pages, and returns whether one was too large.
func (r *runner) readPages(ctx context.Context) (tooLarge bool, err error) {
	list, options, version := r.newList(), metav1.ListOptions{Limit: r.page}, ""
	for pages := (bounds.Pages{}); ; {
		page, err := r.source.List(ctx, options)
		if err != nil {
			return bounds.IsTooMuch(err), err
		}
		whole, err := meta.ListAccessor(page)
		if err != nil {
			return false, fmt.Errorf("reading a list: %w", err)
		}
		if options.Continue == "" {
			version = whole.GetResourceVersion()
		}
		before := list.read
		if err := meta.EachListItemWithAlloc(page, list.addItem); err != nil {
			return false, fmt.Errorf("reading a list: %w", err)
		}
		next := whole.GetContinue()
		if err := pages.Next(list.read-before, next); err != nil {
			return false, err
		}
		if next == "" {
			return false, r.replace(list, version)
		}
		options.Continue = next
	}
}

func (r *runner) replace(list *list, version string) error {
	if err := r.store.Replace(slices.Collect(list.values()), version); err != nil {
		return fmt.Errorf("taking over a list: %w", err)
	}
	r.version = version
	r.source.Accounts.Note(r.name, nil)
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
		if err := r.source.Account.Check(bounds.Amount{}, bounds.Amount{}); err != nil && event.Type != watch.Deleted && event.Type != watch.Bookmark {
			return err
		}
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
		if status, ok := event.Object.(*metav1.Status); ok {
			answers.CutStatus(status)
		}
		return nil, bounds.Error(apierrors.FromObject(event.Object))
	}
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return nil, fmt.Errorf("reading the event of a %T: %w", event.Object, err)
	}
	return object, bounds.Names(object)
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
