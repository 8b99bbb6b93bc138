package member_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// hangUp is how a server answers that ends in the middle of a request.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// away lets a member be away for one request, and its watch end meanwhile. It returns the watch that begins then.
func away(t *testing.T, s *server, conn *member.Conn, w *watcher) *watcher {
	t.Helper()
	s.answer(hangUp)
	if _, err := get(t.Context(), conn.HTTPClient(), "/anything"); err == nil {
		t.Fatal("a request without an answer is no error")
	}
	s.answer(s.serveWatch)
	close(w.lines)
	return <-s.watches
}

// A watch from a version that the member has not reached yet begins and shows nothing: a member that was away is listed again.
func TestAMemberThatWasAwayIsListedAgain(t *testing.T) {
	s, conn, d, w := watching(t)
	w.lines <- event("MODIFIED", configMap("a", 90, `"f:data":{"f:k":{}}`))
	w.lines <- event("ADDED", configMap("made-since", 91, `"f:data":{}`))
	eventually(t, "the changes are notified", func() bool { return d.len() == 4 })
	d.take()
	w = away(t, s, conn, w)
	if !w.lists || w.rv != "" {
		t.Fatalf("the watch goes on from %q, listing: %t", w.rv, w.lists)
	}
	// What we write before the list is here does not vanish with it.
	conn.AddWritten(configMaps, parse(t, configMap("written", 39, `"f:data":{}`)))
	w.lines <- event("ADDED", configMap("a", 5, `"f:data":{"f:k":{}}`))
	w.lines <- event("ADDED", configMap("deleted-since", 6, `"f:data":{}`))
	w.lines <- event("ADDED", configMap("written", 39, `"f:data":{}`))
	w.lines <- fmt.Sprintf(synced, 40)
	eventually(t, "everything is notified", func() bool { return d.len() == 4 })
	for _, change := range d.take() {
		switch name := change.Object.Name; {
		case name == "a" && change.Rewound, name == "made-since" && change.Gone:
		case name == "deleted-since" && change.New && change.Listed, name == "written" && change.New:
		default:
			t.Errorf("notified of %+v", change)
		}
	}
	if _, ok := conn.Lookup(configMaps, "shop", "made-since"); ok {
		t.Error("what the backup lacks is still known")
	}
	// The watch is a plain one again.
	w.lines <- event("MODIFIED", configMap("a", 41, `"f:data":{"f:k":{}}`))
	eventually(t, "the change is notified", func() bool { return d.len() == 1 })
	close(w.lines)
	if w = <-s.watches; w.lists || w.rv != "41" {
		t.Errorf("later the watch goes on from %q, listing: %t", w.rv, w.lists)
	}
}

// Versions count anew after a restore: they may have overtaken what was seen, and the same one may be another object.
func TestVersionsFromBeforeAMemberWasAwayMeanNothing(t *testing.T) {
	s, conn, d, w := watching(t)
	w.lines <- event("ADDED", configMap("same", 10, `"f:data":{}`))
	eventually(t, "the object is notified", func() bool { return d.len() == 3 })
	conn.AddWritten(configMaps, parse(t, configMap("answered", 80, `"f:data":{}`)))
	d.take()
	w = away(t, s, conn, w)
	w.lines <- event("ADDED", configMap("a", 20, `"f:data":{"f:k":{}}`)) // older in all but its number
	w.lines <- event("ADDED", configMap("same", 10, `"f:other":{}`))
	w.lines <- fmt.Sprintf(synced, 21)
	eventually(t, "everything is notified", func() bool { return d.len() == 3 })
	for _, change := range d.take() {
		switch name := change.Object.Name; {
		case name == "a" && change.Rewound, name == "same" && change.Rewound, name == "answered" && change.Gone:
		default:
			t.Errorf("notified of %+v", change)
		}
	}
}
