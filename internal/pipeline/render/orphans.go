package render

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// returning is the pause before the next reconcile of a binding that was deleted and is about to be created again.
const returning = time.Second

// orphans are the Works whose binding does not exist and of which this process did not observe that the binding was deleted. They are in
// memory for the metric: to find them again, every Work would be read.
type orphans struct {
	mu    sync.Mutex
	works map[types.NamespacedName]map[types.NamespacedName]bool // by binding
	count *prometheus.GaugeVec
}

// newOrphans registers the metric, unless the registerer is nil.
func newOrphans(r prometheus.Registerer) *orphans {
	return &orphans{
		works: map[types.NamespacedName]map[types.NamespacedName]bool{},
		count: promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_orphaned_works",
			Help: "Works whose binding does not exist, by cluster. They stay until their binding is created or a user deletes them.",
		}, []string{"cluster"}),
	}
}

// set replaces the orphans of a binding and returns the new ones.
func (o *orphans) set(binding types.NamespacedName, works []*workv1alpha1.Work) (added []*workv1alpha1.Work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.works[binding]
	if len(before) == 0 && len(works) == 0 {
		return nil
	}
	now := make(map[types.NamespacedName]bool, len(works))
	for _, work := range works {
		key := client.ObjectKeyFromObject(work)
		now[key] = true
		if !before[key] {
			added = append(added, work)
			o.count.WithLabelValues(clusterOf(key)).Inc()
		}
	}
	for key := range before {
		if !now[key] {
			o.count.WithLabelValues(clusterOf(key)).Dec()
		}
	}
	if o.works[binding] = now; len(now) == 0 {
		delete(o.works, binding)
	}
	return added
}

func clusterOf(work types.NamespacedName) string {
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	return cluster
}

// present drops what was kept of a binding while it did not exist.
func (r *Reconciler) present(binding types.NamespacedName) {
	r.lost.Delete(binding)
	r.orphans.set(binding, nil)
}

// leftovers handles the Works of a binding that does not exist. Those of a binding whose deletion this process observed, and which is not
// created again, are deleted. All others stay: a control plane that is restored object by object has Works before their bindings, and to
// delete them would delete the members' objects.
func (r *Reconciler) leftovers(ctx context.Context, q reconcile.Request) (time.Duration, error) {
	works, err := r.worksOf(ctx, q.Namespace+"/"+q.Name)
	if err != nil {
		return 0, err
	}
	if len(works) == 0 {
		r.present(q.NamespacedName)
		return 0, nil
	}
	// Before Works are deleted, the binding is read from the API server.
	err = r.live.Get(ctx, q.NamespacedName, r.newBinding("", ""))
	if err == nil {
		return 0, nil // the cache shows it soon
	}
	if !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("making sure that the binding is gone: %w", err)
	}
	value, seen := r.lost.Load(q.NamespacedName)
	if !seen {
		r.abandon(q.NamespacedName, works)
		return 0, nil
	}
	last := value.(workv1alpha2.Binding)
	wanted, err := r.wanted(ctx, last)
	switch {
	case err != nil:
		return 0, err
	case wanted:
		return returning, nil
	}
	own, others := partition(works, func(work *workv1alpha1.Work) bool { return sameID(work, last) })
	r.abandon(q.NamespacedName, others)
	return 0, r.deleteAll(ctx, own)
}

// abandon counts Works as orphans, and publishes an event for each new one.
func (r *Reconciler) abandon(binding types.NamespacedName, works []*workv1alpha1.Work) {
	waiting, _ := partition(works, func(work *workv1alpha1.Work) bool { return work.DeletionTimestamp == nil })
	for _, work := range r.orphans.set(binding, waiting) {
		r.deps.Events.Publish(orphaned(work, r.kind().Kind, binding))
	}
}

// sameID returns whether a Work was rendered from exactly this binding, and not from another one of its name.
func sameID(work *workv1alpha1.Work, binding workv1alpha2.Binding) bool {
	key := binding.PermanentIDLabel()
	return work.Labels[key] == binding.GetLabels()[key]
}

func partition(works []*workv1alpha1.Work, is func(*workv1alpha1.Work) bool) (yes, no []*workv1alpha1.Work) {
	for _, work := range works {
		if is(work) {
			yes = append(yes, work)
		} else {
			no = append(no, work)
		}
	}
	return yes, no
}

// wanted returns whether a binding that is deleted would be created again.
func (r *Reconciler) wanted(ctx context.Context, binding workv1alpha2.Binding) (bool, error) {
	if r.deps.Wanted == nil {
		return false, nil
	}
	return r.deps.Wanted(ctx, binding)
}
