package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
	"github.com/flagship-k8s/flagship/internal/knowledge/skew"
)

const (
	// probeTimeout is how long a member may take to say whether it is ready.
	probeTimeout = 5 * time.Second
	// apisAge is when the kinds that a member serves, and its version, are read although nothing shows that they changed.
	apisAge = 5 * time.Minute
)

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// Periods are how often members are observed, and when that changes their condition Ready.
type Periods struct {
	// Probe is how often the readiness of a member, and the kinds it serves, are read, and how often its resources are written at most.
	Probe time.Duration
	// Failure and Success are how long a member must have been unwell, or well again, before its Ready condition changes. The first
	// observation counts at once.
	Failure, Success time.Duration
}

// Deps is what Setup needs. All fields but NoTaints, Unplaced and Metrics are required.
type Deps struct {
	Fleet  *member.Fleet
	Events events.Recorder
	Clock  clock.WithTicker
	// Periods is called at every observation: what it returns may change.
	Periods func() Periods
	// NoTaints leaves the condition taints to the control plane, which writes them for clusters with an agent: see SetupLeases.
	NoTaints bool
	// Unplaced receives the pods that no node takes. Nil: they are reported in the ClusterCapacity, as agents do.
	Unplaced *Unplaced
	// Metrics takes the metrics of members. nil registers none.
	Metrics prometheus.Registerer
}

// Setup adds the loop that keeps the status of Clusters: readiness, served kinds, version, nodes and resources, and
// the taints that follow from readiness. Every member has its own worker, so one that hangs delays no other.
func Setup(mgr ctrl.Manager, deps Deps) error {
	if deps.Metrics != nil {
		if err := deps.Metrics.Register(newFleetMetrics(deps.Fleet)); err != nil {
			return fmt.Errorf("registering the metrics of members: %w", err)
		}
	}
	o := newObserver(mgr.GetClient(), deps)
	if err := mgr.Add(o); err != nil {
		return fmt.Errorf("adding the cluster observer: %w", err)
	}
	return nil
}

func newObserver(hub client.Client, deps Deps) *clusterObserver {
	o := &clusterObserver{Deps: deps, hub: hub, states: map[string]*clusterState{}}
	o.queues = memberqueue.New("clusters", deps.Fleet, deps.Clock, 1, o.observe)
	deps.Fleet.Subscribe(o.connectionChanged)
	deps.Fleet.OnChange(o.objectChanged)
	return o
}

// clusterObserver writes Cluster status and condition taints.
type clusterObserver struct {
	Deps
	hub    client.Client
	queues *memberqueue.Queues

	mu     sync.Mutex
	states map[string]*clusterState
}

// Start implements manager.Runnable: it observes until ctx ends and every watch came back.
func (o *clusterObserver) Start(ctx context.Context) error {
	err := o.queues.Start(ctx)
	o.mu.Lock()
	states := slices.Collect(maps.Values(o.states))
	o.mu.Unlock()
	for _, s := range states {
		s.resources.group.Close()
	}
	return err
}

// clusterState is what is known of one member. Only the member's own worker touches it, except through its methods that
// say otherwise.
type clusterState struct {
	conn      *member.Conn
	health    smoother
	nextProbe time.Time
	ahead     time.Duration // by which the clock of the member is
	apis      apiList
	apisRead  time.Time
	etag      string        // of what the member serves
	observed  atomic.Uint64 // how often the nodes, pods or devices changed
	// written is what the status was written from last: while it stays the same there is nothing to compare.
	written   inputs
	resources *resourceWatch
	apisStale flag
	// reported is when a change of resources was written last.
	reported time.Time
}

// reportsResources returns whether the resources may be written, and otherwise when: a member whose pods come and go all the time
// costs one write in a period.
func (s *clusterState) reportsResources(now time.Time, period time.Duration) (due bool, at time.Time) {
	at = s.reported.Add(period)
	return !now.Before(at), at
}

// inputs are what the status and the taints of a Cluster follow from.
type inputs struct {
	version string // of the Cluster
	ready   metav1.Condition
	apis    time.Time
	changes uint64 // of nodes, pods or devices
	ahead   time.Duration
}

func (s *clusterState) inputs(cluster *clusterv1alpha1.Cluster) inputs {
	return inputs{cluster.ResourceVersion, s.health.published, s.apisRead, s.observed.Load(), s.ahead}
}

// connectionChanged runs when a member appears, goes, or turns down or up: all of them are reasons to reconcile at once.
func (o *clusterObserver) connectionChanged(cluster string) {
	o.mu.Lock()
	if s := o.states[cluster]; s != nil {
		s.apisStale.set()
	}
	o.mu.Unlock()
	o.queues.Add(cluster, types.NamespacedName{Name: cluster})
}

