package budget

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watchesInAll is how many watches of members are open at a time, and watchesPerTenant how many of these for one tenant. Each is a connection's
// stream and goroutines here and in the member. One watch of the search API has one of each member that it reads.
const watchesInAll, watchesPerTenant = 16_384, 4_096

// Watches is the budget of open watches of one server. The zero value is ready for use.
type Watches struct {
	mu    sync.Mutex
	held  map[string]int
	total int
}

// Following is what one watch of the search API has of the budget.
type Following struct {
	budget *Watches
	tenant string
	held   int
}

// Of returns what a new watch of a tenant has: nothing yet.
func (w *Watches) Of(tenant string) *Following { return &Following{budget: w, tenant: tenant} }

// Add takes watches of members, or returns the error 429. The only one of a tenant, and the only one of all, gets as many as there are members.
func (f *Following) Add(members int) error {
	w := f.budget
	w.mu.Lock()
	defer w.mu.Unlock()
	if others := w.held[f.tenant] - f.held; others > 0 && others+f.held+members > watchesPerTenant {
		return apierrors.NewTooManyRequests(fmt.Sprintf("the search API would have more than %d watches of members open for %s, which is its limit: "+
			"end other watches, or watch one cluster through its proxy", watchesPerTenant, f.tenant), retrySeconds)
	}
	if others := w.total - f.held; others > 0 && others+f.held+members > watchesInAll {
		return apierrors.NewTooManyRequests(fmt.Sprintf("the search API would have more than %d watches of members open, which is its limit: "+
			"send the request again", watchesInAll), retrySeconds)
	}
	if w.held == nil {
		w.held = map[string]int{}
	}
	w.held[f.tenant] += members
	w.total += members
	f.held += members
	return nil
}

// End gives back what the watch has.
func (f *Following) End() {
	w := f.budget
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total -= f.held
	if w.held[f.tenant] -= f.held; w.held[f.tenant] == 0 {
		delete(w.held, f.tenant)
	}
	f.held = 0
}
