package render

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/expectations"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/triggers"
)

const (
	// concurrency is how many bindings of a kind are rendered at once.
	concurrency = 16
)

var errNoID = errors.New("the binding has no permanent id")

// Deps is what the package needs.
type Deps struct {
	// Templates reads templates. Required.
	Templates hubstore.VersionReader
	// Interpreter sets replicas and removes what does not go to members. Required.
	Interpreter compose.Interpreter
	// Conversion makes of a template what its clusters serve, after overrides. Nil: nothing is converted.
	Conversion conversion.Adviser
	// Changes publishes kinds whose interpretation or definition changed; their bindings are rendered again. Nil: none changes.
	Changes *interpret.Changes
	// Wanted returns whether a binding that is deleted, or was, would be created again: its Works stay then. Nil: none would. It is a
	// function because propagate decides it, and no stage imports another.
	Wanted func(ctx context.Context, binding workv1alpha2.Binding) (bool, error)
	// EvictionTimeout returns how long a copy stays in a cluster that its binding left, if a copy in a new cluster does not
	// become healthy. 0: it is removed at once. It is a function because that may change meanwhile. Required.
	EvictionTimeout func() time.Duration
	// MayStore returns an error if the namespace of a binding is at its limit, so that a Work for it must not be created (before
	// is nil) or made larger. Nil: there are no limits. MayStore and OnSpace are functions because the limits are a feature that may be deleted.
	MayStore func(namespace string, before, after *workv1alpha1.Work) error
	// OnSpace has wake called for a namespace that was at its limit and is below it, until wake returns false.
	// Required with MayStore.
	OnSpace func(wake func(namespace string) (more bool))
	// Metrics registers the metrics. Nil: none.
	Metrics prometheus.Registerer
	// Events publishes failures. Required.
	Events events.Recorder
	// Clock stamps conditions. Required.
	Clock clock.Clock
	// TokenKey is that of compose.Composer.
	TokenKey string
	// NewID returns a new UUID for a Work. It is a function so that tests determine the ids. Required.
	NewID func() string
}

// Reconciler keeps the Works of bindings of one scope.
type Reconciler struct {
	deps     Deps
	client   client.Client // Reads come from the cache.
	live     client.Reader
	composer *compose.Composer
	// writes are the Works that this reconciler wrote: a Work is read as it was written last, and the event of a write reconciles nothing.
	writes     expectations.Writes[*workv1alpha1.Work]
	triggers   *triggers.Triggers
	orphans    *orphans
	moves      *moves
	namespaced bool
	// lost has bindings whose deletion this process observed, as they were last, until none of their Works is left or they are created
	// again. A Work without a binding is deleted only if its binding is in it.
	lost sync.Map // types.NamespacedName → workv1alpha2.Binding
}

// Setup adds the loops for ResourceBindings and for ClusterResourceBindings. The context is for adding indexes only.
func Setup(ctx context.Context, mgr ctrl.Manager, deps Deps) error {
	if err := Indexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	orphans := newOrphans(deps.Metrics)
	for _, namespaced := range []bool{true, false} {
		r := newReconciler(mgr.GetClient(), mgr.GetAPIReader(), deps, orphans, namespaced)
		if err := r.setup(mgr); err != nil {
			return err
		}
	}
	return nil
}

func newReconciler(cached client.Client, live client.Reader, deps Deps, orphans *orphans, namespaced bool) *Reconciler {
	deps.Conversion = conversion.OrUnchanged(deps.Conversion)
	return &Reconciler{
		deps: deps, client: cached, live: live, orphans: orphans, moves: newMoves(), namespaced: namespaced,
		triggers: &triggers.Triggers{Reader: cached, Templates: deps.Templates, Conversion: deps.Conversion, Namespaced: namespaced},
		composer: &compose.Composer{Interpreter: deps.Interpreter, Conversion: deps.Conversion, TokenKey: deps.TokenKey, NewID: deps.NewID},
	}
}

