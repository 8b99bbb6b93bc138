// Package members builds the loops that act on members in Push mode. With one server, and without sharding, the server that leads runs
// them. Servers that share members run them each for its own: they write while this server has its Lease, whichever server leads, and
// report what the leader needs as agents do, in the ClusterCapacity and in a Work of events.
//
// In: what the loops of the leader use, too.
//
// Out: control loops.
//
// Owns: nothing.
//
// Never: decides what a member gets.
package members

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/finished"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberfeed"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/features/mcs/collect"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi"
	"github.com/flagship-k8s/flagship/internal/features/memberevents"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/remote"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/sharding"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/pipeline/observe"
)

// Settings are those of the control plane that the loops have.
type Settings struct {
	// These may change meanwhile.
	Brake         func() brake.Config
	Periods       func() clusterstatus.Periods
	DegradedAfter func() time.Duration
	// NoMemberEvents does not collect the events of members.
	NoMemberEvents bool
	Clock          clock.WithTickerAndDelayedExecution
	Metrics        prometheus.Registerer
	Loops          *controlloop.Set
}

// Deps is what the loops need. All fields but Shard and Peers are required.
type Deps struct {
	Settings
	// Manager runs the loops, and has the client that they write with.
	Manager ctrl.Manager
	// Shard has the members of this server, and Peers reads from the servers of others. Nil: the leader serves all members.
	Shard *sharding.Server
	Peers *remote.Peers

	// Client is that of the leader. It is not used with Shard.
	Client client.Client
	// Connections is the configuration of the connections of the leader, and Fleet has these.
	Connections member.Config
	Fleet       *member.Fleet
	// Memory and Stored receive the events of the leader. Stored is not used with Shard.
	Memory, Stored events.Recorder

	// Interpreter reads objects of any kind. Customized is the part of it that users wrote, and Changes has what they change.
	Interpreter, Customized *interpret.Chained
	Changes                 *interpret.Changes
	Conversion              conversion.Adviser
	// Names has the names of definitions.
	Names crds.Names
	// Keeps returns whether a Work that is deleted would be created again. It is a function because the stages that decide it import no
	// loop of members.
	Keeps func(context.Context, *workv1alpha1.Work) (keeps bool, again time.Duration, err error)
	// Unplaced receives the pods that no node of their member takes. It is not used with Shard.
	Unplaced *clusterstatus.Unplaced
}

// Members are the loops, and what they use.
type Members struct {
	Deps
	// Guard has the members that must not be written to.
	Guard *restore.Guard
	// Drift is what apply finds in members that this process applies to.
	Drift *drift.Episodes

	client      client.Client
	fleet       *member.Fleet
	events      events.Recorder
	stored      *events.Deduplicating // nil if the leader has it
	reports     *workstatus.Writer
	runs        *finished.Runs
	definitions *crds.Policy
	// brake is that of apply, for admission, which runs from before the loops are built.
	brake atomic.Pointer[brake.Brake]
	// drifted receives the fields that others changed in members; nil if they are not shown.
	drifted drifted.Publish
}

// New builds what the loops use.
func New(deps Deps) (_ *Members, err error) {
	mgr := deps.Manager
	m := &Members{Deps: deps, Drift: drift.New(deps.Clock), runs: finished.New(deps.Interpreter), client: deps.Client, fleet: deps.Fleet, events: events.Split{Memory: deps.Memory, Stored: deps.Stored}}
	var elsewhere func(context.Context, string, string) (restore.Report, error)
	if deps.Shard != nil {
		if err := m.separate(); err != nil {
			return nil, err
		}
		elsewhere = deps.Peers.Report
	}
	m.reports, err = workstatus.New(workstatus.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Clock: deps.Clock, Loop: deps.Loops.Loop("report"),
	})
	if err != nil {
		return nil, fmt.Errorf("building the reporter: %w", err)
	}
	m.Guard = restore.New(restore.Deps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fleet: m.fleet, Events: m.events, Clock: deps.Clock, Metrics: deps.Metrics,
		Fingerprints: apply.Fingerprints, Deletes: apply.Deletes, Elsewhere: elsewhere,
	})
	m.definitions, err = crds.NewPolicy(crds.PolicyDeps{Names: deps.Names, Works: mgr.GetClient(), Fleet: m.fleet, Events: m.events, Clock: deps.Clock})
	if err != nil {
		return nil, fmt.Errorf("building the policy of definitions: %w", err)
	}
	return m, nil
}

