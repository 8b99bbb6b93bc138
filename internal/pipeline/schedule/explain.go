package schedule

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/reasons"
)

// Explain returns what the scheduler decides of every cluster for a binding now, by name, and when the binding is scheduled again, zero if it
// does not wait. It makes the decision of decide and keeps nothing of it. Only is the one cluster to explain, "" for all.
func (c *Controller) Explain(ctx context.Context, b workv1alpha2.Binding, only string) ([]explain.Candidate, time.Time, error) {
	key := types.NamespacedName{Namespace: b.GetNamespace(), Name: b.GetName()}
	req, err := c.request(ctx, b)
	if err != nil {
		return nil, time.Time{}, err
	}
	snapshot, err := c.fleet.Snapshot(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	c.peers.Fill(&req, key, b)
	candidates, err := reasons.Candidates(c.profile, req, snapshot, only)
	return candidates, c.pending.Next(key), err
}
