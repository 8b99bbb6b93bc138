package controlplane

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
	"github.com/flagship-k8s/flagship/internal/features/history"
	"github.com/flagship-k8s/flagship/internal/features/limit"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/features/search"
	"github.com/flagship-k8s/flagship/internal/host/admission"
	agentadmission "github.com/flagship-k8s/flagship/internal/host/admission/agents"
	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/access"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	searchserver "github.com/flagship-k8s/flagship/internal/host/apiserver/search"
	"github.com/flagship-k8s/flagship/internal/host/authorization"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/answers"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/answers/previews"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/exposition"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/tunable"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/usersfirst"
	"github.com/flagship-k8s/flagship/internal/host/memory"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	knowledgehistory "github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// Server is how to serve the API and where to keep it; see package apiserver.
type Server = apiserver.Config

// Audit is what is recorded of requests.
type Audit = access.Audit

// Authentication is who else is known, besides holders of certificates and service accounts.
type Authentication = access.Authentication

// ExternalEtcd is how to reach an etcd cluster that runs elsewhere.
type ExternalEtcd = etcd.External

// Options say how to run a control plane. Only DataDir is required.
type Options struct {
	Server Server
	// LeaderElection has only one of several control planes on one storage run the loops; see package leader. The others serve the API.
	// One that loses the lease stops its loops and serves the API, too.
	LeaderElection bool
	// ShardMembers has each of several control planes with LeaderElection connect to a share of the members, instead of the leader to all;
	// see package sharding. All of them must have the same value.
	ShardMembers bool

	// Tunable are those at the start.
	Tunable tunable.Options

	// SkippedNamespaces match the names of namespaces that stay on the control plane with everything in them, besides those of
	// Kubernetes and of the control plane. What was sent before stays in the members.
	SkippedNamespaces []*regexp.Regexp

	// NoMemberEvents does not show the warnings of members on templates.
	NoMemberEvents bool
	// NoRenewalTokens keeps no tokens without expiry of members, which renew expired credentials, and revokes those that are
	// kept.
	NoRenewalTokens bool

	// AllowNoExecuteTaintPolicy accepts ClusterTaintPolicies with taints that evict.
	AllowNoExecuteTaintPolicy bool

	// Clock is the real one by default.
	Clock clock.WithTickerAndDelayedExecution

	// Collectors are served with the metrics of the process.
	Collectors []prometheus.Collector

	// tuned is Tunable as it is now.
	tuned   *tunable.Current
	lookups *admissionLookups
	// answerer answers Explanations and DriftReports; nil until the loops are built.
	answerer *atomic.Pointer[answers.Answerer]
	// previewer answers Previews; nil until the loops are built.
	previewer *atomic.Pointer[previews.Previewer]
	// keeper answers Histories; nil until the loops are built.
	keeper *atomic.Pointer[history.Keeper]
	// authors are who requested changes, for the history.
	authors *knowledgehistory.Authors
	// registries select what the search API reads; nil until the loops are built.
	registries *atomic.Pointer[search.Registries]
	// guard answers the pages of package restore; nil until the loops are built.
	guard *atomic.Pointer[restore.Guard]

	// term is the present one; nil with one server. memberTerm is that of the loops of members if servers share these.
	term, memberTerm *atomic.Pointer[leader.Term]
	// templates are those of the present term, which storage notifies of kinds that come into use.
	templates *atomic.Pointer[hubstore.Store]

	// metrics are those of the control plane itself: of the process, and in a term of the loops of the term.
	metrics *prometheus.Registry
	// termMetrics are those of the present term.
	termMetrics *atomic.Pointer[prometheus.Registry]
	// limiter bounds the reconciles of all terms.
	limiter *controlloop.Limiter
	// loops are the control loops, for metrics and /readyz.
	loops *controlloop.Set
}

// answered is a method of an answerer that does not exist before the loops are built.
func answered[Answerer, Spec, Status any](answerer *atomic.Pointer[Answerer], answer func(*Answerer, context.Context, Spec, user.Info, func(explain.Right) bool) (Status, error)) func(context.Context, Spec, user.Info, func(explain.Right) bool) (Status, error) {
	return func(ctx context.Context, spec Spec, author user.Info, may func(explain.Right) bool) (status Status, err error) {
		a := answerer.Load()
		if a == nil {
			return status, apierrors.NewServiceUnavailable(errStarting.Error())
		}
		return answer(a, ctx, spec, author, may)
	}
}

