package clusterstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

const (
	// probeTimeout is how long a member may take to say whether it is ready.
	probeTimeout = 5 * time.Second
)

// Deps is what Setup needs. All fields but NoTaints are required.
type Deps struct {
	Fleet  *member.Fleet
	Events events.Recorder
	Clock  clock.WithTicker
	// ProbePeriod is how often the readiness of a member, and the kinds it serves, are read.
	ProbePeriod time.Duration
	// FailureThreshold and SuccessThreshold are how long a member must have been unwell, or well again, before its Ready
	// condition changes. The first observation counts at once.
	FailureThreshold, SuccessThreshold time.Duration
	// NoTaints leaves the condition taints to the control plane, which writes them for clusters with an agent: see SetupLeases.
	NoTaints bool
}

// Setup adds the loop that keeps the status of Clusters: readiness, served kinds, version, nodes and resources, and
// the taints that follow from readiness. Every member has its own worker, so one that hangs delays no other.
func Setup(mgr ctrl.Manager, deps Deps) error {
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
	apis      apiList
	resources *resourceWatch
	apisStale flag
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

// observe probes one member and writes changes of its status. The result is the time until the next probe.
func (o *clusterObserver) observe(ctx context.Context, name string, _ types.NamespacedName) (time.Duration, error) {
	cluster := &clusterv1alpha1.Cluster{}
	err := o.hub.Get(ctx, client.ObjectKey{Name: name}, cluster)
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
	state.resources.devices.follow(state.apis)
	if err := o.write(ctx, cluster, state); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return backoff.Conflict, nil // the cache is behind, or the Cluster is going
		}
		return 0, err
	}
	return max(state.nextProbe.Sub(o.Clock.Now()), time.Millisecond), nil
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
		s.health.see(seen, now)
		s.nextProbe = now.Add(o.ProbePeriod)
		if pending, ok := s.health.pendingUntil(); ok && pending.Before(s.nextProbe) {
			s.nextProbe = pending
		}
	}
	if s.health.isReady() && (due || s.apisStale.take() || s.apis.empty()) {
		s.apisStale.take()
		s.apis = s.apis.refresh(ctx, s.conn)
	}
}

// isJoining returns whether the Secrets of a Cluster are not complete yet: karmadactl makes them first, the Cluster next, and the
// Cluster their owner last. The first observation counts at once, and would keep it unready for the success threshold.
func (o *clusterObserver) isJoining(s *clusterState, seen metav1.Condition, now time.Time) bool {
	return seen.Reason == clusterv1alpha1.CredentialsNotUsableReason && s.health.published.Status == "" &&
		now.Sub(s.conn.Cluster().CreationTimestamp.Time) < o.FailureThreshold
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
		conn:   conn,
		health: smoother{failure: o.FailureThreshold, success: o.SuccessThreshold},
		apis:   apiListOf(&cluster.Status),
	}
	if published := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady); published != nil {
		s.health.published = *published
	}
	key := types.NamespacedName{Name: conn.Name()}
	s.resources = watchResources(context.WithoutCancel(ctx), conn, watchHandlers{
		// Changes are collected, so that a busy member costs one write in that time.
		summary: func() { o.queues.AddAfter(conn.Name(), key, backoff.Gather) },
		kinds: func() {
			s.apisStale.set()
			// It takes the member some 50 ms to establish a definition.
			o.queues.AddAfter(conn.Name(), key, backoff.NotYet)
		},
	})
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
	if s != nil {
		s.resources.group.Close()
	}
}

// write brings the Cluster up to date: its status in one patch, its condition taints in another, each only if different.
func (o *clusterObserver) write(ctx context.Context, cluster *clusterv1alpha1.Cluster, s *clusterState) error {
	want := cluster.DeepCopy()
	s.apis.writeTo(&want.Status)
	s.resources.writeTo(&want.Status, cluster.Spec.ResourceModels)
	meta.SetStatusCondition(&want.Status.Conditions, s.health.published)
	if !equality.Semantic.DeepEqual(cluster.Status, want.Status) {
		if _, err := hubclient.PatchStatusLocked(ctx, o.hub, cluster, want); err != nil {
			return err
		}
	}
	if o.NoTaints {
		return nil
	}
	return tainter{o.hub, o.Events}.taint(ctx, want, s.health.published)
}