// objectChanged reads the kinds of a member at once when a definition of the control plane's has changed there. That another one has is seen
// with the next probe: a watch of all definitions would be a seventh of what an idle member costs.
func (o *clusterObserver) objectChanged(change objectcache.Change) {
	if change.Resource != definitions || change.Synced {
		return
	}
	o.mu.Lock()
	s := o.states[change.Cluster]
	o.mu.Unlock()
	if s != nil {
		s.apisStale.set()
		// It takes the member some 50 ms to establish a definition.
		o.queues.AddAfter(change.Cluster, types.NamespacedName{Name: change.Cluster}, backoff.NotYet)
	}
}

// observe probes one member and writes changes of its status. The result is the time until the next probe.
func (o *clusterObserver) observe(ctx context.Context, name string, _ types.NamespacedName) (time.Duration, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := o.hub.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy)
	conn, connected := o.Fleet.Get(name)
	switch {
	case apierrors.IsNotFound(err) || err == nil && !connected:
		o.forget(name)
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading cluster %s: %w", name, err)
	}
	state := o.state(ctx, conn, cluster)
	o.refresh(ctx, state)
	if state.health.published.Status == "" {
		return max(state.nextProbe.Sub(o.Clock.Now()), time.Millisecond), nil // nothing to report yet
	}
	if err := state.resources.devices.follow(ctx, state.apis, o.Clock.Now()); err != nil {
		return 0, fmt.Errorf("watching the devices of cluster %s: %w", name, err)
	}
	if inputs := state.inputs(cluster); inputs != state.written {
		due, _ := state.reportsResources(o.Clock.Now(), o.Periods().Probe)
		if err := o.write(ctx, cluster, state); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
				return backoff.Conflict, nil // the cache is behind, or the Cluster is going
			}
			return 0, err
		}
		if !due {
			inputs.changes = state.written.changes // those since then are not written yet
		}
		state.written = inputs
	}
	now, next := o.Clock.Now(), state.nextProbe
	if due, at := state.reportsResources(now, o.Periods().Probe); !due && at.Before(next) {
		next = at // what has changed since is written then
	}
	return max(next.Sub(now), time.Millisecond), nil
}

// refresh reads the readiness of the member and what it serves, as far as that is due.
func (o *clusterObserver) refresh(ctx context.Context, s *clusterState) {
	now := o.Clock.Now()
	due := !now.Before(s.nextProbe)
	if due || s.apisStale.isSet() {
		seen := o.probe(ctx, s.conn)
		if o.isJoining(s, seen, now) {
			s.nextProbe = now.Add(backoff.NotYet)
			return
		}
		periods := o.Periods()
		s.health.failure, s.health.success = periods.Failure, periods.Success
		s.health.see(seen, now)
		s.ahead = s.conn.ClockAhead()
		s.nextProbe = now.Add(periods.Probe)
		if pending, ok := s.health.pendingUntil(); ok && pending.Before(s.nextProbe) {
			s.nextProbe = pending
		}
	}
	if s.health.isReady() && (due || s.apisStale.isSet() || s.apis.empty()) {
		stale := s.apisStale.take() || s.apis.condition.Status != metav1.ConditionTrue || now.Sub(s.apisRead) >= apisAge
		if !s.servesSame(ctx) || stale {
			s.apis, s.apisRead = s.apis.refresh(ctx, s.conn), now
		}
	}
}

// isJoining returns whether the Secrets of a Cluster are not complete yet: karmadactl makes them first, the Cluster next, and the
// Cluster their owner last. The first observation counts at once, and would keep it unready for the success threshold.
func (o *clusterObserver) isJoining(s *clusterState, seen metav1.Condition, now time.Time) bool {
	return seen.Reason == clusterv1alpha1.CredentialsNotUsableReason && s.health.published.Status == "" &&
		now.Sub(s.conn.Cluster().CreationTimestamp.Time) < o.Periods().Failure
}

// probe turns the answer of a member into the condition it calls for.
func (o *clusterObserver) probe(ctx context.Context, conn *member.Conn) metav1.Condition {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %s", probeTimeout))
	defer cancel()
	ready, message, err := conn.Probe(ctx)
	var access *clusterv1alpha1.AccessError
	switch {
	case errors.As(err, &access):
		return clusterv1alpha1.NotReady(access.Reason, access.Message)
	case err != nil && errors.Is(err, context.DeadlineExceeded):
		return clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, context.Cause(ctx).Error())
	case err != nil:
		return clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, err.Error())
	case !ready:
		return clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReadyReason, message)
	}
	return clusterv1alpha1.Ready()
}

func (o *clusterObserver) state(ctx context.Context, conn *member.Conn, cluster *clusterv1alpha1.Cluster) *clusterState {
	o.mu.Lock()
	s := o.states[conn.Name()]
	o.mu.Unlock()
	if s != nil && s.conn == conn {
		return s
	}
	o.forget(conn.Name())
	s = &clusterState{
		conn: conn,
		apis: apiListOf(&cluster.Status),
	}
	if published := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); published != nil {
		s.health.published = *published
	}
	key := types.NamespacedName{Name: conn.Name()}
	// Changes are collected, so that a busy member costs one write in that time.
	s.resources = watchResources(context.WithoutCancel(ctx), conn, func() {
		s.observed.Add(1)
		o.queues.AddAfter(conn.Name(), key, backoff.Gather)
	})
	o.Unplaced.set(conn.Name(), s.resources.resources)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states[conn.Name()] = s
	return s
}

