package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
)

// Fleet keeps the snapshot up to date. Events name the clusters that are read again from the cache, which is never behind its own
// events.
type Fleet struct {
	reader       client.Reader
	reservations *capacity.Reservations

	mu      sync.Mutex
	current *decision.Snapshot
	dirty   map[string]struct{}
	// changes are those between all snapshots since they were taken. Two snapshots that are compared instead may be equal, though a
	// binding was scheduled with a third one between them.
	changes []Change
	// nodes are those of each cluster that reports them. They are kept since reading a summary takes longer than all else of a cluster.
	nodes map[string]knownNodes
}

// Change is a cluster before and after a change, apart from reservations; nil if it did not, or does not, exist.
type Change struct{ Before, After *decision.Cluster }

// knownNodes is what was read of a ClusterCapacity in one version.
type knownNodes struct {
	owner   types.UID
	version string
	*capacity.Nodes
}

// New returns a Fleet that has read nothing yet.
func New(reader client.Reader, reservations *capacity.Reservations) *Fleet {
	return &Fleet{reader: reader, reservations: reservations, dirty: map[string]struct{}{}, nodes: map[string]knownNodes{}}
}

// Touch has a cluster read again for the next snapshot.
func (f *Fleet) Touch(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dirty[name] = struct{}{}
}

// Snapshot returns the fleet as it is now, reservations included.
func (f *Fleet) Snapshot(ctx context.Context) (*decision.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snapshot(ctx)
}

// TakeChanges returns how clusters have changed since the last call, up to now.
func (f *Fleet) TakeChanges(ctx context.Context) ([]Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.snapshot(ctx); err != nil {
		return nil, err
	}
	changes := f.changes
	f.changes = nil
	return changes, nil
}

func (f *Fleet) snapshot(ctx context.Context) (*decision.Snapshot, error) {
	if f.current == nil {
		if err := f.load(ctx); err != nil {
			return nil, err
		}
	}
	change := decision.Change{Nodes: map[string]*capacity.Nodes{}}
	for name := range f.dirty {
		c := &clusterv1alpha1.Cluster{}
		err := f.reader.Get(ctx, types.NamespacedName{Name: name}, c, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
		switch {
		case apierrors.IsNotFound(err):
			delete(f.nodes, name)
			change.Gone = append(change.Gone, name)
		case err != nil:
			return nil, fmt.Errorf("reading cluster %s: %w", name, err)
		default:
			change.Present = append(change.Present, c)
			if change.Nodes[name], err = f.readNodes(ctx, c); err != nil {
				return nil, err
			}
		}
	}
	change.Taken = f.reservations.Changes()
	if len(change.Present)+len(change.Gone)+len(change.Taken) > 0 {
		before := f.current
		f.current = before.With(change)
		for name := range f.dirty {
			if old, now := before.Get(name), f.current.Get(name); old != now {
				f.changes = append(f.changes, Change{old, now})
			}
		}
	}
	clear(f.dirty)
	return f.current, nil
}

func (f *Fleet) load(ctx context.Context) error {
	clear(f.dirty)
	var list clusterv1alpha1.ClusterList
	if err := f.reader.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return fmt.Errorf("listing clusters: %w", err)
	}
	change := decision.Change{Present: make([]*clusterv1alpha1.Cluster, len(list.Items)), Nodes: map[string]*capacity.Nodes{}}
	for i := range list.Items {
		c := &list.Items[i]
		change.Present[i] = c
		var err error
		if change.Nodes[c.Name], err = f.readNodes(ctx, c); err != nil {
			return err
		}
	}
	f.current = (&decision.Snapshot{}).With(change)
	return nil
}

// readNodes returns what a cluster reports of its nodes, nil for nothing. What a former Cluster of that name reported does not count.
func (f *Fleet) readNodes(ctx context.Context, cluster *clusterv1alpha1.Cluster) (*capacity.Nodes, error) {
	reported := &fleetv1alpha1.ClusterCapacity{}
	err := f.reader.Get(ctx, client.ObjectKeyFromObject(cluster), reported, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	exists := err == nil
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the capacity of cluster %s: %w", cluster.Name, err)
	}
	if !exists || !slices.ContainsFunc(reported.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == cluster.UID }) {
		delete(f.nodes, cluster.Name)
		return nil, nil
	}
	known := f.nodes[cluster.Name]
	if known.owner != cluster.UID || known.version != reported.ResourceVersion {
		known = knownNodes{cluster.UID, reported.ResourceVersion, capacity.NodesOf(reported)}
		f.nodes[cluster.Name] = known
	}
	return known.Nodes, nil
}