func (o Options) complete() Options {
	o.Server.Role = apiserver.Hub
	o.ShardMembers = o.ShardMembers && o.LeaderElection
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.Server.Clock = o.Clock
	o.lookups, o.guard, o.answerer = &admissionLookups{}, &atomic.Pointer[restore.Guard]{}, &atomic.Pointer[answers.Answerer]{}
	o.previewer = &atomic.Pointer[previews.Previewer]{}
	o.templates, o.term, o.memberTerm = &atomic.Pointer[hubstore.Store]{}, &atomic.Pointer[leader.Term]{}, &atomic.Pointer[leader.Term]{}
	o.keeper, o.authors = &atomic.Pointer[history.Keeper]{}, &knowledgehistory.Authors{}
	o.answerHistory()
	o.Server.Answers.Explain = answered(o.answerer, (*answers.Answerer).Explain)
	o.Server.Answers.Drift = answered(o.answerer, (*answers.Answerer).DriftReport)
	o.Server.Answers.Preview = answered(o.previewer, (*previews.Previewer).Preview)
	o.registries = &atomic.Pointer[search.Registries]{}
	o.Server.Admission = append(o.Server.Admission,
		access.AdmissionPlugin{Name: "Flagship", Handler: admission.New(admission.Config{
			NewID: uuid.NewString, AllowNoExecuteTaintPolicy: o.AllowNoExecuteTaintPolicy, Publish: o.lookups.publish,
			ReplicasUnknown: o.lookups.replicasUnknown,
			Endpoints: func(ctx context.Context, namespace, name string) bool {
				return o.convertsAt(namespace, name) || o.lookups.hasEndpoints(ctx, namespace, name)
			},
			Never: func(kind schema.GroupVersionKind, namespace, name string) bool {
				return neverTemplate(kind, namespace, name) || o.excludes(hubstore.Ref{GroupVersionKind: kind, Namespace: namespace, Name: name})
			},
		})},
		access.AdmissionPlugin{Name: admission.BindingsName, Handler: admission.NewBindings(neverTemplate)},
		access.AdmissionPlugin{Name: admission.ReachName, Handler: admission.NewReach()},
		access.AdmissionPlugin{Name: admission.DefinitionsName, Handler: admission.NewDefinitions(o.lookups.instances, admission.DefaultPatience)},
		access.AdmissionPlugin{Name: admission.APIServicesName, Handler: admission.NewAPIServices(o.lookups.propagatedAPI)},
		access.AdmissionPlugin{Name: admission.DeletionsName, Handler: admission.NewDeletions(o.lookups.cluster, o.lookups.keeps, o.lookups.waits)},
		access.AdmissionPlugin{Name: agentadmission.Name, Handler: agentadmission.New(o.lookups.tokenCluster, o.lookups.issuedWith)},
		access.AdmissionPlugin{Name: admission.LimitsName, Handler: admission.NewLimits(o.lookups.mayStore, o.lookups.mayRecord, limit.ValidateAnnotations)},
		access.AdmissionPlugin{Name: admission.DerivedName, Handler: admission.NewDerived(o.lookups.withdraw)}, // after those that refuse
		access.AdmissionPlugin{Name: admission.AuthorsName, Handler: admission.NewAuthors(o.authors)},
	)
	o.limiter, o.Server.Front = usersfirst.New(o.Clock)
	if o.LeaderElection {
		o.Server.Front = func(next http.Handler) http.Handler { return usersfirst.Handler(o.limiter, leader.Mark(next)) }
		o.Server.Admission = append(o.Server.Admission, access.AdmissionPlugin{Name: leader.AdmissionName, Handler: leader.NewAdmission(o.term, o.memberTerm)})
	}
	o.Server.Authorizer = authorization.NewAgents(authorization.Lookups{
		Cluster: o.lookups.cluster, TokenCluster: o.lookups.tokenCluster, IssuedWith: o.lookups.issuedWith,
		HoldsCredential: o.lookups.holdsCredential,
	})
	o.metrics, o.termMetrics = prometheus.NewRegistry(), &atomic.Pointer[prometheus.Registry]{}
	o.Server.Search = searchserver.Config{Metrics: o.metrics, Short: memory.Short, Registries: func() searchserver.Registries {
		if registries := o.registries.Load(); registries != nil {
			return registries
		}
		return nil
	}}
	server := ""
	if o.Server.ExternalEtcd != nil { // other servers may use it, too
		server = uuid.NewString()
	}
	o.Server.Tunnels = tunnel.NewTunnels(server, o.Clock, o.metrics)
	o.Server.Pages = o.pages()
	o.Tunable = o.Tunable.Complete()
	o.tuned = tunable.NewCurrent(o.Tunable)
	return o
}

