package memberwatch

import (
	"fmt"
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// reducing is a store that keeps less than the objects: those of a list are reduced as they are read.
type reducing interface {
	// Reduce returns what is kept of an object, which Replace accepts, and what that takes; nil if nothing is.
	Reduce(object any) (kept any, takes bounds.Amount, err error)
	// Held is what is kept at present.
	Held() bounds.Amount
	// Charge has what is kept added to an account, and taken off the one before. Nil: it is added to none.
	Charge(account *bounds.Account)
}

// Holding is what a store keeps, as a number. Its zero value is nothing, in no account.
type Holding struct {
	mu      sync.Mutex
	account *bounds.Account
	held    bounds.Amount
}

// Change adds to what is kept; a negative amount takes off.
func (h *Holding) Change(by bounds.Amount) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = h.held.Plus(by)
	h.account.Add(by)
}

// Held implements reducing.
func (h *Holding) Held() bounds.Amount {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// Charge implements reducing.
func (h *Holding) Charge(account *bounds.Account) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.account.Add(bounds.Amount{}.Minus(h.held))
	h.account = account
	h.account.Add(h.held)
}

// list is a list while it is read.
type list struct {
	account *bounds.Account
	store   reducing // nil: the objects are kept as they are
	before  bounds.Amount
	items   map[types.NamespacedName]item
	sum     bounds.Amount
	read    int
}

type item struct {
	kept  any
	takes bounds.Amount
}

func (r *runner) newList() *list {
	l := &list{account: r.source.Account, items: map[types.NamespacedName]item{}}
	if l.store, _ = r.store.(reducing); l.store != nil {
		l.before = l.store.Held()
	}
	return l
}

// add adds an object. It fails if the member may not have so much kept; what the store keeps of the list before is not counted, since it is
// replaced.
func (l *list) add(key types.NamespacedName, object any) (err error) {
	l.read++
	added := item{kept: object}
	if l.store != nil {
		if added.kept, added.takes, err = l.store.Reduce(object); err != nil {
			return fmt.Errorf("reducing an object: %w", err)
		}
	} else {
		added.takes = bounds.Amount{Objects: 1, Bytes: bounds.SizeOf(object)}
	}
	l.drop(key)
	if added.kept == nil {
		return nil
	}
	l.items[key], l.sum = added, l.sum.Plus(added.takes)
	return l.account.Check(l.sum, l.before)
}

// addItem adds an object of a page.
func (l *list) addItem(item runtime.Object) error {
	object, err := meta.Accessor(item)
	if err != nil {
		return fmt.Errorf("reading a %T: %w", item, err)
	}
	if err := bounds.Names(object); err != nil {
		return err
	}
	return l.add(keyOf(object), item)
}

func (l *list) drop(key types.NamespacedName) {
	l.sum = l.sum.Minus(l.items[key].takes)
	delete(l.items, key)
}

func (l *list) values() iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, item := range l.items {
			if !yield(item.kept) {
				return
			}
		}
	}
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
