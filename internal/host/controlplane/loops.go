package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/customizations"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberfeed"
	"github.com/flagship-k8s/flagship/internal/features/agentevents"
	"github.com/flagship-k8s/flagship/internal/features/agents"
	"github.com/flagship-k8s/flagship/internal/features/appfailover"
	"github.com/flagship-k8s/flagship/internal/features/autoscaled"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/features/deschedule"
	"github.com/flagship-k8s/flagship/internal/features/enroll"
	"github.com/flagship-k8s/flagship/internal/features/evict"
	"github.com/flagship-k8s/flagship/internal/features/history"
	"github.com/flagship-k8s/flagship/internal/features/jobttl"
	"github.com/flagship-k8s/flagship/internal/features/limit"
	"github.com/flagship-k8s/flagship/internal/features/mcs"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/imports"
	"github.com/flagship-k8s/flagship/internal/features/memberevents"
	"github.com/flagship-k8s/flagship/internal/features/namespaces"
	"github.com/flagship-k8s/flagship/internal/features/remedy"
	"github.com/flagship-k8s/flagship/internal/features/resourceclaims"
	"github.com/flagship-k8s/flagship/internal/features/search"
	"github.com/flagship-k8s/flagship/internal/features/taintpolicies"
	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/answers"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/answers/previews"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/connections"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/fleetmetrics"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/members"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/remote"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/tunable"
	"github.com/flagship-k8s/flagship/internal/host/interpreter"
	"github.com/flagship-k8s/flagship/internal/host/memory"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	knowledgehistory "github.com/flagship-k8s/flagship/internal/knowledge/history"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/webhook"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/knowledge/version"
	"github.com/flagship-k8s/flagship/internal/pipeline/aggregate"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate"
	"github.com/flagship-k8s/flagship/internal/pipeline/render"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/rebalance"
)

// components are what several loops use.
type components struct {
	mgr ctrl.Manager
	// client is the one with which loops write objects of the control plane's kinds.
	client  client.Client
	kube    kubernetes.Interface
	options Options
	// asUser is what requests of users that are answered here are made with: those of the loops are refused without the lease.
	asUser    answers.AsUser
	templates *hubstore.Store
	// fleet has the connections of what leads. It is that of members, unless servers share these.
	fleet  *member.Fleet
	events events.Recorder
	// written are the events that are stored.
	written *events.Deduplicating
	members *members.Members
	// peers reads from other servers; nil if servers do not share members.
	peers       *remote.Peers
	interpreter *interpret.Chained
	// customized is the part of the interpreter that users wrote; scripts and webhooks are its layers.
	customized *interpret.Chained
	scripts    *declarative.Store
	webhooks   *webhook.Store
	// changes publishes kinds whose interpretation or definition changed.
	changes *interpret.Changes
	// limiter bounds what is stored for a namespace.
	limiter *limit.Limiter
	// carrier has the definitions that members need.
	carrier *crds.Carrier
	// scheduler also decides for propagate, so that a binding and its result are one write.
	scheduler *schedule.Controller
	// evictions bounds how fast copies leave clusters, whatever the cause.
	evictions *eviction.Rate
	// unplaced are pods that cannot run in their members.
	unplaced clusterstatus.Unplaced
	// conversion advises the stages about kinds that are not the same in every cluster.
	conversion conversion.Adviser
	// lock is held while the loops may write; nil with one server.
	lock *leader.Term
	// first is true for the first term of the process: before it nothing answers requests. offers make the parts of another one answer
	// them, in the place of those of the term before.
	first  bool
	offers []func()
}

// offer makes a part answer requests: at once in the first term, else once the caches are filled.
func (h *components) offer(present func()) {
	if h.first {
		present()
		return
	}
	h.offers = append(h.offers, present)
}

// loop is a control loop that is to be set up.
type loop struct {
	name string
	// on is the manager that runs it: that of the leader, or that of each server that serves members.
	on    ctrl.Manager
	setup func(ctrl.Manager) error
}

