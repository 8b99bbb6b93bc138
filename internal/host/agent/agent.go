package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/skew"
)

// Tunable are the options that may change while an agent runs.
type Tunable struct {
	// ProbePeriod is how often the readiness of the cluster is read. Default 10 s.
	ProbePeriod time.Duration
	// FailureThreshold and SuccessThreshold are how long the cluster must have been unready, or ready again, before its Ready
	// condition changes. Default 30 s.
	FailureThreshold, SuccessThreshold time.Duration
	// DegradedAfter is how long an object may be unhealthy before its Work is Degraded. Default 1 min.
	DegradedAfter time.Duration
	// Brake configures how many objects may be removed or scaled down at once before a person has to release them. Its Window does not
	// change.
	Brake brake.Config
}

func (o Options) brake() brake.Config { return o.Tunable().Brake }

func (o Options) degradedAfter() time.Duration {
	return cmp.Or(o.Tunable().DegradedAfter, time.Minute)
}

func (o Options) periods() clusterstatus.Periods {
	t := o.Tunable()
	return clusterstatus.Periods{
		Probe: cmp.Or(t.ProbePeriod, 10*time.Second), Failure: cmp.Or(t.FailureThreshold, 30*time.Second), Success: cmp.Or(t.SuccessThreshold, 30*time.Second),
	}
}

// Options are which cluster an agent serves and how. Cluster, Hub, Member and Tunable are required.
type Options struct {
	// Cluster is the name of the Cluster on the control plane.
	Cluster string
	// Hub leads to the control plane as the agent. A certificate in files is read again when the files change.
	Hub *rest.Config
	// Credential is the file that has the certificate and the key of Hub. The agent renews it.
	Credential string
	// Shared is where replicas of the agent share the content of that file. It may be nil.
	Shared credential.Shared
	// Member leads to the cluster, with the rights that the control plane shall have there.
	Member *rest.Config

	// HealthAddress serves /healthz and /readyz, MetricsAddress /metrics, ProfilingAddress /debug/pprof, over HTTP; empty serves nothing.
	HealthAddress, MetricsAddress, ProfilingAddress string

	// LeaseDuration is for how long the Lease of the cluster is valid; it is renewed after a quarter of that. Default 40 s.
	LeaseDuration time.Duration
	// Tunable returns what may change while the agent runs; it is called at each turn of a loop. Required.
	Tunable func() Tunable
	// LeaderElection has only one of several replicas of the agent act. They elect by a Lease in the cluster.
	LeaderElection bool
	// Collectors are served with the metrics.
	Collectors []prometheus.Collector

	// Tracer makes the spans of reconciles and of requests. Nil: there are none.
	Tracer trace.TracerProvider
	// AllowLoopbackWebhooks calls interpreter webhooks at loopback and link-local addresses, too.
	AllowLoopbackWebhooks bool
	// NoMemberEvents does not report the warnings of the cluster.
	NoMemberEvents bool
	// Clock is the real one by default.
	Clock clock.WithTickerAndDelayedExecution
}

func (o Options) complete() (Options, error) {
	if o.Cluster == "" || o.Hub == nil || o.Member == nil || o.Tunable == nil {
		return o, errors.New("an agent needs the name of its cluster, the way to the control plane, the way to the cluster and its settings")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.LeaseDuration = cmp.Or(o.LeaseDuration, 40*time.Second)
	return o, nil
}

// Run runs an agent. It returns nil when ctx is done, and an error if a part of it fails, or if the control plane
// does not accept it: another attempt would fail, too. It waits for a control plane that cannot be reached.
func Run(ctx context.Context, o Options) error {
	o, err := o.complete()
	if err != nil {
		return err
	}
	for _, collector := range o.Collectors {
		if err := ctrlmetrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	o.Hub, o.Member = unlimited(o.Hub), unlimited(o.Member)
	if wrap := o.traced(); wrap != nil {
		o.Hub.Wrap(wrap)
	}
	// What the agent compares with its time is from the control plane or its users, such as until when the brake is released, and what it
	// writes is compared there.
	now := &skew.Corrected{WithTickerAndDelayedExecution: o.Clock}
	o.Hub.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return now.Wrap(next, func(ahead time.Duration) {
			log.FromContext(ctx).Info("The clock of the control plane differs; its time is used", "ahead", ahead)
		})
	})
	o.Clock = now
	kube, err := kubernetes.NewForConfig(o.Hub)
	if err != nil {
		return fmt.Errorf("building a client for the control plane: %w", err)
	}
	own := newRegistration(o)
	var mgr ctrl.Manager
	err = own.persist(ctx, func() error { // it reads which kinds are served
		mgr, err = newManager(o, own.watchFailed)
		return err
	})
	var cluster *clusterv1alpha1.Cluster
	if err == nil {
		own.hub = mgr.GetAPIReader()
		cluster, err = own.await(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // What was interrupted by the end is no failure.
	}
	if err != nil {
		return err
	}
	if err := own.watch(ctx, mgr, cluster.UID); err != nil {
		return err
	}
	err = setupLoops(ctx, mgr, kube, o, cluster, own)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // What was interrupted by the end is no failure.
	}
	if err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the agent of cluster %s: %w", o.Cluster, err)
	}
	return nil
}

// traced makes a span of each request. Nil without a tracer.
func (o Options) traced() transport.WrapperFunc {
	if o.Tracer == nil {
		return nil
	}
	return tracing.WrapperFor(o.Tracer)
}

// unlimited is a configuration without a limit of requests of its own: the other side has one.
func unlimited(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = -1, -1
	return cfg
}

// renewal renews the certificate of the agent. Without a file of its own the configuration is renewed by others.
func (o Options) renewal(kube kubernetes.Interface, cluster *clusterv1alpha1.Cluster) manager.Runnable {
	if o.Credential == "" {
		return manager.RunnableFunc(func(context.Context) error { return nil })
	}
	return &credential.Renewal{Kube: kube, Cluster: cluster.Name, UID: cluster.UID, File: o.Credential, Shared: o.Shared, Clock: o.Clock}
}

// serves returns whether a Cluster is that of the agent, which acts only for as long as its Cluster is in Pull mode.
func (o Options) serves(cluster *clusterv1alpha1.Cluster) bool {
	return cluster.Name == o.Cluster && cluster.Spec.SyncMode == clusterv1alpha1.Pull
}
