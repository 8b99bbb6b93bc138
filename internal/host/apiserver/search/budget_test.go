package search

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/budget"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// begin sends a list for a user and does not wait for its answer.
func begin(ctx context.Context, t *testing.T, url, alias string) (ended chan struct{}) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+proxying+configMaps, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Alias", alias)
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	return ended
}

// TestAUserHasABudget: while the lists of a user hold what the user may hold, further requests are answered with 429, and those of others are
// not. A list ends with its request.
func TestAUserHasABudget(t *testing.T) {
	members := map[string]*memberAPI{}
	for i := range 10 {
		members[fmt.Sprint("m", i)] = newMember()
	}
	f := startFleet(t, members)
	server := f.server()
	server.patience *= 100
	web := f.serve(server.ServeHTTP)
	for _, m := range members {
		m.mu.Lock() // it does not answer
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended []chan struct{}
	for _, requests := range []int32{4, 6, 7, 8} { // to members: each list has half of what is left
		ended = append(ended, begin(ctx, t, web.URL, ""))
		fleettest.Eventually(t, "a list begins", func() bool { return f.arrived.Load() == requests })
	}
	code, header, status := get(t, web, "GET", proxying+configMaps, "")
	if code != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
		t.Errorf("a fifth list: %d, %v, %v", code, header, status)
	}
	other, stop := context.WithCancel(t.Context())
	ended = append(ended, begin(other, t, web.URL, "-too"))
	fleettest.Eventually(t, "the list of another user begins", func() bool { return f.arrived.Load() == 12 })
	cancel()
	stop()
	for _, end := range ended {
		<-end
	}
	for _, m := range members {
		m.mu.Unlock()
	}
	fleettest.Eventually(t, "lists are answered again", func() bool {
		code, _, _ := get(t, web, "GET", proxying+configMaps, "")
		return code == http.StatusOK
	})
}

// TestWatchesHaveABudget: a user whose watches are at the bound is refused another one, and one that is open ends when clusters join.
func TestWatchesHaveABudget(t *testing.T) {
	f, _, _ := two(t)
	server := f.server()
	web := f.serve(server.ServeHTTP)
	_, _, list := get(t, web, "GET", proxying+configMaps, "")
	query := "resourceVersion=" + merge.VersionOf(list)
	var others []*budget.Following
	fill := func() {
		for {
			other := server.openWatches.Of("alice")
			if other.Add(1) != nil {
				return
			}
			others = append(others, other)
		}
	}
	fill()
	code, header, status := get(t, web, "GET", proxying+configMaps+"?watch=true&"+query, "")
	if code != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
		t.Errorf("a watch beyond the bound: %d, %v, %v", code, header, status)
	}
	for _, other := range others {
		other.End()
	}
	f.change(map[string][]string{"a": nil})
	_, _, list = get(t, web, "GET", proxying+configMaps, "")
	query = "resourceVersion=" + merge.VersionOf(list)
	w := watch(t, web, query)
	fill()
	f.change(map[string][]string{"a": nil, "b": nil})
	w.expect("ERROR " + string(metav1.StatusReasonTooManyRequests))
}

// TestAnEventHasABound: a watch of a member ends at an event without an end and is begun again, and the events of other members go on.
func TestAnEventHasABound(t *testing.T) {
	f, a, b := two(t)
	a.endless = true
	w := watch(t, f.replica(), "resourceVersion="+merge.Version{"a": "102", "b": "101"}.String())
	fleettest.Eventually(t, "the watch of the member begins again", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.sent) > 1
	})
	b.change("ADDED", "shop", "four")
	w.expect("ADDED b/four")
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sent := range a.sent {
		if int64(sent) > 3*bounds.Searched.Piece.Bytes {
			t.Errorf("the member could send %d MiB of one event", sent>>20)
		}
	}
}
