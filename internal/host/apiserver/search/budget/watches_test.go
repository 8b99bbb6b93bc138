package budget_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/budget"
)

// open opens watches of so many members each until one is refused.
func open(t *testing.T, w *budget.Watches, tenant string, members int) (opened []*budget.Following) {
	t.Helper()
	for {
		watch := w.Of(tenant)
		if err := watch.Add(members); err != nil {
			if !apierrors.IsTooManyRequests(err) {
				t.Errorf("the refusal is %v", err)
			}
			return opened
		}
		opened = append(opened, watch)
	}
}

// TestWatches: neither a tenant nor all have more watches of members than their bound, whatever number of members each has.
func TestWatches(t *testing.T) {
	for name, tc := range map[string]struct{ members, want, tenants int }{
		"of three members":                  {3, 1365, 4},
		"of a thousand members":             {1000, 4, 4},
		"of more members than the bound":    {5000, 1, 3},
		"of more members than all may have": {20_000, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := &budget.Watches{}
			for i := range tc.tenants {
				if got := len(open(t, w, fmt.Sprint("tenant-", i), tc.members)); got != tc.want {
					t.Errorf("tenant %d has %d watches, want %d", i, got, tc.want)
				}
			}
		})
	}
}

// TestAWatchGrowsAndEnds: members that come count, and what has ended does not.
func TestAWatchGrowsAndEnds(t *testing.T) {
	w := &budget.Watches{}
	opened := open(t, w, "alice", 1)
	if err := opened[0].Add(1); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a watch at the bound grows: %v", err)
	}
	opened[1].End()
	opened[1].End()
	if err := opened[0].Add(1); err != nil {
		t.Errorf("after another one has ended: %v", err)
	}
	for _, watch := range opened {
		watch.End()
	}
	if got := len(open(t, w, "alice", 1)); got != len(opened) {
		t.Errorf("after the end of all, %d are open, want %d", got, len(opened))
	}
}