func (r *Reconciler) setup(mgr ctrl.Manager) error {
	name := "render-" + strings.ToLower(r.kind().Kind)
	t := r.triggers
	b := ctrl.NewControllerManagedBy(mgr).
		Named(name).
		Watches(r.newBinding("", ""), r.bindingEvents(), builder.WithPredicates(bindingChanges())).
		Watches(&workv1alpha1.Work{}, r.workChanges()).
		Watches(&clusterv1alpha1.Cluster{}, t.ClusterChanges()).
		Watches(&policyv1alpha1.ClusterOverridePolicy{}, t.PolicyChanges())
	if r.namespaced {
		b = b.Watches(&policyv1alpha1.OverridePolicy{}, t.PolicyChanges())
	}
	if r.deps.Changes != nil {
		b = b.WatchesRawSource(t.MeaningChanges(r.deps.Changes))
	}
	if r.namespaced && r.deps.MayStore != nil {
		b = b.WatchesRawSource(t.Space(r.deps.OnSpace))
	}
	err := b.WithOptions(controller.Options{
		MaxConcurrentReconciles: concurrency,
		NewQueue:                fairqueue.Shared(concurrency, func(q reconcile.Request) string { return q.Namespace }),
		RateLimiter:             backoff.Limiter[reconcile.Request](),
		// Several control planes may live in one process; names need to be unique within each only.
		SkipNameValidation: new(true),
	}).Complete(controlloop.Track(mgr, r))
	if err != nil {
		return fmt.Errorf("adding the loop %s: %w", name, err)
	}
	return nil
}

// Reconcile makes the Works of one binding what they should be.
func (r *Reconciler) Reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	if q == (reconcile.Request{}) {
		return reconcile.Result{}, r.triggers.Repeats.Reconcile(ctx)
	}
	controlloop.About(ctx, q.String())
	again, binding := time.Duration(0), r.newBinding("", "")
	err := r.client.Get(ctx, q.NamespacedName, binding, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		r.moves.keep(q.NamespacedName, nil)
		again, err = r.leftovers(ctx, q)
		return reconcile.Result{RequeueAfter: again}, err
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading the binding: %w", err)
	}
	r.present(q.NamespacedName)
	switch {
	case binding.GetDeletionTimestamp() != nil:
		err = r.finish(ctx, binding)
	case binding.GetLabels()[binding.PermanentIDLabel()] == "":
		// Admission sets one on every binding; without it a Work could be that of another binding of the name.
		return reconcile.Result{}, reconcile.TerminalError(errNoID)
	case !compose.AwaitsScheduler(binding):
		again, err = r.render(ctx, binding)
	}
	refused, harmless, others := sortOut(err)
	switch {
	case others != nil:
		return reconcile.Result{}, others
	case harmless != nil:
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	case conversion.IsTransient(refused):
		return reconcile.Result{}, refused
	case refused != nil:
		// A change of the policy, the template or the cluster enqueues the binding again.
		return reconcile.Result{RequeueAfter: again}, reconcile.TerminalError(refused)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// render writes the Works of targets and deletes those that no target needs. Again is the pause before the next reconcile if a copy in a
// cluster that the binding left stays for now; else 0.
func (r *Reconciler) render(ctx context.Context, binding workv1alpha2.Binding) (again time.Duration, err error) {
	p := compose.PlanFor(binding)
	works, err := r.worksOf(ctx, compose.KeyOf(binding))
	if err != nil {
		return 0, err
	}
	orphans, again, err := r.due(ctx, binding, p, works, p.Unwanted(works))
	if err != nil {
		return 0, err
	}
	r.publishWaiting(binding, works)
	if len(orphans) > 0 {
		if err := r.markLastCopies(ctx, p, orphans); err != nil {
			return 0, err
		}
		if err := r.deleteAll(ctx, orphans); err != nil {
			r.deps.Events.Publish(cleanupFailed(events.Binding(binding), err))
			return 0, err
		}
	}
	if p.AwaitsPurge(orphans) || len(p.Targets) == 0 {
		// A copy that has to be gone first is still there; its deletion enqueues the binding.
		return again, r.reportRendered(ctx, binding, nil)
	}
	waits, err := p.AwaitsEnd(binding, works, func(name string, cluster *clusterv1alpha1.Cluster) error {
		return r.client.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy)
	})
	if err != nil || waits {
		return compose.FencePause, errors.Join(err, r.reportRendered(ctx, binding, nil))
	}
	requests, err := r.requests(ctx, binding, p)
	if compose.IsForbidden(err) {
		r.deps.Events.Publish(r.renderingRefused(binding, err))
		return again, errors.Join(err, r.reportRendered(ctx, binding, err))
	}
	if err != nil || len(requests) == 0 {
		return again, err
	}
	err = r.ensureAll(ctx, requests)
	refused, _, others := sortOut(err)
	if refused != nil {
		r.deps.Events.Publish(r.renderingRefused(binding, refused))
	}
	if others != nil {
		r.deps.Events.Publish(syncFailed(events.Binding(binding), others))
	}
	if err == nil {
		r.publishRendered(binding, len(requests))
	}
	return again, errors.Join(err, r.reportRendered(ctx, binding, refused))
}

