package events_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// notebook is a Writer that keeps what it was given.
type notebook struct {
	mu      sync.Mutex
	written []*corev1.Event
	fail    func(attempt int) error
	tries   int
}

func (n *notebook) write(_ context.Context, e *corev1.Event) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tries++
	if n.fail != nil {
		if err := n.fail(n.tries); err != nil {
			return err
		}
	}
	n.written = append(n.written, e)
	return nil
}

func (n *notebook) lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var lines []string
	for _, e := range n.written {
		lines = append(lines, fmt.Sprintf("%s/%s %s x%d", e.Namespace, e.InvolvedObject.Name, e.Message, e.Count))
	}
	return lines
}

func about(namespace, name string) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Deployment", APIVersion: "apps/v1", Namespace: namespace, Name: name, UID: "u1"}
}

// record runs a recorder in a synctest bubble, whose clock the real clock is.
func record(t *testing.T, n *notebook, story func(*events.Deduplicating)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		recorder := events.New(n.write, clock.RealClock{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- recorder.Start(ctx) }()
		story(recorder)
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start returned %v", err)
		}
	})
}

func TestIdenticalEventsAreWrittenOncePerWindow(t *testing.T) {
	n := &notebook{}
	record(t, n, func(r *events.Deduplicating) {
		again := events.Warning(about("shop", "web"), events.SyncFailed, "no route")
		r.Publish(again)
		r.Publish(again)
		r.Publish(events.Warning(about("shop", "web"), events.SyncFailed, "other text"))
		r.Publish(events.Warning(about("", "node-a"), events.SyncFailed, "no route"))
		<-time.After(9 * time.Minute)
		r.Publish(again)
		<-time.After(2 * time.Minute)
		r.Publish(again)
	})
	want := []string{
		"shop/web no route x1",
		"shop/web other text x1",
		"default/node-a no route x1",
		"shop/web no route x4",
	}
	if diff := cmp.Diff(want, n.lines()); diff != "" {
		t.Errorf("written events (-want +got):\n%s", diff)
	}
}

func TestFailingWrites(t *testing.T) {
	gone := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", errors.New("namespace is terminating"))
	for reason, tc := range map[string]struct {
		fail    func(int) error
		tries   int
		written int
		dropped int64
	}{
		"a busy server is tried again": {
			fail:  func(try int) error { return map[bool]error{true: apierrors.NewTooManyRequests("busy", 1)}[try < 3] },
			tries: 3, written: 1,
		},
		"a server that stays busy is left alone after three attempts": {
			fail:  func(int) error { return apierrors.NewTooManyRequests("busy", 1) },
			tries: 3, dropped: 1,
		},
		"a refusal is not repeated": {
			fail: func(int) error { return gone }, tries: 1, dropped: 1,
		},
	} {
		t.Run(reason, func(t *testing.T) {
			n := &notebook{fail: tc.fail}
			var dropped int64
			record(t, n, func(r *events.Deduplicating) {
				r.Publish(events.Normal(about("shop", "web"), events.SyncSucceed, "done"))
				<-time.After(time.Minute)
				dropped = r.Dropped()
			})
			if n.tries != tc.tries || len(n.written) != tc.written || dropped != tc.dropped {
				t.Errorf("tries %d written %d dropped %d, want %d, %d, %d",
					n.tries, len(n.written), dropped, tc.tries, tc.written, tc.dropped)
			}
		})
	}
}

func TestAFullQueueDropsInsteadOfBlocking(t *testing.T) {
	n := &notebook{}
	r := events.New(n.write, clock.RealClock{})
	for i := range 4000 {
		r.Publish(events.Normal(about("shop", fmt.Sprint("web-", i)), events.SyncSucceed, "done"))
	}
	const share = 4096 * 3 / 4
	if got := r.Dropped(); got != 4000-share {
		t.Errorf("dropped %d events, want %d", got, 4000-share)
	}
	for i := range 4096 - share {
		r.Publish(events.Normal(about("other", fmt.Sprint("web-", i)), events.SyncSucceed, "done"))
	}
	if got := r.Dropped(); got != 4000-share {
		t.Errorf("dropped %d events of a namespace for those of another", got-(4000-share))
	}
	r.Publish(events.Warning(about("shop", "web"), events.SyncFailed, "no route"))
	if got := r.Dropped(); got != 4000-share {
		t.Errorf("a warning has no place behind what went well: %d were dropped", got)
	}

	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := r.Start(stopped); err != nil {
		t.Fatal(err)
	}
	if len(n.written) != 4097 {
		t.Fatalf("shutdown flushed %d events, want all 4097 that were queued", len(n.written))
	}
	if first := n.written[0]; first.Type != corev1.EventTypeWarning {
		t.Errorf("the first to be written is %s: %s, want the warning", first.Type, first.Message)
	}
}

func TestEventsAreAcceptableToTheServer(t *testing.T) {
	n := &notebook{}
	record(t, n, func(r *events.Deduplicating) {
		r.Publish(events.Normal(about("", "system:node:reader"), events.SyncSucceed, strings.Repeat("ä", 900)))
	})
	e := n.written[0]
	if strings.Contains(e.Name, ":") {
		t.Errorf("name %q is no DNS subdomain", e.Name)
	}
	if len(e.Message) > 1024 || !strings.HasSuffix(e.Message, "ä...") {
		t.Errorf("message of %d bytes ending in %q; want at most 1024, cut between characters", len(e.Message), e.Message[len(e.Message)-5:])
	}
}
