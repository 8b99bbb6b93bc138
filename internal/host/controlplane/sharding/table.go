package sharding

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
)

// grace is how long a server does not serve a member any more before others may: requests on their way end in that time.
const grace = leader.Duration - leader.RenewDeadline

// published is what a server has in its Lease.
type published struct {
	identity string
	// url is where its API is served.
	url string
	// view are the identities of the servers over which it hashes, in order; empty before it has read them.
	view []string
	// election is the identity of the server as a candidate for the leader.
	election string
	// version changes with each renewal.
	version string
}

// peer is another server.
type peer struct {
	published
	// changed is when its Lease was last seen to change.
	changed time.Time
}

// table is the state of a server about itself and the others. It has no lock and no clock.
type table struct {
	self  string
	peers map[string]*peer
	// acting is the view that was stored before the Leases were last read. stored is the one in the Lease; members are served only if
	// both assign them here.
	acting, stored []string
	// next is the view that is to be stored; nil for none. Members that it takes away are not served any more since nextSince.
	next      []string
	nextSince time.Time
	// tried is a view that may be in the Lease: the answer to its write is not known. Nil for none.
	tried []string
	// foreign is true while the leader is a server that does not publish a view: it connects to all members.
	foreign bool
}

// clone returns a copy that stays as it is.
func (t *table) clone() table {
	out := *t
	out.peers = maps.Clone(t.peers)
	return out
}

// read takes over what the Leases had at a time. holder is the identity that has the Lease of the leader.
func (t *table) read(all []published, holder string, now time.Time) {
	present := map[string]bool{}
	known := holder == ""
	for _, p := range all {
		known = known || p.election == holder
		if p.identity == t.self {
			t.stored = p.view
			continue
		}
		present[p.identity] = true
		if before := t.peers[p.identity]; before == nil || before.version != p.version {
			t.peers[p.identity] = &peer{published: p, changed: now}
		}
	}
	for identity := range t.peers {
		if !present[identity] { // it ended in order, or was gone for long
			delete(t.peers, identity)
		}
	}
	t.foreign = !known
	t.acting = t.stored
}

// alive returns whether a peer may still write.
func (p *peer) alive(now time.Time) bool { return now.Sub(p.changed) < leader.Duration }

// live are the identities of all servers that may be alive, in order.
func (t *table) live(now time.Time) []string {
	view := []string{t.self}
	for identity, p := range t.peers {
		if p.alive(now) {
			view = append(view, identity)
		}
	}
	slices.Sort(view)
	return view
}

// plan decides which view is to be stored next: one without servers while the leader serves all members.
func (t *table) plan(now time.Time) {
	wanted := t.live(now)
	if t.foreign {
		wanted = []string{}
	}
	switch {
	case t.next != nil && slices.Equal(wanted, t.next):
	case slices.Equal(wanted, t.stored):
		t.next = nil
	default:
		t.next, t.nextSince = wanted, now
	}
}

// due returns the view that is to be in the Lease. A view without servers that the stored one lacks takes no member away, and is due at
// once.
func (t *table) due(now time.Time) []string {
	if t.next == nil {
		return t.stored
	}
	added := slices.ContainsFunc(t.next, func(identity string) bool { return !slices.Contains(t.stored, identity) })
	if takes := len(t.stored) > 0 && (added || len(t.next) == 0); takes && now.Sub(t.nextSince) < grace {
		return t.stored
	}
	return t.next
}

// wrote takes over which view was stored.
func (t *table) wrote(view []string) {
	t.stored, t.tried = view, nil
	if t.next != nil && slices.Equal(view, t.next) {
		t.next = nil
	}
}

// serves returns whether this server serves a member.
func (t *table) serves(member string, now time.Time) bool {
	if t.foreign || owner(t.acting, member) != t.self || owner(t.stored, member) != t.self {
		return false
	}
	for _, view := range [][]string{t.next, t.tried} {
		if view != nil && owner(view, member) != t.self {
			return false
		}
	}
	for identity, p := range t.peers {
		if p.alive(now) && owner(p.view, member) == identity {
			return false
		}
	}
	return true
}

// server returns the peer whose view assigns a member to itself.
func (t *table) server(member string, now time.Time) (published, bool) {
	for identity, p := range t.peers {
		if p.alive(now) && owner(p.view, member) == identity {
			return p.published, true
		}
	}
	return published{}, false
}

// gone are the peers whose Leases no server needs any more: they have not changed for long, and are not those of the leader.
func (t *table) gone(holder string, now time.Time) []string {
	var identities []string
	for identity, p := range t.peers {
		if now.Sub(p.changed) >= forgetAfter && (holder == "" || p.election != holder) {
			identities = append(identities, identity)
		}
	}
	return identities
}

// state stands for everything that decides which members are served.
func (t *table) state(now time.Time) string {
	views := []string{fmt.Sprint(t.foreign, t.acting, t.stored, t.next, t.tried)}
	for identity, p := range t.peers {
		if p.alive(now) {
			views = append(views, fmt.Sprint(identity, p.view))
		}
	}
	slices.Sort(views)
	return strings.Join(views, "\n")
}
