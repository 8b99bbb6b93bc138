package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

const (
	// delay is the time after the first change of a template in which further changes are part of the same revision. The storage has the
	// state before the change for five minutes.
	delay = 3 * time.Second
	// settling is how often a state is read again while the scheduler has not seen it, and patience how long.
	settling, patience = time.Second, 30 * time.Second
	// maxPending bounds how many templates wait for their revision, and how many deletions wait to be stored.
	maxPending = 20_000
)

// Templates is the store of templates as this package uses it; *hubstore.Store is one.
type Templates interface {
	Kinds() []hubstore.Kind
	Canonical(schema.GroupVersionKind) (schema.GroupVersionKind, bool)
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
	GetAt(ctx context.Context, ref hubstore.Ref, resourceVersion string) (*unstructured.Unstructured, error)
	Follow(hubstore.Follower)
}

// Deps is what a Keeper needs. All but Metrics are required.
type Deps struct {
	// Client reads from the cache, Live from the API server.
	Client, Live client.Reader
	Kube         kubernetes.Interface
	Templates    Templates
	// Authors stores who requested which change.
	Authors *history.Authors
	// MayStore returns an error if a namespace is at the limit of what is stored for it. It is a function since limits are a feature.
	MayStore func(namespace string) error
	Clock    clock.WithTicker
	// Limit returns how many revisions are kept of a template without a field revisionHistoryLimit, and Period how long deleted templates can be
	// brought back. With 0 nothing is recorded, or kept. They are functions because both may change meanwhile.
	Limit  func() int
	Period func() time.Duration
	// Metrics registers the metric. Nil: none.
	Metrics prometheus.Registerer
}

// Keeper records revisions and answers questions about them.
type Keeper struct {
	Deps
	storage *stored.Storage
	losses  stored.Losses

	mu      sync.Mutex
	pending map[hubstore.Ref]*pending
	// deletions are not stored yet.
	deletions []deletion
	// changing and leaving are the shares of namespaces in the two.
	changing, leaving *bounds.Shares
	// overrides is the storage revision of the last change of an override policy.
	overrides uint64
	// queue is nil unless this process runs the loops.
	queue workqueue.TypedRateLimitingInterface[hubstore.Ref]
}

// pending is a template that changed since it was recorded.
type pending struct {
	// before are the storage revisions before each change. The first changes may be from before the object was in a cluster, such as that
	// of an override policy which is older than the binding.
	before []uint64
	since  time.Time
	// authors are the users who changed a part last.
	authors map[fleetv1alpha1.RevisionPart]string
}

// New makes a Keeper. It answers at once, and records once Setup has added its loop.
func New(deps Deps) *Keeper {
	losses := stored.NewLosses(deps.Metrics)
	return &Keeper{Deps: deps, storage: stored.New(deps.Kube, deps.Live, losses), losses: losses, pending: map[hubstore.Ref]*pending{},
		changing: bounds.NewShares(maxPending), leaving: bounds.NewShares(maxPending)}
}

// Setup adds the loop that records.
func (k *Keeper) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return k.keepDeletions(ctx, controlloop.Of(mgr)) })); err != nil {
		return fmt.Errorf("adding the loop that keeps what was deleted: %w", err)
	}
	loop, err := controller.NewTyped("history", mgr, controller.TypedOptions[hubstore.Ref]{
		Reconciler: controlloop.Track[hubstore.Ref](mgr, k), RateLimiter: backoff.Limiter[hubstore.Ref](), MaxConcurrentReconciles: 1,
		SkipNameValidation: new(true), // several control planes may run in one process
		// A namespace in which thousands of objects change does not delay the others until the storage has lost their earlier states.
		NewQueue: fairqueue.Maker(func(ref hubstore.Ref) string { return ref.Namespace }),
	})
	if err != nil {
		return fmt.Errorf("adding the loop that records revisions: %w", err)
	}
	begin := func(_ context.Context, queue workqueue.TypedRateLimitingInterface[hubstore.Ref]) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.queue = queue
		return nil
	}
	if err := errors.Join(loop.Watch(source.TypedFunc[hubstore.Ref](begin)), k.follow(ctx, mgr.GetCache())); err != nil {
		return fmt.Errorf("watching what revisions are made of: %w", err)
	}
	return nil
}

// changed notes a change of a part of a template, by which the storage came to a revision.
func (k *Keeper) changed(ref hubstore.Ref, resourceVersion string, part fleetv1alpha1.RevisionPart, user string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil || version == 0 {
		return // every revision of etcd is a number
	}
	if k.Limit() <= 0 && k.Period() <= 0 {
		return
	}
	ref = ref.Canonical(k.Templates)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.queue == nil {
		return
	}
	p := k.pending[ref]
	if p == nil {
		if !k.changing.Take(ref.Namespace) {
			k.losses.Count(stored.LostRevision, stored.TooMany, 1)
			return
		}
		p = &pending{since: k.Clock.Now(), authors: map[fleetv1alpha1.RevisionPart]string{}}
		k.pending[ref] = p
		k.queue.AddAfter(ref, delay)
	}
	p.before = append(p.before, version-1)
	p.authors[part] = user
}

// take returns what waits for a template, once.
func (k *Keeper) take(ref hubstore.Ref) *pending {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pending[ref]
	k.drop(ref)
	return p
}

// drop ends the wait of a template. The caller has the lock.
func (k *Keeper) drop(ref hubstore.Ref) {
	if k.pending[ref] != nil {
		delete(k.pending, ref)
		k.changing.Give(ref.Namespace)
	}
}

// putBack has a template wait again.
func (k *Keeper) putBack(ref hubstore.Ref, p *pending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if later := k.pending[ref]; later != nil {
		p.before = append(p.before, later.before...)
		maps.Copy(p.authors, later.authors)
	} else if !k.changing.Take(ref.Namespace) {
		k.losses.Count(stored.LostRevision, stored.TooMany, 1)
		return
	}
	k.pending[ref] = p
}

