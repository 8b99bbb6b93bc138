package bounds

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Account is what is kept of one kind of things that a member sends, by all that keep some of it. A nil Account has no bound.
type Account struct {
	row  Row
	most func() Amount

	mu   sync.Mutex
	held Amount
}

// Add adds to what is kept; a negative amount takes off.
func (a *Account) Add(change Amount) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = a.held.Plus(change)
}

// Check returns a TooMuchError if more is kept than the member may have kept, with what is added and without what it replaces.
func (a *Account) Check(added, replaced Amount) error {
	if a == nil {
		return nil
	}
	most := a.most()
	a.mu.Lock()
	defer a.mu.Unlock()
	if have := a.held.Plus(added).Minus(replaced); !have.within(most) {
		return tooMuch("the cluster has too much of %s: more than %d objects or %d bytes of what is kept of them", a.row.Sends, most.Objects, most.Bytes)
	}
	return nil
}

// Check returns a TooMuchError if an amount is more than the row allows to be kept.
func (r Row) Check(have Amount) error {
	if have.within(r.Kept) {
		return nil
	}
	return tooMuch("the cluster has too much of %s: more than %d objects or %d bytes", r.Sends, r.Kept.Objects, r.Kept.Bytes)
}

// Accounts are those of one member, and what it has too much of.
type Accounts struct {
	// Changed is called when Excess changed. It must not block. Optional.
	changed func()

	mu       sync.Mutex
	accounts map[string]*Account
	excess   map[string]string
	// refused has the objects of NoteObject that were refused, by what they are.
	refused map[string]map[string]bool
}

// NewAccounts returns the accounts of a member that has nothing.
func NewAccounts() *Accounts {
	return &Accounts{accounts: map[string]*Account{}, excess: map[string]string{}, refused: map[string]map[string]bool{}}
}

// Of is the account of a row of Rows. Most, if it is not nil, is the bound in place of that of the row.
func (a *Accounts) Of(row Row, most func() Amount) *Account {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	account := a.accounts[row.Sends]
	if account == nil {
		if most == nil {
			most = func() Amount { return row.Kept }
		}
		account = &Account{row: row, most: most}
		a.accounts[row.Sends] = account
	}
	return account
}

// OnChange has a function called when Excess changed. It must not block.
func (a *Accounts) OnChange(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changed = f
}

// Note records how a watch ended: with a TooMuchError the member has too much of what it shows, and without an error it has not.
func (a *Accounts) Note(watch string, err error) {
	if a == nil || err != nil && !IsTooMuch(err) {
		return
	}
	a.mu.Lock()
	before, had := a.excess[watch]
	if err == nil {
		delete(a.excess, watch)
	} else {
		a.excess[watch] = fmt.Sprintf("%s: %v", watch, Message(err.Error()))
	}
	news := had != (err != nil) || err != nil && before != a.excess[watch]
	changed := a.changed
	a.mu.Unlock()
	if news && changed != nil {
		changed()
	}
}

// NoteObject records what became of one object of a member that is stored on the control plane: with a TooMuchError the member has too much of
// what the objects are, until none of them is refused any more.
func (a *Accounts) NoteObject(what, object string, err error) {
	if a == nil || err != nil && !IsTooMuch(err) {
		return
	}
	a.mu.Lock()
	objects := a.refused[what]
	if err == nil {
		delete(objects, object)
	} else {
		if objects == nil {
			objects = map[string]bool{}
			a.refused[what] = objects
		}
		objects[object] = true
	}
	some := len(objects) > 0
	a.mu.Unlock()
	if err != nil || !some {
		a.Note(what, err)
	}
}

// Excess is what the member has too much of, by watch.
func (a *Accounts) Excess() map[string]string {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.excess)
}

// Texts are the values of Excess in a fixed order.
func Texts(excess map[string]string) []string { return slices.Sorted(maps.Values(excess)) }
