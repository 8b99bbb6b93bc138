package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/apimachinery/lease"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/customizations"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/clients/finished"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/memberfeed"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
	"github.com/flagship-k8s/flagship/internal/clients/workstatus"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus"
	"github.com/flagship-k8s/flagship/internal/features/crds"
	"github.com/flagship-k8s/flagship/internal/features/mcs/collect"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi"
	"github.com/flagship-k8s/flagship/internal/features/memberevents"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/host/agent/memberproxy"
	"github.com/flagship-k8s/flagship/internal/host/interpreter"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/webhook"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/knowledge/version"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/pipeline/observe"
)

// setupLoops constructs every loop of the agent.
func setupLoops(ctx context.Context, mgr ctrl.Manager, kube kubernetes.Interface, o Options, cluster *clusterv1alpha1.Cluster, own *registration) error {
	loops := controlloop.NewSet(ctrlmetrics.Registry, o.Clock)
	loops.Trace(o.Tracer)
	home, err := own.home(ctx, kube)
	if err != nil {
		return err
	}
	fleet, err := member.NewFleet(member.Config{
		Credentials: credentialsOf(o.Member), ControlPlane: ownership.ControlPlane{ID: home}, Serves: o.serves, Clock: o.Clock, Loops: loops, Wrap: o.traced(),
		UserAgent: fmt.Sprintf("flagship/%s agent (control-plane %s)", version.Get().Version, home), AllowLoopback: true, // the member is its own, by whatever address
		HasWork: hubclient.HasWork(ctx, mgr.GetClient()),
	})
	if err != nil {
		return fmt.Errorf("building the connection to the cluster: %w", err)
	}
	reports, err := workstatus.New(workstatus.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Clock: o.Clock, Loop: loops.Loop("report"),
	})
	if err != nil {
		return fmt.Errorf("building the reporter: %w", err)
	}
	stored := hubclient.StoredEvents(kube, o.Clock)
	// The control plane keeps events of success in its memory, which only its own process writes.
	recorder := events.Split{Memory: events.RecorderFunc(func(events.Event) {}), Stored: stored}

	scripts, webhooks, changes, episodes := declarative.New(), webhook.New(noServices, dial.Rules{AllowLoopback: o.AllowLoopbackWebhooks, Flag: dial.AgentLoopbackFlag}.DialContext), &interpret.Changes{}, drift.New(o.Clock)
	customized := interpret.Chain(scripts, webhooks)
	interpreted, err := interpreter.New(o.Clock, scripts, webhooks)
	if err != nil {
		return err
	}
	loader := customizations.Loader{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Scripts: scripts, Webhooks: webhooks, Changes: changes,
	}
	if err := own.persist(ctx, func() error { return loader.Load(ctx) }); err != nil {
		return fmt.Errorf("reading interpreter customizations: %w", err)
	}
	named, err := crds.NamesFromWorks(ctx, mgr.GetFieldIndexer(), mgr.GetClient())
	if err != nil {
		return err
	}
	definitions, err := crds.NewPolicy(crds.PolicyDeps{Names: named, Works: mgr.GetClient(), Fleet: fleet, Events: recorder, Clock: o.Clock})
	if err != nil {
		return fmt.Errorf("building the policy of definitions: %w", err)
	}
	guard := restore.New(restore.Deps{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Fleet: fleet, Events: recorder, Clock: o.Clock, Metrics: ctrlmetrics.Registry,
		Fingerprints: apply.Fingerprints, Deletes: apply.Deletes,
	})
	proxy, err := memberproxy.New(o.Member, home, o.Clock, episodes)
	if err != nil {
		return fmt.Errorf("building the proxy into the cluster: %w", err)
	}
	behind := tunnel.NewAgent(o.Hub, cluster.Name, proxy, o.Clock, ctrlmetrics.Registry)
	var changed drifted.Publish
	runs := finished.New(interpreted)
	for _, l := range []struct {
		name  string
		setup func(ctrl.Manager) error
	}{
		{"events", func(mgr ctrl.Manager) error { return mgr.Add(controlloop.Restarted(mgr, stored)) }},
		{"heartbeat", func(mgr ctrl.Manager) error { return mgr.Add(heartbeat(kube, o, cluster)) }},
		{"interpret", loader.Setup},
		{"member", func(mgr ctrl.Manager) error { return memberfeed.Setup(mgr, memberfeed.Deps{Fleet: fleet}) }},
		{"schema", func(mgr ctrl.Manager) error { return mgr.Add(definitions) }},
		{"member events", func(mgr ctrl.Manager) (err error) {
			changed, err = setupMemberEvents(mgr, fleet, recorder, o)
			return err
		}},
		{"apply", func(mgr ctrl.Manager) error {
			fleet.OnChange(func(change objectcache.Change) { runs.Changed(ctx, change) }) // before apply, which would create again what ran to its end
			return apply.Setup(mgr, apply.Deps{
				Fleet: fleet, Report: reports, Runs: runs, Events: recorder, Metrics: ctrlmetrics.Registry, Clock: o.Clock, Retain: customized.Retain,
				Retention: customized.Retention, Changes: changes, KindPolicy: definitions, Brake: o.brake, Guard: guard,
				Drifted: changed, Drift: episodes,
			})
		}},
		{"observe", func(mgr ctrl.Manager) error {
			return observe.SetupWorks(mgr, observe.WorkDeps{
				Fleet: fleet, Report: reports, Runs: runs, Interpreter: interpreted, Events: recorder, Clock: o.Clock, DegradedAfter: o.degradedAfter, Changes: changes,
			})
		}},
		{"clusters", func(mgr ctrl.Manager) error {
			return clusterstatus.Setup(mgr, clusterstatus.Deps{
				Fleet: fleet, Events: recorder, Clock: o.Clock, Periods: o.periods,
				NoTaints: true, Metrics: ctrlmetrics.Registry,
			})
		}},
		{"service", func(mgr ctrl.Manager) error { return setupServices(ctx, mgr, fleet, o) }},
		{"restore", func(mgr ctrl.Manager) error { return restore.Setup(mgr, guard) }},
		{"report", func(mgr ctrl.Manager) error { return mgr.Add(reports) }},
		{"tunnel", func(mgr ctrl.Manager) error { return mgr.Add(behind) }},
		{"credential", func(mgr ctrl.Manager) error { return mgr.Add(o.renewal(kube, cluster)) }},
	} {
		if err := l.setup(loops.Loop(l.name).Manager(mgr)); err != nil {
			return fmt.Errorf("setting up %s: %w", l.name, err)
		}
	}
	return addChecks(mgr, loops, behind)
}

