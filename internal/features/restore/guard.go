package restore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

// period is how often at most the count of a member is raised, while the control plane writes to it. A restored state that
// is older than the last period in which something was written is recognized.
const period = 5 * time.Minute

// maxAge is how old what is known of the count in a member may be when a Work is reconciled there. Another control plane with a copy of this
// storage, such as one that was restored while this one goes on, raises the count before it writes: this one writes beside it for no longer.
// It is long enough for a few attempts of a write: a member that refuses every other request would else refuse each write, and none of
// the reads between them.
const maxAge = 5 * time.Second

// settled is how long after a member was resumed its Works are reconciled once more: another control plane with a copy of this storage has
// read the raised count by then, and its last requests are over. Each takes what the other one writes as its own.
const settled = 3 * maxAge

// Deps is what a Guard needs. All fields but Elsewhere are required.
type Deps struct {
	// Client reads Clusters and Works from a cache; Live reads everything past it.
	Client client.Client
	Live   client.Reader
	Fleet  *member.Fleet
	// Fingerprints returns, for each manifest of a Work, what LastAppliedAnnotation of its object begins with while the
	// object is as the Work has it. It is a function because apply writes that annotation, and features import no stage.
	Fingerprints func(*workv1alpha1.Work) []string
	// Deletes returns whether a Work deletes an object that names it, once it may delete. It is a function for the same reason.
	Deletes func(ownership.ControlPlane, *workv1alpha1.Work, *unstructured.Unstructured) bool
	Events  events.Recorder
	Clock   clock.WithTicker
	// Metrics takes the number of orphans, and which members are held.
	Metrics prometheus.Registerer
	// Elsewhere reads a page about a cluster that another server serves. It is a function because which server that is belongs to the host.
	// Nil: there is none.
	Elsewhere func(ctx context.Context, path, cluster string) (Report, error)
}

// Guard holds back writes to members that a later state of this control plane wrote to.
type Guard struct {
	Deps
	queues  *memberqueue.Queues
	held    *prometheus.GaugeVec
	orphans *prometheus.GaugeVec

	mu      sync.Mutex
	members map[string]*guarded
	resumed []func(cluster string)
}

// guarded is what is known about one connection.
type guarded struct {
	conn *member.Conn

	mu      sync.Mutex // held while both counts are read
	checked bool
	hold    member.Hold
	there   coordinationv1.LeaseSpec // the count in the member, as it was read or written last
	read    time.Time                // when it was last read
	resumed time.Time                // when it was resumed, until it is settled

	writing sync.Mutex // held for no request: writes to the member wait for it
	raised  time.Time  // when the count was last to be raised
	due     bool       // the count is to be raised
}

// New returns a Guard. Setup adds its loops.
func New(deps Deps) *Guard {
	with := promauto.With(deps.Metrics)
	g := &Guard{
		Deps: deps, members: map[string]*guarded{},
		held: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_dispatching_held",
			Help: "1 while nothing is written to a cluster because the control plane was restored from a backup; absent until that happens.",
		}, []string{"cluster"}),
		orphans: with.NewGaugeVec(prometheus.GaugeOpts{
			Name: "flagship_orphans",
			Help: "Objects in a cluster that this control plane manages and has no Work for, among the kinds that it watches there.",
		}, []string{"cluster"}),
	}
	g.queues = memberqueue.New("restore", deps.Fleet, deps.Clock, 1, g.raise)
	return g
}

// OnResume has f called with the name of a cluster to which writing goes on. f must not block. Call it before Setup.
func (g *Guard) OnResume(f func(cluster string)) { g.resumed = append(g.resumed, f) }

