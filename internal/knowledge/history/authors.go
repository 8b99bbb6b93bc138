package history

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxAuthors is how many changes Authors remembers: those of some seconds, until they are recorded.
const maxAuthors = 8192

// Change names one change of one object: the update of what it was at a resource version, its creation if that is empty, or its deletion.
type Change struct {
	UID types.UID
	// From is the resource version before the change.
	From string
	// Deletion is set for a deletion, which has no From.
	Deletion bool
}

// Authors remembers which user requested a change. The API server admits a request before it is stored, and an admitted request may fail:
// a change that several users requested has no author. What is not remembered, after a restart or since another server admitted it, has
// none either.
type Authors struct {
	mu    sync.Mutex
	users map[Change]string
	// order has the keys of users, the oldest at next once it is full.
	order []Change
	next  int
}

// Requested remembers a request of a user.
func (a *Authors) Requested(change Change, user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users == nil {
		a.users = map[Change]string{}
	}
	if known, ok := a.users[change]; ok {
		if known != user && !change.Deletion {
			user = ""
		}
		a.users[change] = user
		return
	}
	if len(a.order) < maxAuthors {
		a.order = append(a.order, change)
	} else {
		delete(a.users, a.order[a.next])
		a.order[a.next] = change
		a.next = (a.next + 1) % maxAuthors
	}
	a.users[change] = user
}

// Of returns the user who requested a change, "" if that is not known.
func (a *Authors) Of(change Change) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.users[change]
}