// pages are those beside the API.
func (o Options) pages() map[string]http.Handler {
	pages := maps.Clone(o.Server.Pages)
	if pages == nil {
		pages = map[string]http.Handler{}
	}
	for path, handler := range exposition.Pages(o.gatherer()) {
		pages[path] = handler
	}
	for _, path := range []string{restore.OrphansPath, restore.StatusPath} {
		pages[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			guard := o.guard.Load()
			if guard == nil {
				http.Error(w, "the control plane is starting", http.StatusServiceUnavailable)
				return
			}
			if !o.ShardMembers && o.term.Load().Check() != nil { // it has no connections to members
				http.Error(w, "members are compared by the server that runs the control loops, and this is another one: send the request to that one", http.StatusServiceUnavailable)
				return
			}
			guard.Pages()[path].ServeHTTP(w, r)
		})
	}
	if o.ShardMembers {
		pages[drift.Path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h, err := o.lookups.started()
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			h.peers.DriftPage(h.members.Drift).ServeHTTP(w, r)
		})
	}
	return pages
}

// gatherer has the metrics of the process and those of the present term.
func (o *Options) gatherer() prometheus.Gatherer {
	process, term := o.metrics, o.termMetrics
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all := prometheus.Gatherers{process}
		if registry := term.Load(); registry != nil {
			all = append(all, registry)
		}
		return all.Gather()
	})
}

// answerHistory has the keeper of revisions answer, once it is built.
func (o *Options) answerHistory() {
	started := func() (*history.Keeper, error) {
		if keeper := o.keeper.Load(); keeper != nil {
			return keeper, nil
		}
		return nil, apierrors.NewServiceUnavailable(errStarting.Error())
	}
	o.Server.Answers.History = func(ctx context.Context, spec fleetv1alpha1.HistorySpec, may func(explain.Right) bool) (status fleetv1alpha1.HistoryStatus, err error) {
		keeper, err := started()
		if err != nil {
			return status, err
		}
		return keeper.Answer(ctx, spec, may)
	}
	o.Server.Answers.Undelete = func(ctx context.Context, spec fleetv1alpha1.UndeletionSpec, may func(explain.Right) bool) (status fleetv1alpha1.UndeletionStatus, err error) {
		keeper, err := started()
		if err != nil {
			return status, err
		}
		return keeper.Undelete(ctx, spec, may)
	}
	o.Server.Answers.Timeline = func(ctx context.Context, spec fleetv1alpha1.TimelineSpec, may func(explain.Right) bool) (status fleetv1alpha1.TimelineStatus, err error) {
		keeper, err := started()
		if err != nil {
			return status, err
		}
		return keeper.Timeline(ctx, spec, may)
	}
}

// convertsAt returns whether a flag has the address of a Service for conversions.
func (o Options) convertsAt(namespace, name string) bool {
	for service := range o.Server.ConversionServices { // with a port or without
		if of, _, _ := strings.Cut(service, ":"); of == namespace+"/"+name {
			return true
		}
	}
	return false
}

// skips returns whether the user keeps a namespace on the control plane.
func (o Options) skips(namespace string) bool {
	return namespace != "" && slices.ContainsFunc(o.SkippedNamespaces, func(pattern *regexp.Regexp) bool { return pattern.MatchString(namespace) })
}

// excludes returns whether an object is not a template because the user keeps its namespace, or it as a namespace, on the control plane.
func (o Options) excludes(ref hubstore.Ref) bool {
	return o.skips(ref.Namespace) || ref == hubstore.NamespaceRef(ref.Name) && o.skips(ref.Name)
}

// neverTemplate returns whether an object must not be named by a binding.
func neverTemplate(kind schema.GroupVersionKind, namespace, name string) bool {
	return hubstore.Excluded(hubstore.Ref{GroupVersionKind: kind, Namespace: namespace, Name: name})
}

// Tune has the loops go on with other values, from their next turn on.
func (h *Hub) Tune(t tunable.Options) { h.options.tuned.Set(t) }
