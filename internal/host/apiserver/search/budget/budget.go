package budget

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// retrySeconds is when a client sends a refused request again. Most lists take less.
const retrySeconds = 1

// Budget is that of one server. The zero value is ready for use.
type Budget struct {
	mu    sync.Mutex
	held  map[string]int
	total int
	// freed is closed when a share ends; nil if no request waits for that.
	freed chan struct{}
}

// Share is what one request may hold.
type Share struct {
	budget *Budget
	tenant string
	// answers is 0 once the share has ended; size is what it was.
	answers, size int
}

// Tenant is for whom the requests of a user count: the service accounts of a namespace together, since whoever may create one may create many.
func Tenant(name string) string {
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return name
}

// Begin returns a share of up to so many answers, at least one, or the error 429. A request gets half of what is left of the tenant's and of all
// at most, so that others of the tenant, and other tenants, can begin.
func (b *Budget) Begin(tenant string, most int) (*Share, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, all := bounds.AnswersOfEach-b.held[tenant], bounds.AnswersOfAll-b.total
	if own <= 0 {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the search API holds %d answers of members for %s, which is its limit: "+
			"send the request again when others have ended", bounds.AnswersOfEach, tenant), retrySeconds)
	}
	if all <= 0 {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("the search API holds %d answers of members, which is its limit: send the request again", bounds.AnswersOfAll), retrySeconds)
	}
	size := max(1, min(most, (own+1)/2, (all+1)/2))
	if b.held == nil {
		b.held = map[string]int{}
	}
	b.held[tenant] += size
	b.total += size
	return &Share{budget: b, tenant: tenant, answers: size, size: size}, nil
}

// Wait returns a share of one answer when there is one, or the error of the context.
func (b *Budget) Wait(ctx context.Context, tenant string) (*Share, error) {
	for {
		freed := b.next()
		if share, err := b.Begin(tenant, 1); err == nil {
			return share, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// next returns what is closed when a share ends.
func (b *Budget) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.freed == nil {
		b.freed = make(chan struct{})
	}
	return b.freed
}

// Size is how many answers the request may hold at a time.
func (s *Share) Size() int { return s.size }

// End gives the share back. Further calls do nothing.
func (s *Share) End() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.answers == 0 {
		return
	}
	b.total -= s.answers
	if b.held[s.tenant] -= s.answers; b.held[s.tenant] == 0 {
		delete(b.held, s.tenant)
	}
	s.answers = 0
	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}
