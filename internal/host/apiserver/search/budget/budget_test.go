package budget_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/budget"
)

// sizes begins requests of a tenant until one is refused.
func sizes(t *testing.T, b *budget.Budget, tenant string, most int) (granted []int, shares []*budget.Share) {
	t.Helper()
	for {
		share, err := b.Begin(tenant, most)
		if err != nil {
			if delay, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || delay != 1 {
				t.Errorf("the refusal is %v", err)
			}
			return granted, shares
		}
		granted, shares = append(granted, share.Size()), append(shares, share)
	}
}

// TestShares: neither one request, nor one tenant, nor all have more than their bound, and one of each leaves something for the next.
func TestShares(t *testing.T) {
	b, total, tenants := &budget.Budget{}, 0, 0
	granted, first := sizes(t, b, "alice", 100)
	if diff := cmp.Diff([]int{4, 2, 1, 1}, granted); diff != "" {
		t.Errorf("one tenant (-want +got):\n%s", diff)
	}
	for ; ; tenants++ {
		granted, _ := sizes(t, b, fmt.Sprint(tenants), 100)
		if len(granted) == 0 {
			break
		}
		for _, size := range granted {
			total += size
		}
	}
	if total != 16 {
		t.Errorf("the other %d tenants have %d answers, want 16", tenants, total)
	}
	first[0].End()
	first[0].End()
	if granted, _ := sizes(t, b, "bob", 1); len(granted) != 4 {
		t.Errorf("after the end of a share of 4 there are %d", len(granted))
	}
}

// TestWaiting: what waits goes on when a share of its tenant ends, or ends with its context.
func TestWaiting(t *testing.T) {
	b := &budget.Budget{}
	_, shares := sizes(t, b, "alice", 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Wait(ctx, "alice"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	got := make(chan *budget.Share)
	for range 2 {
		go func() {
			share, err := b.Wait(t.Context(), "alice")
			if err != nil {
				t.Error(err)
			}
			got <- share
		}()
	}
	shares[1].End() // of two answers
	if size := (<-got).Size() + (<-got).Size(); size != 2 {
		t.Errorf("both got %d answers", size)
	}
}

func TestTenant(t *testing.T) {
	for name, want := range map[string]string{
		"alice": "alice", "system:serviceaccount:shop:a": "system:serviceaccounts:shop", "system:serviceaccount:shop:b": "system:serviceaccounts:shop",
		"system:serviceaccount:": "system:serviceaccount:",
	} {
		if got := budget.Tenant(name); got != want {
			t.Errorf("%s counts for %s, want %s", name, got, want)
		}
	}
}