// separate gives the loops of this server what they do not have in common with those of the leader.
func (m *Members) separate() (err error) {
	connections := m.Connections
	connections.MayWrite = m.Shard.MayWrite
	connections.Serves = func(cluster *clusterv1alpha1.Cluster) bool {
		return cluster.Spec.SyncMode == clusterv1alpha1.Push && m.Shard.Serves(cluster.Name)
	}
	if m.fleet, err = member.NewFleet(connections); err != nil {
		return fmt.Errorf("building the fleet of this server: %w", err)
	}
	if m.client, err = hubclient.New(m.Manager, m.Clock); err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(m.Manager.GetConfig())
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	m.stored = hubclient.StoredEvents(kube, m.Clock)
	m.events = events.Split{Memory: m.Memory, Stored: m.stored}
	return nil
}

// Loop is a loop to set up, by its name.
type Loop struct {
	Name  string
	Setup func(ctrl.Manager) error
}

// Loops are all loops, in the order in which they are to be set up. The context is that of their caches.
func (m *Members) Loops(ctx context.Context) []Loop {
	loops := []Loop{
		{"member", m.feed},
		{"schema", func(mgr ctrl.Manager) error { return mgr.Add(m.definitions) }},
		{"member events", m.collectEvents},
		{"apply", func(mgr ctrl.Manager) error { return m.apply(ctx, mgr) }},
		{"observe", m.observe},
		{"clusters", m.clusterStatus},
		{"collect", func(mgr ctrl.Manager) error {
			return collect.Setup(mgr, collect.Deps{Client: m.client, Fleet: m.fleet, Metrics: m.Metrics, Clock: m.Clock})
		}},
		{"export", func(mgr ctrl.Manager) error {
			return mcsapi.Setup(ctx, mgr, mcsapi.Deps{Client: m.client, Fleet: m.fleet, Clock: m.Clock})
		}},
		{"restore", func(mgr ctrl.Manager) error { return restore.Setup(mgr, m.Guard) }},
		{"report", func(mgr ctrl.Manager) error { return mgr.Add(m.reports) }},
	}
	if m.stored != nil {
		loops = append(loops, Loop{"member loop events", func(mgr ctrl.Manager) error { return mgr.Add(controlloop.Restarted(mgr, m.stored)) }})
	}
	return loops
}

func (m *Members) feed(mgr ctrl.Manager) error {
	deps := memberfeed.Deps{Fleet: m.fleet}
	if m.Shard != nil {
		deps.Subscribe = m.Shard.Subscribe
	}
	return memberfeed.Setup(mgr, deps)
}

func (m *Members) apply(ctx context.Context, mgr ctrl.Manager) error {
	m.fleet.OnChange(func(change objectcache.Change) { m.runs.Changed(ctx, change) }) // before apply, which would create again what ran to its end
	return apply.Setup(mgr, apply.Deps{
		Fleet: m.fleet, Report: m.reports, Runs: m.runs, Events: m.events, Metrics: m.Metrics, Clock: m.Clock, Retain: m.Customized.Retain,
		Retention: m.Customized.Retention, Changes: m.Changes, KindPolicy: m.definitions, Brake: m.Deps.Brake, Braking: m.brake.Store, Guard: m.Guard, Keeps: m.Keeps, Drifted: m.drifted, Drift: m.Drift,
	})
}

// WillWait returns whether removals that a user has requested will wait in a cluster: see package brake.
func (m *Members) WillWait(cluster string, works []types.NamespacedName) bool {
	b := m.brake.Load()
	return b != nil && b.WillWait(cluster, works)
}

func (m *Members) observe(mgr ctrl.Manager) error {
	return observe.SetupWorks(mgr, observe.WorkDeps{
		Fleet: m.fleet, Report: m.reports, Runs: m.runs, Interpreter: m.Interpreter, Conversion: m.Conversion, Events: m.events, Clock: m.Clock,
		DegradedAfter: m.DegradedAfter, Changes: m.Changes,
	})
}

func (m *Members) clusterStatus(mgr ctrl.Manager) error {
	deps := clusterstatus.Deps{
		Fleet: m.fleet, Events: m.events, Clock: m.Clock, Periods: m.Periods, Metrics: m.Metrics,
	}
	if m.Shard == nil {
		deps.Unplaced = m.Unplaced
	}
	return clusterstatus.Setup(mgr, deps)
}

// collectEvents collects the events of members. What publishes them is the leader.
func (m *Members) collectEvents(mgr ctrl.Manager) error {
	if m.NoMemberEvents {
		return nil
	}
	deps := memberevents.Deps{
		Works: mgr.GetClient(), Cache: mgr.GetCache(), Fleet: m.fleet, Report: memberevents.Record(m.client), Period: memberevents.RecordPeriod,
		Events: m.events, Metrics: m.Metrics, Clock: m.Clock,
	}
	if m.Shard == nil {
		publisher, err := memberevents.SetupPublisher(mgr, mgr.GetClient(), m.events, m.Clock, false)
		if err != nil {
			return err
		}
		deps.Report, deps.Period = publisher.Report, 0
	}
	collector, err := memberevents.SetupCollector(mgr, deps)
	if err == nil {
		m.drifted = collector.Drifted
	}
	return err
}