// setupLoops constructs every loop of the control plane, in the order in which an object meets them.
// The returned channel is closed when the caches are filled and the loops run.
func setupLoops(ctx context.Context, t *term, server *apiserver.Server, o Options) (<-chan struct{}, error) {
	mgr := t.mgr
	h, err := newComponents(ctx, t, server, o)
	if err != nil {
		return nil, err
	}
	customized := customizations.Loader{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Scripts: h.scripts, Webhooks: h.webhooks, Changes: h.changes,
	}
	if err := customized.Load(ctx); err != nil {
		return nil, fmt.Errorf("reading interpreter customizations: %w", err)
	}
	leads := mgr
	loops := []loop{
		{"events", leads, func(mgr ctrl.Manager) error { return mgr.Add(controlloop.Restarted(mgr, h.written)) }},
		{"built-in controllers", leads, func(mgr ctrl.Manager) error { return h.setupBuiltIn(mgr, server) }},
		{"encryption", leads, func(mgr ctrl.Manager) error { return h.setupEncryption(mgr, server) }},
		{"interpret", leads, customized.Setup},
		{"template", leads, func(mgr ctrl.Manager) error { return mgr.Add(h.templates) }},
		{"propagate", leads, func(mgr ctrl.Manager) error { return h.setupPropagate(ctx, mgr) }},
		{"namespaces", leads, func(mgr ctrl.Manager) error { return h.setupNamespaces(ctx, mgr) }},
		{"schedule", leads, h.setupSchedule},
		{"rebalance", leads, func(mgr ctrl.Manager) error { return rebalance.Setup(mgr, h.client, h.options.Clock) }},
		{"render", leads, func(mgr ctrl.Manager) error { return h.setupRender(ctx, mgr, server.TokenKeyID()) }},
		{"evict", leads, h.setupEvict},
		{"leases", leads, h.setupLeases},
		{"taint policies", leads, func(mgr ctrl.Manager) error {
			return taintpolicies.Setup(mgr, taintpolicies.Deps{Client: h.client, Events: h.events, Clock: h.options.Clock})
		}},
		{"deschedule", leads, func(mgr ctrl.Manager) error {
			return deschedule.Setup(mgr, deschedule.Deps{
				Config: tunable.Now(h.options.tuned, func(t *tunable.Options) deschedule.Config { return t.Deschedule }), Client: h.client, Events: h.events, Clock: h.options.Clock, Unplaced: h.unplaced.Visit,
			})
		}},
		{"application failover", leads, func(mgr ctrl.Manager) error {
			return appfailover.Setup(mgr, appfailover.Deps{Client: h.client, Templates: h.templates, Events: h.events, Clock: h.options.Clock, EvictionRate: h.evictions})
		}},
		{"remedies", leads, func(mgr ctrl.Manager) error { return remedy.Setup(mgr, h.client) }},
		{"aggregate", leads, func(mgr ctrl.Manager) error { return h.setupAggregate(ctx, mgr) }},
		{"job-ttl", leads, func(mgr ctrl.Manager) error {
			return jobttl.Setup(mgr, jobttl.Deps{Client: mgr.GetClient(), Templates: h.templates, Clock: h.options.Clock})
		}},
		{"service", leads, func(mgr ctrl.Manager) error { return h.setupService(ctx, mgr) }},
		{"import", leads, func(mgr ctrl.Manager) error { return h.setupImporter(ctx, mgr) }},
		{"autoscaled", leads, func(mgr ctrl.Manager) error {
			return autoscaled.Setup(ctx, mgr, autoscaled.Deps{Client: h.client, Templates: h.templates, Events: h.events})
		}},
		{"enroll", leads, h.setupEnroll},
		{"agents", leads, func(mgr ctrl.Manager) error {
			return agents.Setup(mgr, agents.Deps{Live: mgr.GetAPIReader(), Kube: h.kube})
		}},
		{"agent events", leads, func(mgr ctrl.Manager) error {
			return agentevents.Setup(mgr, agentevents.Deps{Reader: mgr.GetCache(), Events: h.events})
		}},
		{"impersonators", leads, func(mgr ctrl.Manager) error { return enroll.SetupImpersonators(mgr, h.events) }},
		{"history", leads, func(mgr ctrl.Manager) error { return h.setupHistory(ctx, mgr) }},
		{"limit", leads, func(mgr ctrl.Manager) error { return h.limiter.Setup(ctx, mgr) }},
	}
	for _, l := range h.members.Loops(ctx) {
		loops = append(loops, loop{l.Name, t.members, l.Setup})
	}
	if t.shard != nil {
		loops = append(loops,
			loop{"member accounts", leads, func(mgr ctrl.Manager) error { return memberfeed.Setup(mgr, memberfeed.Deps{Fleet: h.fleet}) }},
			loop{"recorded events", leads, h.setupPublisher})
	}
	on := map[string]ctrl.Manager{}
	for _, l := range loops {
		on[l.name] = l.on
		if err := l.setup(o.loops.Loop(l.name).Manager(l.on)); err != nil {
			return nil, fmt.Errorf("setting up %s: %w", l.name, err)
		}
	}
	for name, check := range o.loops.Checks() {
		server.AddLoop(name, controlloop.WhenElected(cmp.Or(on[name], mgr), check))
	}
	synced := &syncedCaches{components: h, done: make(chan struct{})}
	if t.first { // later, the API is served while caches are filled
		server.AddLoop("caches", synced.check)
	}
	if err := o.metrics.Register(fleetmetrics.New(mgr.GetCache(), synced.check)); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	h.setupPreview(server, synced.done)
	if err := h.setupSearch(ctx, mgr); err != nil {
		return nil, fmt.Errorf("setting up search: %w", err)
	}
	if t.lock != nil {
		t.lock.Stand(leader.Candidate{
			Ready: func() error { return errors.Join(synced.check(), t.holdsShard()) },
			CatchUp: func(ctx context.Context) error {
				return errors.Join(t.alone(ctx), leader.CatchUp(ctx, t.caches(server)))
			},
		})
	}
	return synced.done, mgr.Add(synced)
}