// Reconcile records the state of a template that changed.
func (k *Keeper) Reconcile(ctx context.Context, ref hubstore.Ref) (reconcile.Result, error) {
	p := k.take(ref)
	if p == nil {
		return reconcile.Result{}, nil
	}
	settled, err := k.record(ctx, ref, p)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil // a deletion ends the history
	case err != nil:
		if k.Clock.Since(p.since) < patience {
			k.putBack(ref, p)
		} else {
			k.losses.Count(stored.LostRevision, stored.Failed, 1)
		}
		return reconcile.Result{}, fmt.Errorf("recording a revision of %s: %w", ref, err)
	case !settled:
		k.putBack(ref, p)
		return reconcile.Result{RequeueAfter: settling}, nil
	}
	return reconcile.Result{}, nil
}

// record writes the revisions that are missing. It returns false if the scheduler has not seen the change yet, or the binding is gone.
func (k *Keeper) record(ctx context.Context, ref hubstore.Ref, p *pending) (settled bool, err error) {
	now, err := k.present(ctx, ref)
	if err != nil {
		return true, err
	}
	if now.binding == nil || now.binding.GetDeletionTimestamp() != nil {
		// The template may be deleted, too: what it was is read as of the first of these deletions.
		return k.Clock.Since(p.since) >= patience, nil
	}
	if waits := now.binding.BindingStatus().SchedulerObservedGeneration != now.binding.GetGeneration(); waits && k.Clock.Since(p.since) < patience {
		return false, nil
	}
	limit := history.LimitOf(now.template.Object, k.Limit())
	if k.Limit() <= 0 || limit == 0 {
		return true, nil
	}
	if ref.Namespace != "" {
		if err := k.MayStore(ref.Namespace); err != nil {
			k.losses.Count(stored.LostRevision, stored.NamespaceLimit, 1)
			log.FromContext(ctx).V(1).Info("A revision is not recorded", "template", ref, "reason", err.Error())
			return true, nil
		}
	}
	kept, err := k.storage.Revisions(ctx, now.template)
	if err != nil {
		return true, err
	}
	var last *history.Record
	if len(kept.Records) > 0 {
		last = &kept.Records[len(kept.Records)-1].Record
	} else if last, err = k.first(ctx, ref, now, p.before); err != nil {
		return true, err
	}
	next := &history.Record{Revision: 1, Time: p.since, State: now.state, Part: fleetv1alpha1.RevisionTemplate}
	if last != nil {
		var differences []history.Difference
		if last.TooLarge == 0 {
			differences = history.Differences(last.State, next.State)
			if equality.Semantic.DeepEqual(last.State, next.State) || len(differences) == 0 {
				return true, nil
			}
		}
		next.Revision = last.Revision + 1
		next.Part, next.Author = author(differences, p, now.template)
		if len(kept.Records) == 0 {
			if err := k.storage.Write(ctx, now.template, last, kept, limit); err != nil {
				return true, err
			}
		}
	} else if len(next.State.Clusters) == 0 {
		return true, nil // a history begins when the object is in a cluster
	} else {
		next.Part, next.Author = author(nil, p, now.template)
	}
	return true, k.storage.Write(ctx, now.template, next, kept, limit)
}

// parts are those of a state, in the order of their differences.
var parts = []fleetv1alpha1.RevisionPart{
	fleetv1alpha1.RevisionTemplate, fleetv1alpha1.RevisionPolicy, fleetv1alpha1.RevisionOverride, fleetv1alpha1.RevisionClusters,
}

// author is who made the first of the parts that differ: a change of the targets follows from one of the others. If it is not known what
// differs, it is the first of the parts that were changed.
func author(differences []history.Difference, p *pending, template *unstructured.Unstructured) (fleetv1alpha1.RevisionPart, history.Author) {
	part := fleetv1alpha1.RevisionTemplate
	if len(differences) > 0 {
		part = differences[0].Part
	} else if at := slices.IndexFunc(parts, func(part fleetv1alpha1.RevisionPart) bool { _, changed := p.authors[part]; return changed }); at >= 0 {
		part = parts[at]
	}
	by := history.Author{User: p.authors[part]}
	if by.User == "" && part == fleetv1alpha1.RevisionTemplate {
		by.Manager, _ = history.ManagerOf(template, stored.Manager)
	}
	return part, by
}

// first is the state before the first change of the object in a cluster, as revision 1. It is nil if the object was in no cluster
// before any of the changes, or the storage does not have that state any more.
func (k *Keeper) first(ctx context.Context, ref hubstore.Ref, now *facts, before []uint64) (*history.Record, error) {
	slices.Sort(before)
	var found *facts
	var failed error
	// An object that is in a cluster stays in one until the history begins, but for a moment: the search may find a later state then.
	sort.Search(len(before), func(i int) bool {
		if failed != nil {
			return true
		}
		was, err := k.past(ctx, ref, before[i], before[i])
		switch {
		case apierrors.IsNotFound(err), apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			return false
		case err != nil:
			failed = err
			return true
		case was.binding == nil || was.template.GetUID() != now.template.GetUID() || len(was.state.Clusters) == 0:
			return false
		}
		found = was
		return true
	})
	if failed != nil || found == nil {
		return nil, failed
	}
	record := &history.Record{Revision: 1, State: found.state, Part: fleetv1alpha1.RevisionTemplate}
	record.Author.Manager, record.Time = history.ManagerOf(found.template, stored.Manager)
	record.Author.User = k.Authors.Of(history.Change{UID: found.template.GetUID()})
	return record, nil
}