// setupServices adds the loops that record the endpoints and the exports of the cluster in Works.
func setupServices(ctx context.Context, mgr ctrl.Manager, fleet *member.Fleet, o Options) error {
	hub, err := hubclient.New(mgr, o.Clock)
	if err != nil {
		return err
	}
	if err := collect.Setup(mgr, collect.Deps{Client: hub, Fleet: fleet, Metrics: ctrlmetrics.Registry, Clock: o.Clock}); err != nil {
		return err
	}
	return mcsapi.Setup(ctx, mgr, mcsapi.Deps{Client: hub, Fleet: fleet, Clock: o.Clock})
}

// setupMemberEvents adds the loop that records the warnings of the cluster about what is propagated, and returns what receives those of apply.
func setupMemberEvents(mgr ctrl.Manager, fleet *member.Fleet, recorder events.Recorder, o Options) (drifted.Publish, error) {
	if o.NoMemberEvents {
		return nil, nil
	}
	hub, err := hubclient.New(mgr, o.Clock)
	if err != nil {
		return nil, err
	}
	collector, err := memberevents.SetupCollector(mgr, memberevents.Deps{
		Works: mgr.GetClient(), Cache: mgr.GetCache(), Fleet: fleet, Report: memberevents.Record(hub), Period: memberevents.RecordPeriod,
		Events: recorder, Metrics: ctrlmetrics.Registry, Clock: o.Clock,
	})
	if err != nil {
		return nil, err
	}
	return collector.Drifted, nil
}

// noServices refuses interpreter webhooks that name a Service: the agent cannot read the EndpointSlices of the control plane.
func noServices(namespace, name string, _ int32) (*url.URL, error) {
	return nil, errors.New("an agent calls interpreter webhooks by their URL only, not by Service " + namespace + "/" + name)
}

// addChecks serves the state of each loop, and whether the tunnel is open.
func addChecks(mgr ctrl.Manager, loops *controlloop.Set, behind *tunnel.Agent) error {
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("adding a health check: %w", err)
	}
	checks := loops.Checks()
	checks["tunnel-open"] = behind.Check
	for name, check := range checks {
		check = controlloop.WhenElected(mgr, check)
		if err := mgr.AddReadyzCheck(name, func(*http.Request) error { return check() }); err != nil {
			return fmt.Errorf("adding the check of the loop %s: %w", name, err)
		}
	}
	return nil
}

// heartbeat renews the Lease of the cluster, by which the control plane recognizes that the agent runs. It also has the version of the agent,
// and when its certificate expires.
func heartbeat(kube kubernetes.Interface, o Options, cluster *clusterv1alpha1.Cluster) manager.Runnable {
	renewer := lease.NewController(o.Clock, kube, cluster.Name, int32(o.LeaseDuration.Seconds()), nil, o.LeaseDuration/4,
		cluster.Name, clusterv1alpha1.ClusterNamespace, func(l *coordinationv1.Lease) error {
			l.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: clusterv1alpha1.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
			}}
			metav1.SetMetaDataAnnotation(&l.ObjectMeta, clusterv1alpha1.AgentVersionAnnotation, version.Get().Version)
			delete(l.Annotations, clusterv1alpha1.AgentCertificateExpiryAnnotation)
			if expiry, known := certificateExpiry(o.Credential); known {
				metav1.SetMetaDataAnnotation(&l.ObjectMeta, clusterv1alpha1.AgentCertificateExpiryAnnotation, expiry.UTC().Format(time.RFC3339))
			}
			return nil
		})
	return manager.RunnableFunc(func(ctx context.Context) error {
		renewer.Run(ctx)
		return nil
	})
}