// setupBuiltIn runs the controllers of Kubernetes, as long as this server runs the loops.
func (h *components) setupBuiltIn(mgr ctrl.Manager, server *apiserver.Server) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return server.RunControllers(ctx, mgr.GetConfig()) }))
}

// setupPreview has Previews answered: on the caches of the loops, with the loops' own code.
func (h *components) setupPreview(server *apiserver.Server, synced <-chan struct{}) {
	previewer := &previews.Previewer{
		Config: preview.Config{
			Hub: h.mgr.GetClient(), Templates: h.templates, Exclude: h.options.excludes,
			Interpreter: h.interpreter, Customized: h.customized, Scripts: h.scripts,
			Versions: server.Versions(), MayStore: h.limiter.CheckWork, TokenKey: server.TokenKeyID(), Clock: h.options.Clock,
		},
		Evict: h.options.tuned.Evict(), Brake: h.options.tuned.Brake(), Author: previews.AsAuthor(h.asUser), Members: answers.ThroughProxy(h.asUser),
		Manager: h.fleet.ControlPlane().Manager(), Mapper: h.mgr.GetRESTMapper(), Synced: synced, Short: memory.Short,
	}
	h.offer(func() { h.options.previewer.Store(previewer) })
}

// syncedCaches closes done when the caches of the loops are filled.
type syncedCaches struct {
	*components
	done chan struct{}
}

func (s *syncedCaches) check() error {
	select {
	case <-s.done:
		return nil
	default:
		return errors.New("not synced yet")
	}
}

