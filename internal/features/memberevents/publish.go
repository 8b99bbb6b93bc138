package memberevents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
)

// combining is how long the Warnings of further clusters about a template are waited for.
const combining = 2 * time.Second

// Publisher shows the Warnings of all members on templates.
type Publisher struct {
	client client.Reader
	events events.Recorder
	clock  clock.PassiveClock
	// everyCluster is whether there are records of Clusters in Push mode, too.
	everyCluster bool

	mu sync.Mutex
	// bindings has the Warnings about the template of a binding, by cluster. A binding is named as BoundTo names it.
	bindings map[string]map[string][]Warning
	// published is what was published of a binding last.
	published map[string]map[Subject]combined
	// queue is nil before the loop starts.
	queue workqueue.TypedRateLimitingInterface[request]
}

// request is for the record of a cluster, or for a binding.
type request struct{ Cluster, Binding string }

// SetupPublisher adds the loop of a Publisher to a manager. The reader is that of the cache. Recorder keeps events in memory. With everyCluster
// other servers record the Warnings of Clusters in Push mode, as agents record those of the others; without, this process reports them.
func SetupPublisher(mgr ctrl.Manager, reader client.Reader, recorder events.Recorder, clock clock.PassiveClock, everyCluster bool) (*Publisher, error) {
	if reader == nil || recorder == nil || clock == nil {
		return nil, errors.New("publishing the events of members needs a reader, a recorder and a clock")
	}
	p := newPublisher(reader, recorder, clock)
	p.everyCluster = everyCluster
	loop, err := controller.NewTyped("member-events", mgr, controller.TypedOptions[request]{
		Reconciler: controlloop.Track[request](mgr, p), RateLimiter: backoff.Limiter[request](),
		NewQueue: fairqueue.Maker(func(r request) string {
			namespace, _, _ := strings.Cut(r.Binding, "/")
			return namespace
		}),
		SkipNameValidation: new(true), // several control planes may run in one process
	})
	if err != nil {
		return nil, fmt.Errorf("adding the loop over events of members: %w", err)
	}
	records := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, work *workv1alpha1.Work) []request {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		return []request{{Cluster: cluster}}
	})
	err = errors.Join(
		loop.Watch(source.TypedKind(mgr.GetCache(), &workv1alpha1.Work{}, records, predicate.NewTypedPredicateFuncs(isRecord))),
		loop.Watch(source.TypedFunc[request](p.start)))
	if err != nil {
		return nil, fmt.Errorf("watching records of events: %w", err)
	}
	return p, nil
}

func newPublisher(reader client.Reader, recorder events.Recorder, clock clock.PassiveClock) *Publisher {
	return &Publisher{
		client: reader, events: recorder, clock: clock,
		bindings: map[string]map[string][]Warning{}, published: map[string]map[Subject]combined{},
	}
}

func isRecord(work *workv1alpha1.Work) bool {
	return work.Name == workv1alpha1.EventsRecordName && work.Labels[workv1alpha1.EventsRecordLabel] != ""
}

func (p *Publisher) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = queue
	for binding := range p.bindings {
		queue.Add(request{Binding: binding})
	}
	return nil
}

// Report is Deps.Report in the process of the control plane.
func (p *Publisher) Report(ctx context.Context, cluster string, warnings []Warning) error {
	byBinding := map[string][]Warning{}
	for _, w := range accept(warnings, p.clock.Now()).report(p.clock.Now()) {
		// Only Works of the cluster itself: a member concerns no template that it does not have.
		work, err := hubclient.GetWork(ctx, p.client, client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: w.Work})
		if err != nil {
			return err
		}
		if work != nil && workv1alpha2.BoundTo(work) != "" {
			binding := workv1alpha2.BoundTo(work)
			byBinding[binding] = append(byBinding[binding], w)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for binding, byCluster := range p.bindings {
		if _, still := byBinding[binding]; !still {
			delete(byCluster, cluster)
		}
		if len(byCluster) == 0 {
			delete(p.bindings, binding)
			delete(p.published, binding)
		}
	}
	for binding, warnings := range byBinding {
		if p.bindings[binding] == nil {
			p.bindings[binding] = map[string][]Warning{}
		}
		p.bindings[binding][cluster] = warnings
		if p.queue != nil {
			p.queue.AddAfter(request{Binding: binding}, combining)
		}
	}
	return nil
}

// Reconcile implements reconcile.TypedReconciler.
func (p *Publisher) Reconcile(ctx context.Context, r request) (reconcile.Result, error) {
	if r.Cluster != "" {
		return reconcile.Result{}, p.readRecord(ctx, r.Cluster)
	}
	return reconcile.Result{}, p.publish(ctx, r.Binding)
}

// readRecord reports what an agent recorded, or another server.
func (p *Publisher) readRecord(ctx context.Context, name string) error {
	cluster := &clusterv1alpha1.Cluster{}
	err := p.client.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return p.Report(ctx, name, nil)
	}
	if err != nil {
		return fmt.Errorf("reading the Cluster: %w", err)
	}
	if cluster.Spec.SyncMode != clusterv1alpha1.Pull && !p.everyCluster {
		return nil
	}
	work, err := hubclient.GetWork(ctx, p.client, client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(name), Name: workv1alpha1.EventsRecordName})
	if err != nil {
		return err
	}
	if work == nil || !isRecord(work) {
		return p.Report(ctx, name, nil)
	}
	return p.Report(ctx, name, decode(work))
}

// publish publishes the Warnings about the template of a binding that are new, or were repeated.
func (p *Publisher) publish(ctx context.Context, name string) error {
	binding, err := p.binding(ctx, name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	p.mu.Lock()
	warnings := combine(maps.Clone(p.bindings[name]), p.clock.Now())
	before := p.published[name]
	if len(warnings) > 0 {
		p.published[name] = map[Subject]combined{}
	}
	for _, w := range warnings {
		p.published[name][w.Subject] = w
	}
	p.mu.Unlock()
	for _, w := range warnings {
		if known, ok := before[w.Subject]; ok && !w.grown(known) {
			continue
		}
		template := events.Template(binding.BindingSpec().Resource)
		template.FieldPath = w.fieldPath()
		p.events.Publish(events.Event{Object: template, Type: corev1.EventTypeWarning, Reason: w.Reason, Message: w.message(), InMemory: true})
	}
	return nil
}

func (p *Publisher) binding(ctx context.Context, name string) (workv1alpha2.Binding, error) {
	namespace, name, _ := strings.Cut(name, "/")
	var binding workv1alpha2.Binding = &workv1alpha2.ResourceBinding{}
	if namespace == "" {
		binding = &workv1alpha2.ClusterResourceBinding{}
	}
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, binding, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading binding %s/%s: %w", namespace, name, err)
	}
	return binding, nil
}