// forget ends the watches of a member. The lock is not held meanwhile: a watch that fails may end in connectionChanged.
func (o *clusterObserver) forget(name string) {
	o.mu.Lock()
	s := o.states[name]
	delete(o.states, name)
	o.mu.Unlock()
	o.Unplaced.set(name, nil)
	if s != nil {
		s.resources.group.Close()
	}
}

// write brings the Cluster up to date: its status in one patch, its condition taints in another, each only if different.
func (o *clusterObserver) write(ctx context.Context, cluster *clusterv1alpha1.Cluster, s *clusterState) error {
	want := cluster.DeepCopy()
	s.apis.writeTo(&want.Status)
	now := o.Clock.Now()
	s.resources.writeTo(&want.Status, cluster.Spec.ResourceModels)
	reports.Summaries(&want.Status)
	due, _ := s.reportsResources(now, o.Periods().Probe)
	due = due || !sameNames(cluster.Status.ResourceSummary, want.Status.ResourceSummary)
	if !due {
		want.Status.NodeSummary, want.Status.ResourceSummary = cluster.Status.NodeSummary, cluster.Status.ResourceSummary
	}
	meta.SetStatusCondition(&want.Status.Conditions, s.health.published)
	setClock(&want.Status.Conditions, s.ahead)
	if !equality.Semantic.DeepEqual(cluster.Status, want.Status) {
		if _, err := hubclient.PatchStatusLocked(ctx, o.hub, cluster, want); err != nil {
			return err
		}
	}
	if due {
		written, err := o.writeCapacity(ctx, cluster, s.resources.resources.Capacity(), s.resources.resources.Unplaced())
		if err != nil {
			return err
		}
		if written || !equality.Semantic.DeepEqual(cluster.Status.ResourceSummary, want.Status.ResourceSummary) {
			s.reported = now
		}
	}
	if o.NoTaints {
		return nil
	}
	return tainter{o.hub, o.Events}.taint(ctx, want, s.health.published)
}

// setClock reports by how much the clock of a member is ahead; 0 is not reported.
func setClock(conditions *[]metav1.Condition, ahead time.Duration) {
	if ahead == 0 {
		meta.RemoveStatusCondition(conditions, clusterv1alpha1.ClusterConditionClockInSync)
		return
	}
	meta.SetStatusCondition(conditions, clusterv1alpha1.ClockDiffers(skew.Describe(ahead)))
}

// sameNames returns whether two summaries have the same resources. That a member has a resource, such as a class of devices, or has any
// summary at all, decides whether it is a candidate: it is written at once.
func sameNames(a, b *clusterv1alpha1.ResourceSummary) bool {
	if a == nil || b == nil || len(a.Allocatable) != len(b.Allocatable) {
		return a == b
	}
	for name := range a.Allocatable {
		if _, ok := b.Allocatable[name]; !ok {
			return false
		}
	}
	return true
}

// capacityTimeout bounds the write of a ClusterCapacity: an API server holds custom resources back for two seconds after the start of a
// new control plane, and the status of the member would wait for that.
const capacityTimeout = 500 * time.Millisecond

// writeCapacity brings the ClusterCapacity of a cluster up to date; nil is unknown. It returns whether something was written.
func (o *clusterObserver) writeCapacity(
	ctx context.Context, cluster *clusterv1alpha1.Cluster, want *fleetv1alpha1.ClusterCapacity, unplaced []summary.Unplaced,
) (bool, error) {
	if want == nil || cluster.DeletionTimestamp != nil {
		return false, nil
	}
	if o.Unplaced == nil {
		want.Unplaced = report(unplaced)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, capacityTimeout, fmt.Errorf("no answer within %s", capacityTimeout))
	defer cancel()
	owner := metav1.OwnerReference{
		APIVersion: clusterv1alpha1.SchemeGroupVersion.String(), Kind: clusterv1alpha1.KindCluster, Name: cluster.Name, UID: cluster.UID,
	}
	have := &fleetv1alpha1.ClusterCapacity{}
	err := o.hub.Get(ctx, client.ObjectKeyFromObject(cluster), have)
	if meta.IsNoMatchError(err) {
		return false, nil // the control plane of this agent is older
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the capacity of cluster %s: %w", cluster.Name, err)
	}
	if err != nil {
		want.Name, want.OwnerReferences = cluster.Name, []metav1.OwnerReference{owner}
		if err := o.hub.Create(ctx, want); err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("writing the capacity of cluster %s: %w", cluster.Name, err)
		}
		return true, nil
	}
	want.TypeMeta, want.ObjectMeta = have.TypeMeta, *have.ObjectMeta.DeepCopy()
	want.OwnerReferences = []metav1.OwnerReference{owner}
	return hubclient.Patch(ctx, o.hub, have, want)
}
