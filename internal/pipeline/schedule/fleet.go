package schedule

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// fleet keeps the snapshot up to date. Events name the clusters that are read again from the cache, which is never behind its own
// events.
type fleet struct {
	reader       client.Reader
	reservations *capacity.Reservations

	mu      sync.Mutex
	current *decision.Snapshot
	dirty   map[string]struct{}
}

func newFleet(reader client.Reader, reservations *capacity.Reservations) *fleet {
	return &fleet{reader: reader, reservations: reservations, dirty: map[string]struct{}{}}
}

// touch has a cluster read again for the next snapshot.
func (f *fleet) touch(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty[name] = struct{}{}
}

// snapshot returns the fleet as it is now, reservations included.
func (f *fleet) snapshot(ctx context.Context) (*decision.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		if err := f.load(ctx); err != nil {
			return nil, err
		}
	}
	var change decision.Change
	for name := range f.dirty {
		c := &clusterv1alpha1.Cluster{}
		err := f.reader.Get(ctx, types.NamespacedName{Name: name}, c, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
		switch {
		case apierrors.IsNotFound(err):
			change.Gone = append(change.Gone, name)
		case err != nil:
			return nil, fmt.Errorf("reading cluster %s: %w", name, err)
		default:
			change.Present = append(change.Present, c)
		}
	}
	clear(f.dirty)
	change.Taken = f.reservations.Changes()
	if len(change.Present)+len(change.Gone)+len(change.Taken) > 0 {
		f.current = f.current.With(change)
	}
	return f.current, nil
}

func (f *fleet) load(ctx context.Context) error {
	clear(f.dirty)
	var list clusterv1alpha1.ClusterList
	if err := f.reader.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	clusters := make([]*clusterv1alpha1.Cluster, len(list.Items))
	for i := range list.Items {
		clusters[i] = &list.Items[i]
	}
	f.current = decision.NewSnapshot(clusters)
	return nil
}