// Start implements manager.Runnable.
func (s *syncedCaches) Start(ctx context.Context) error {
	if err := s.templates.WaitForSync(ctx); err != nil || !s.mgr.GetCache().WaitForCacheSync(ctx) {
		return nil // the manager is ending
	}
	for _, present := range s.offers {
		present()
	}
	close(s.done)
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica has caches.
func (*syncedCaches) NeedLeaderElection() bool { return false }

// traced makes a span of each request, which carries the header traceparent. Nil without a provider.
func traced(provider trace.TracerProvider) transport.WrapperFunc {
	if provider == nil {
		return nil
	}
	return tracing.WrapperFor(provider)
}

func newComponents(ctx context.Context, t *term, server *apiserver.Server, o Options) (*components, error) {
	mgr := t.mgr
	cfg := mgr.GetConfig()
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client for any kind: %w", err)
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client for metadata: %w", err)
	}
	id, err := connections.Identity(ctx, kube)
	if err != nil {
		return nil, err
	}
	way := member.Config{
		Credentials: connections.Credentials(mgr.GetClient()), ControlPlane: ownership.ControlPlane{ID: id},
		// The audit log of a member has it.
		UserAgent:     fmt.Sprintf("flagship/%s (control-plane %s)", version.Get().Version, id),
		AllowLoopback: o.Server.AllowLoopbackMembers, MayWrite: t.mayWrite(), Clock: o.Clock, Loops: o.loops, Wrap: traced(server.TracerProvider()),
		HasWork: hubclient.HasWork(ctx, mgr.GetClient()),
	}
	fleet, err := member.NewFleet(way)
	if err != nil {
		return nil, fmt.Errorf("building the fleet: %w", err)
	}
	scripts, webhooks := declarative.New(), webhook.New(server.ResolveService, o.Server.WebhookRules().DialContext)
	chained, err := interpreter.New(o.Clock, scripts, webhooks)
	if err != nil {
		return nil, err
	}
	templates := hubstore.New(hubstore.Config{
		Metadata: meta, Dynamic: dyn, Clock: o.Clock, Separate: []schema.GroupVersion{resourcev1alpha2.GroupVersion}, InUse: server.InUse,
		Exclude: o.excludes, Short: memory.Short, Loop: o.loops.Loop("template"),
		Discover: func(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
			return discovery.ServerGroupsAndResources(kube.Discovery())
		},
	})
	changes := &interpret.Changes{}
	changes.Subscribe(func(kinds interpret.Kinds) { templates.Touch(kinds) })
	hub, err := hubclient.New(mgr, o.Clock)
	if err != nil {
		return nil, err
	}
	written := hubclient.StoredEvents(kube, o.Clock)
	h := &components{
		mgr:         mgr,
		lock:        t.lock,
		first:       t.first,
		asUser:      server.ConfigAs,
		client:      hub,
		kube:        kube,
		options:     o,
		templates:   templates,
		changes:     changes,
		fleet:       fleet,
		events:      events.Split{Memory: server.Events(), Stored: written},
		written:     written,
		scripts:     scripts,
		webhooks:    webhooks,
		customized:  interpret.Chain(scripts, webhooks),
		interpreter: chained,
		evictions:   eviction.NewRate(tunable.Now(o.tuned, func(t *tunable.Options) float64 { return t.EvictionRate }), o.Clock, o.metrics),
	}
	h.offer(func() { o.templates.Store(templates) })
	if server.TracerProvider() != nil {
		h.linkToRequests()
	}
	h.limiter = limit.New(limit.Deps{
		Limits: tunable.Now(o.tuned, func(t *tunable.Options) limit.Limits { return t.NamespaceLimits }), Stored: server.Namespaces(), StorageSize: server.StorageSize,
		Client: mgr.GetClient(), Events: h.events, Metrics: o.metrics, Clock: o.Clock,
	})
	h.carrier, err = crds.New(crds.Deps{Templates: h.templates, Versions: server.Versions(), Works: mgr.GetClient(), Changes: changes})
	if err != nil {
		return nil, fmt.Errorf("building the carrier of definitions: %w", err)
	}
	h.interpreter = chained.Then(h.carrier.Scale(h.templates.HasScale))
	h.conversion = conversion.Chain(resourceclaims.Adviser{Store: h.templates}, h.carrier)
	h.scheduler = schedule.New(schedule.Deps{Client: hub, Events: h.events, Metrics: o.metrics, Clock: o.Clock, Conversion: h.conversion, NoExecute: o.Tunable.Evict.NoExecute})
	h.offer(func() { o.lookups.components.Store(h) })
	return h, h.newMembers(t, server, way)
}