// Held returns which writes to a member wait for a person. It reads the member's Lease at the first call for a connection, and again if what is
// known of it is too old.
func (g *Guard) Held(ctx context.Context, conn *member.Conn) (member.Hold, error) {
	s := g.of(conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checked && (s.hold == member.HoldEverything || g.Clock.Since(s.read) < maxAge) {
		return s.hold, nil
	}
	if s.checked {
		err := g.confirm(ctx, s)
		return s.hold, err
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := g.Client.Get(ctx, client.ObjectKey{Name: conn.Name()}, cluster); err != nil {
		return member.Hold{}, fmt.Errorf("reading cluster %s: %w", conn.Name(), err)
	}
	counts, err := g.compared(ctx, s, cluster.UID)
	if err != nil {
		return member.Hold{}, err
	}
	s.checked = true
	if decide(cluster, counts).held {
		s.hold = member.HoldEverything // until raise has reported it, or read what a person allows
		g.queues.Add(conn.Name(), types.NamespacedName{Name: conn.Name()})
	}
	return s.hold, nil
}

// Writes is called before something is written to a member.
func (g *Guard) Writes(conn *member.Conn) {
	s := g.of(conn)
	s.writing.Lock()
	defer s.writing.Unlock()
	if now := g.Clock.Now(); now.Sub(s.raised) >= period {
		s.raised, s.due = now, true
		g.queues.Add(conn.Name(), types.NamespacedName{Name: conn.Name()})
	}
}

// confirm reads the count in a member again, and holds the member if another control plane has raised it. A count that cannot be read is read
// when it is too old again: no write fails for it.
func (g *Guard) confirm(ctx context.Context, s *guarded) error {
	s.read = g.Clock.Now() // what is read is as old as the request
	bounded, cancel := context.WithTimeout(ctx, maxAge)
	defer cancel()
	there, err := readThere(bounded, s.conn)
	if err != nil {
		log.FromContext(ctx).Info("The count of writes to the cluster was not read", "cluster", s.conn.Name(), "error", err.Error())
		return nil
	}
	if equality.Semantic.DeepEqual(there, s.there) {
		return nil
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := g.Client.Get(ctx, client.ObjectKey{Name: s.conn.Name()}, cluster); err != nil {
		return fmt.Errorf("reading cluster %s: %w", s.conn.Name(), err)
	}
	counts, err := g.compared(ctx, s, cluster.UID)
	if err == nil && counts.ahead() {
		s.hold = member.HoldEverything // raise reports it
		g.queues.Add(s.conn.Name(), types.NamespacedName{Name: s.conn.Name()})
	}
	return err
}

// compared reads both counts.
func (g *Guard) compared(ctx context.Context, s *guarded, cluster types.UID) (epochs, error) {
	now := g.Clock.Now()
	counts, there, err := g.epochs(ctx, s.conn, cluster)
	if err == nil {
		s.read, s.there = now, there
	}
	return counts, err
}

// of is what is known about a connection.
func (g *Guard) of(conn *member.Conn) *guarded {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.members[conn.Name()]
	if s == nil || s.conn != conn {
		s = &guarded{conn: conn}
		g.members[conn.Name()] = s
	}
	return s
}

// raise is the member.Task of the guard: it writes the condition of a member that is held, resumes it if a person said so,
// and raises the count of one that is written to.
func (g *Guard) raise(ctx context.Context, name string, _ types.NamespacedName) (time.Duration, error) {
	conn, connected := g.Fleet.Get(name)
	if !connected {
		g.forget(name)
		return 0, nil
	}
	cluster := &clusterv1alpha1.Cluster{}
	if err := g.Client.Get(ctx, client.ObjectKey{Name: name}, cluster); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	s := g.of(conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.checked {
		return 0, nil // the first write waits for Held, which comes back here
	}
	counts, err := g.compared(ctx, s, cluster.UID)
	if err != nil {
		return 0, err
	}
	// From what is stored alone: what was held before may have been resumed by a write whose answer was lost, or that the cache does not show.
	d := decide(cluster, counts)
	if d.held && !d.resume {
		g.held.WithLabelValues(name).Set(1)
		if !d.stated {
			s.hold = member.HoldEverything
			return 0, g.state(ctx, cluster, counts)
		}
		before := s.hold
		if s.hold = d.hold; before != d.hold {
			g.resume(name)
		}
		return 0, nil
	}
	if d.held || s.isDue() {
		written, err := g.writeEpoch(ctx, conn, cluster, max(counts.own, counts.theirs)+1)
		if err != nil {
			return 0, err // what is known of the member stays: without the control plane nothing else could be compared with it
		}
		s.there = written
		s.isRaised()
	}
	if d.resume {
		if err := g.report(ctx, cluster.DeepCopy(), cluster, clusterv1alpha1.DispatchingResumed()); err != nil {
			return 0, err
		}
	}
	if s.hold == (member.Hold{}) && !d.resume {
		return g.settle(s), nil
	}
	s.hold, s.resumed = member.Hold{}, g.Clock.Now()
	g.held.WithLabelValues(name).Set(0)
	g.resume(name)
	return settled, nil
}

func (s *guarded) isDue() bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.due
}

func (s *guarded) isRaised() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.due = false
}

// settle has the Works of a member that was resumed reconciled once more when it is settled, and returns how long that takes yet.
func (g *Guard) settle(s *guarded) time.Duration {
	if s.resumed.IsZero() {
		return 0
	}
	if left := settled - g.Clock.Since(s.resumed); left > 0 {
		return left
	}
	s.resumed = time.Time{}
	g.resume(s.conn.Name())
	return 0
}

// resume has the Works of a cluster reconciled again.
func (g *Guard) resume(cluster string) {
	for _, f := range g.resumed {
		f(cluster)
	}
}

// state reports that a member is held. What a person allowed before that does not count any more: it may be in the backup. An own count is
// written, so that the same is not reported again after a restart.
func (g *Guard) state(ctx context.Context, cluster *clusterv1alpha1.Cluster, counts epochs) error {
	before := cluster.DeepCopy()
	meta.RemoveStatusCondition(&cluster.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld) // its time is to be that of now
	if err := g.report(ctx, before, cluster, heldCondition(cluster)); err != nil || counts.counted {
		return err
	}
	return g.writeOwn(ctx, cluster, ownCount(cluster, counts.own, g.Clock.Now()))
}

// decision is what is to be done about a member.
type decision struct {
	held   bool // nothing may be written to it, unless a person allowed it
	stated bool // its condition reports that
	resume bool // a person allowed to go on
	// hold is what a person has not allowed.
	hold member.Hold
}

// decide compares the counts, and reads the annotations and the condition of a Cluster.
func decide(cluster *clusterv1alpha1.Cluster, counts epochs) decision {
	byAnnotation := isHeldByAnnotation(cluster)
	held := isHeld(cluster) || byAnnotation || counts.ahead()
	if !held {
		return decision{}
	}
	// A condition without a count was in the backup, as were the annotations.
	d := decision{held: true, stated: isHeld(cluster) && counts.counted, hold: member.HoldEverything}
	if !d.stated {
		return d
	}
	since := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld).LastTransitionTime
	d.resume = !byAnnotation && !clusterv1alpha1.ResumedAt(cluster).Before(since.Time)
	if at, operations := clusterv1alpha1.ResumedOperations(cluster); !at.Before(since.Time) {
		d.hold.Create = !slices.Contains(operations, clusterv1alpha1.ResumeCreate)
		d.hold.Change = !slices.Contains(operations, clusterv1alpha1.ResumeChange)
		d.hold.Delete = !slices.Contains(operations, clusterv1alpha1.ResumeDelete)
	}
	return d
}

func (g *Guard) forget(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members, name)
	g.held.DeleteLabelValues(name)
	g.orphans.DeleteLabelValues(name)
}

func heldCondition(cluster *clusterv1alpha1.Cluster) metav1.Condition {
	reason, cause := clusterv1alpha1.ControlPlaneRestoredReason, "A later state of this control plane has written to the cluster: "+
		"this one was restored from a backup, or another one was and goes on"
	if isHeldByAnnotation(cluster) {
		reason = clusterv1alpha1.HeldByAnnotationReason
		cause = fmt.Sprintf("The annotation %s: %s", clusterv1alpha1.HoldDispatchingAnnotation, cluster.Annotations[clusterv1alpha1.HoldDispatchingAnnotation])
	}
	return clusterv1alpha1.DispatchingHeld(reason, fmt.Sprintf("%s. Nothing is written to or deleted in the cluster: "+
		"'flagship restore status --cluster %s' lists the differences, 'flagship restore resume --cluster %s' goes on, with --only step by step", cause, cluster.Name, cluster.Name))
}
