package render

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

// dependantsPause is the pause between two reconciles while a copy stays because a copy that depends on it is still there.
const dependantsPause = 2 * time.Second

// moves has until when a Work stays in a cluster that its binding left. It is in memory because the normal path must not cost a write;
// after a restart the full time begins again.
type moves struct {
	mu    sync.Mutex
	until map[types.NamespacedName]map[string]time.Time // by binding and cluster
}

func newMoves() *moves { return &moves{until: map[types.NamespacedName]map[string]time.Time{}} }

// begin returns until when the Work stays in a cluster that a binding leaves; the first call decides.
func (m *moves) begin(binding types.NamespacedName, cluster string, until time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.until[binding][cluster]; ok {
		return known
	}
	m.set(binding, cluster, until)
	return until
}

// drain notes until when the Work stays at the latest once the eviction from a cluster has ended.
func (m *moves) drain(binding types.NamespacedName, cluster string, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(binding, cluster, until)
}

func (m *moves) set(binding types.NamespacedName, cluster string, until time.Time) {
	if m.until[binding] == nil {
		m.until[binding] = map[string]time.Time{}
	}
	m.until[binding][cluster] = until
}

// keep drops the clusters of a binding that are not listed.
func (m *moves) keep(binding types.NamespacedName, clusters []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for cluster := range m.until[binding] {
		if !slices.Contains(clusters, cluster) {
			delete(m.until[binding], cluster)
		}
	}
	if len(m.until[binding]) == 0 {
		delete(m.until, binding)
	}
}

func (m *moves) has(binding types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.until[binding]) > 0
}

// due returns the unwanted Works that are to be deleted now, and the pause before the next reconcile because of the others. A copy is
// removed when the copies of all targets are healthy, or when its time is up.
func (r *Reconciler) due(ctx context.Context, binding workv1alpha2.Binding, p compose.Plan, works, unwanted []*workv1alpha1.Work) (due []*workv1alpha1.Work, again time.Duration, err error) {
	key := types.NamespacedName{Namespace: binding.GetNamespace(), Name: binding.GetName()}
	now := r.deps.Clock.Now()
	var staying []string
	for cluster, until := range p.Draining(binding.BindingSpec(), now, r.deps.EvictionTimeout()) {
		r.moves.drain(key, cluster, until)
		staying = append(staying, cluster)
	}
	if len(unwanted) == 0 || len(p.Targets) == 0 || compose.PurgesDirectly(binding) {
		r.moves.keep(key, staying)
		return unwanted, 0, nil
	}
	arrived := p.Arrived(binding.BindingSpec(), works)
	for _, work := range unwanted {
		cluster := clusterOf(client.ObjectKeyFromObject(work))
		if work.DeletionTimestamp != nil || compose.CarriesNamespace(work) || p.Purging[cluster] {
			due = append(due, work)
			continue
		}
		needed, err := r.neededBy(ctx, binding.BindingSpec(), work.Namespace)
		if err != nil {
			return nil, 0, err
		}
		if arrived && !needed {
			due = append(due, work)
			continue
		}
		left := r.moves.begin(key, cluster, now.Add(r.deps.EvictionTimeout())).Sub(now)
		if left <= 0 {
			due = append(due, work)
			continue
		}
		if staying = append(staying, cluster); needed {
			left = min(left, dependantsPause)
		}
		if again == 0 || left < again {
			again = left
		}
	}
	r.moves.keep(key, staying)
	return due, again, nil
}

// neededBy returns whether something that depends on the template still has a Work in the namespace.
func (r *Reconciler) neededBy(ctx context.Context, spec *workv1alpha2.ResourceBindingSpec, namespace string) (bool, error) {
	for _, dependant := range spec.RequiredBy {
		works, err := r.worksOf(ctx, dependant.Namespace+"/"+dependant.Name)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(works, func(work *workv1alpha1.Work) bool { return work.Namespace == namespace }) {
			return true, nil
		}
	}
	return false, nil
}