// linkToRequests has the spans of reconciles link to those of the requests that changed their templates.
func (h *components) linkToRequests() {
	causes := knowledgehistory.NewCauses(h.options.authors)
	bindingOf := func(ref hubstore.Ref) string {
		return ref.Namespace + "/" + workv1alpha2.BindingName(ref.GroupVersionKind.Kind, ref.Name)
	}
	h.templates.Follow(func(ref hubstore.Ref, before, after *metav1.PartialObjectMetadata) {
		if after == nil {
			causes.Deleted(bindingOf(ref))
		} else {
			causes.Changed(bindingOf(ref), knowledgehistory.Change{UID: after.UID, From: before.ResourceVersion})
		}
	})
	h.templates.Subscribe(func(ref hubstore.Ref) {
		if created, ok := h.templates.Meta(ref); ok {
			causes.Created(bindingOf(ref), knowledgehistory.Change{UID: created.UID})
		}
	})
	h.options.loops.Link(causes.Of)
}

// newMembers builds the loops of members. Connections is the configuration of those of the leader.
func (h *components) newMembers(t *term, server *apiserver.Server, connections member.Config) (err error) {
	o := h.options
	deps := members.Deps{
		Settings: members.Settings{
			Brake: o.tuned.Brake(), Periods: o.tuned.Periods(), DegradedAfter: tunable.Now(o.tuned, func(t *tunable.Options) time.Duration { return t.DegradedAfter }),
			NoMemberEvents: o.NoMemberEvents, Clock: o.Clock, Metrics: o.metrics, Loops: o.loops,
		},
		Manager: t.members, Shard: t.shard, Client: h.client, Connections: connections, Fleet: h.fleet, Memory: server.Events(), Stored: h.written,
		Interpreter: h.interpreter, Customized: h.customized, Changes: h.changes, Conversion: h.conversion, Names: h.carrier, Keeps: h.keeps,
		Unplaced: &h.unplaced,
	}
	if t.shard != nil {
		h.peers = &remote.Peers{Server: server, Shard: t.shard}
		deps.Peers = h.peers
	}
	if h.members, err = members.New(deps); err != nil {
		return err
	}
	h.offer(func() { o.guard.Store(h.members.Guard) })
	return nil
}

// setupPublisher publishes the events of members that servers and agents record.
func (h *components) setupPublisher(mgr ctrl.Manager) error {
	if h.options.NoMemberEvents {
		return nil
	}
	_, err := memberevents.SetupPublisher(mgr, mgr.GetClient(), h.events, h.options.Clock, true)
	return err
}

func (h *components) setupPropagate(ctx context.Context, mgr ctrl.Manager) error {
	return propagate.Setup(ctx, mgr, propagate.Deps{
		Client: h.client, Bindings: h.scheduler, Templates: h.templates, Interpreter: h.interpreter, Conversion: h.conversion, Events: h.events, Clock: h.options.Clock,
		HasWorks:   render.HasWorks(h.mgr.GetClient()),
		Customized: propagate.Rules(h.customized),
	})
}

func (h *components) setupNamespaces(ctx context.Context, mgr ctrl.Manager) error {
	return namespaces.Setup(ctx, mgr, namespaces.Deps{Client: h.client, Templates: h.templates, Events: h.events, NewID: uuid.NewString})
}

func (h *components) setupRender(ctx context.Context, mgr ctrl.Manager, tokenKey string) error {
	return render.Setup(ctx, mgr, render.Deps{
		Templates: h.templates, Conversion: h.conversion, TokenKey: tokenKey,
		Interpreter: h.interpreter, Changes: h.changes, Events: h.events, Clock: h.options.Clock, NewID: uuid.NewString,
		Wanted: h.recreates, MayStore: h.limiter.CheckWork, OnSpace: h.limiter.OnSpace, Metrics: h.options.metrics,
		EvictionTimeout: tunable.Now(h.options.tuned, func(t *tunable.Options) time.Duration { return t.GracefulEvictionTimeout }),
	})
}