// requests reads what all Works of the binding have in common. It returns none if the template was deleted, or created again under the
// same name; the binding follows. A binding that names what is not a template of its own namespace is an error.
func (r *Reconciler) requests(ctx context.Context, binding workv1alpha2.Binding, p compose.Plan) ([]compose.Request, error) {
	spec := binding.BindingSpec()
	if err := compose.CheckTemplate(binding); err != nil {
		return nil, &compose.ForbiddenError{Cause: err}
	}
	// A version that the binding was not made from yet is rendered again when it is.
	obj, err := r.deps.Templates.Read(ctx, hubstore.TemplateOf(spec), spec.Resource.ResourceVersion)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the template: %w", err)
	}
	if obj.GetDeletionTimestamp() != nil || spec.Resource.UID != "" && obj.GetUID() != spec.Resource.UID {
		return nil, nil
	}
	if obj.GetNamespace() != binding.GetNamespace() {
		return nil, &compose.ForbiddenError{Cause: compose.ErrNotOfNamespace}
	}
	if why := hubstore.Stays(hubstore.TemplateOf(spec), obj); why != "" {
		return nil, &compose.ForbiddenError{Cause: errors.New("spec.resource: " + why)}
	}
	policies, err := hubclient.Overrides(ctx, r.client, spec.Resource.Namespace)
	if err != nil {
		return nil, err
	}
	completions := compose.ShareCompletions(obj, spec)
	requests := make([]compose.Request, 0, len(p.Targets))
	for _, t := range p.Targets {
		requests = append(requests, compose.Request{
			Template: obj, Binding: binding, Target: t, Targets: len(p.Targets), Completions: completions, Policies: policies,
		})
	}
	return requests, nil
}

// finish deletes the Works of a binding that is being deleted, and removes its finalizer when they are gone. A binding that would be
// created again goes at once and alone: the next one takes its Works over. So does one whose Works are all being deleted and wait for a
// person: when its template is made again, the new binding withdraws their removal.
func (r *Reconciler) finish(ctx context.Context, binding workv1alpha2.Binding) error {
	if !slices.Contains(binding.GetFinalizers(), binding.Finalizer()) {
		return nil
	}
	works, err := r.worksOf(ctx, compose.KeyOf(binding))
	if err != nil {
		return err
	}
	wanted, err := r.wanted(ctx, binding)
	if err != nil {
		return err
	}
	if wanted {
		r.deps.Events.Publish(bindingKept(binding))
	}
	if wanted || len(works) == 0 {
		return r.releaseBinding(ctx, binding)
	}
	if err := r.deleteAll(ctx, works); err != nil {
		r.deps.Events.Publish(cleanupFailed(events.Binding(binding), err))
		return err
	}
	r.publishWaiting(binding, works)
	if slices.ContainsFunc(works, workv1alpha1.AwaitsBrake) && !slices.ContainsFunc(works, func(w *workv1alpha1.Work) bool { return w.DeletionTimestamp == nil }) {
		return r.releaseBinding(ctx, binding)
	}
	if slices.ContainsFunc(works, compose.CarriesNamespace) {
		return errMissed // the binding goes when none of its Works is left: a Work without the binding is not deleted, and has no event of its own
	}
	return nil
}

// sortOut divides errors: those that stay until a policy, the template, the binding or a cluster changes, those that only mean that the
// cache was behind, and all others.
func sortOut(err error) (refused, harmless, others error) {
	var a, b, c []error
	for _, fault := range compose.Flatten(err) {
		var impossible *override.Error
		var refused *compose.RefusedError
		switch {
		case errors.As(fault, &impossible), errors.As(fault, &refused), compose.IsConversion(fault), compose.IsForbidden(fault):
			a = append(a, fault)
		case errors.Is(fault, errMissed), apierrors.IsAlreadyExists(fault), apierrors.IsConflict(fault):
			b = append(b, fault)
		default:
			c = append(c, fault)
		}
	}
	return errors.Join(a...), errors.Join(b...), errors.Join(c...)
}

// newBinding returns an empty binding of this reconciler's kind, by name where one is given.
func (r *Reconciler) newBinding(namespace, name string) workv1alpha2.Binding {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if r.namespaced {
		return &workv1alpha2.ResourceBinding{ObjectMeta: meta}
	}
	return &workv1alpha2.ClusterResourceBinding{ObjectMeta: meta}
}
