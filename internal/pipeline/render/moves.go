package render

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// dependantsPause is how often a copy is looked at that stays because a copy that depends on it is still there.
const dependantsPause = 2 * time.Second

// moves remembers since when a Work stays in a cluster that its binding left, so that the time for it ends. It is in
// memory because the normal path must not cost a write; a restart gives the full time again.
type moves struct {
	mu    sync.Mutex
	since map[types.NamespacedName]map[string]time.Time // by binding and cluster
}

func newMoves() *moves { return &moves{since: map[types.NamespacedName]map[string]time.Time{}} }

// begin returns since when a binding has been leaving a cluster.
func (m *moves) begin(binding types.NamespacedName, cluster string, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	clusters := m.since[binding]
	if clusters == nil {
		clusters = map[string]time.Time{}
		m.since[binding] = clusters
	}
	if _, ok := clusters[cluster]; !ok {
		clusters[cluster] = now
	}
	return clusters[cluster]
}

// keep forgets the clusters of a binding that are not listed.
func (m *moves) keep(binding types.NamespacedName, clusters []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for cluster := range m.since[binding] {
		if !slices.Contains(clusters, cluster) {
			delete(m.since[binding], cluster)
		}
	}
	if len(m.since[binding]) == 0 {
		delete(m.since, binding)
	}
}

func (m *moves) has(binding types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.since[binding]) > 0
}

// due lists the unwanted Works that are to be deleted now, and says when to look again because of the others. A copy is
// removed at the old place when every copy at a new place is healthy, or when its time is up.
func (r *Reconciler) due(ctx context.Context, binding workv1alpha2.Binding, p plan, works, unwanted []*workv1alpha1.Work) (due []*workv1alpha1.Work, again time.Duration, err error) {
	key := types.NamespacedName{Namespace: binding.GetNamespace(), Name: binding.GetName()}
	if len(unwanted) == 0 || len(p.targets) == 0 || purgesDirectly(binding) {
		r.moves.keep(key, nil)
		return unwanted, 0, nil
	}
	arrived := p.arrived(binding.BindingSpec(), works)
	var staying []string
	for _, work := range unwanted {
		cluster := clusterOf(client.ObjectKeyFromObject(work))
		if work.DeletionTimestamp != nil || carriesNamespace(work) || p.purging[cluster] {
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
		now := r.deps.Clock.Now()
		left := r.deps.EvictionTimeout - now.Sub(r.moves.begin(key, cluster, now))
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

// purgesDirectly says that a policy wants copies removed at the old place at once.
func purgesDirectly(binding workv1alpha2.Binding) bool {
	return binding.GetAnnotations()[policyv1alpha1.PurgeModeAnnotation] == string(policyv1alpha1.PurgeModeDirectly)
}

// arrived says whether every target has a healthy copy, and all of them together as many replicas as wanted.
func (p plan) arrived(spec *workv1alpha2.ResourceBindingSpec, works []*workv1alpha1.Work) bool {
	well := map[string]bool{}
	for _, work := range works {
		well[work.Namespace] = well[work.Namespace] || isHealthy(work)
	}
	var replicas int32
	for _, t := range p.targets {
		if !well[workv1alpha1.ExecutionNamespace(t.Name)] {
			return false
		}
		replicas += t.Replicas
	}
	return !isDivided(spec) || !isWorkload(spec) || replicas >= spec.Replicas
}

// isHealthy says whether what a Work orders now is in its member, and in order there.
func isHealthy(work *workv1alpha1.Work) bool {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	progressing := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkProgressing)
	if work.DeletionTimestamp != nil || isTrue(work.Spec.SuspendDispatching) ||
		applied == nil || applied.Status != "True" || applied.ObservedGeneration < work.Generation ||
		progressing == nil || progressing.Status != "False" || progressing.ObservedGeneration < work.Generation {
		return false
	}
	return len(work.Status.ManifestStatuses) > 0 && !slices.ContainsFunc(work.Status.ManifestStatuses, func(s workv1alpha1.ManifestStatus) bool {
		return s.Health != workv1alpha1.ResourceHealthy
	})
}

// neededBy says whether something that depends on the template still has a Work in the namespace.
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