func (h *components) setupSchedule(mgr ctrl.Manager) error {
	if err := h.scheduler.Setup(mgr); err != nil {
		return err
	}
	answerer := &answers.Answerer{
		Reader: mgr.GetClient(), Templates: h.templates, Scheduler: h.scheduler, Elected: mgr.Elected(),
		Members: answers.ThroughProxy(h.asUser), Kinds: answers.KindsThroughProxy(h.asUser),
		ControlPlane: h.fleet.ControlPlane(), Drift: h.members.Drift, AgentDrift: remote.AgentDrift(h.options.Server.Tunnels),
		Composer: compose.Composer{Interpreter: h.interpreter, Conversion: h.conversion, NewID: uuid.NewString},
	}
	if h.peers != nil {
		answerer.PeerDrift = h.peers.Drift
	}
	h.offer(func() { h.options.answerer.Store(answerer) })
	return nil
}

func (h *components) setupEvict(mgr ctrl.Manager) error {
	return evict.Setup(mgr, evict.Deps{
		Config: h.options.tuned.Evict(), Client: h.client, Templates: h.templates, EvictionRate: h.evictions, Events: h.events,
		Clock: h.options.Clock, Metrics: h.options.metrics,
	})
}

func (h *components) setupLeases(mgr ctrl.Manager) error {
	return clusterstatus.SetupLeases(mgr, clusterstatus.LeaseDeps{
		Serves: h.fleet.Serves, Events: h.events, Clock: h.options.Clock,
		Periods: h.options.tuned.LeasePeriods(),
	})
}

func (h *components) setupAggregate(ctx context.Context, mgr ctrl.Manager) error {
	return aggregate.Setup(ctx, mgr, aggregate.Deps{
		Client: h.client, Templates: resourceclaims.Templates{Store: h.templates}, Statuses: h.interpreter, Changes: h.changes, Events: h.events, Clock: h.options.Clock,
		Conversion: h.conversion, Metadata: h.templates, Metrics: h.options.metrics,
		Customized: func(kind schema.GroupVersionKind) string {
			return h.customized.Fingerprint(kind, configv1alpha1.InterpreterOperationAggregateStatus)
		},
	})
}

func (h *components) setupService(ctx context.Context, mgr ctrl.Manager) error {
	return mcs.Setup(ctx, mgr, mcs.Deps{
		Client: h.client, Templates: h.templates, Events: h.events,
		Metrics: h.options.metrics, Clock: h.options.Clock, Grace: h.options.tuned.ServiceGrace(),
	})
}

func (h *components) setupImporter(ctx context.Context, mgr ctrl.Manager) error {
	return imports.Setup(ctx, mgr, imports.Deps{
		Client: h.client, Templates: h.templates, Fleet: h.fleet, Events: h.events, Clock: h.options.Clock, Grace: h.options.tuned.ServiceGrace(),
	})
}

func (h *components) setupHistory(ctx context.Context, mgr ctrl.Manager) error {
	keeper := history.New(history.Deps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Kube: h.kube, Templates: h.templates, Authors: h.options.authors,
		MayStore: func(namespace string) error { return h.limiter.CheckUser(namespace, true, func() bool { return true }) },
		Clock:    h.options.Clock, Metrics: h.options.metrics,
		Limit:  tunable.Now(h.options.tuned, func(t *tunable.Options) int { return t.HistoryLimit }),
		Period: tunable.Now(h.options.tuned, func(t *tunable.Options) time.Duration { return t.UndeletePeriod }),
	})
	h.offer(func() { h.options.keeper.Store(keeper) })
	return keeper.Setup(ctx, mgr)
}

func (h *components) setupSearch(ctx context.Context, mgr ctrl.Manager) error {
	registries, err := search.Setup(ctx, mgr)
	if err == nil {
		h.offer(func() { h.options.registries.Store(registries) })
	}
	return err
}

func (h *components) setupEnroll(mgr ctrl.Manager) error {
	return enroll.Setup(mgr, enroll.Deps{
		Member: enroll.FromFleet(h.fleet), Renewal: enroll.RenewalFromFleet(h.fleet), ClockAhead: enroll.ClocksOfFleet(h.fleet), ControlPlane: h.fleet.ControlPlane().ID,
		Refresh: h.fleet.Refresh, Events: h.events, Clock: h.options.Clock, NoRenewalTokens: h.options.NoRenewalTokens, Metrics: h.options.metrics,
	})
}
