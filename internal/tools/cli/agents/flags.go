package agents

import (
	"sync/atomic"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	configurationv1alpha1 "github.com/flagship-k8s/flagship/api/configuration/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/agent"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// agentFlags are the flags of the command agent.
type agentFlags struct {
	options                agent.Options
	tunable                agent.Tunable
	dir, path, contextName string
	traces                 tracingFlags
	kept                   stored
	// verbosity is that of the log.
	verbosity int
}

// groups returns the flags, by subject.
func (s *agentFlags) groups() cliflag.NamedFlagSets {
	var groups cliflag.NamedFlagSets
	f := groups.FlagSet("general")
	settings.AddFlag(f)
	cli.VerbosityFlag(f, &s.verbosity)
	f.StringVar(&s.dir, "data-dir", "", "directory with the credential of the agent (default: agents/CLUSTER in the user's state directory)")
	f.BoolVar(&s.options.LeaderElection, "leader-elect", false, "have only one of several agents of the cluster act; they elect by a Lease in the cluster")
	f = groups.FlagSet("registration")
	f.StringVar(&s.kept.secret, "credential-secret", "", "name of the Secret in the cluster, in the namespace karmada-cluster, that keeps the credential (default: it is kept in --data-dir only)")
	f.StringVar(&s.kept.bootstrap, "bootstrap-kubeconfig", "", "with --credential-secret: the file that 'flagship token create' wrote")
	f = groups.FlagSet("cluster")
	f.StringVar(&s.path, "cluster-kubeconfig", "", "kubeconfig of the cluster (default: the service account of this pod)")
	f.StringVar(&s.contextName, "cluster-context", "", "context in that kubeconfig (default: its current one)")
	f.DurationVar(&s.options.LeaseDuration, "cluster-lease-duration", 0, "how long the lease of the cluster is valid, which is renewed after a quarter of that (default 40s)")
	f.DurationVar(&s.tunable.ProbePeriod, "cluster-probe-period", 0, "how often the cluster's readiness is read (default 10s)")
	f.DurationVar(&s.tunable.FailureThreshold, "cluster-failure-threshold", 0, "how long the cluster is unready before its condition Ready changes (default 30s)")
	f.DurationVar(&s.tunable.SuccessThreshold, "cluster-success-threshold", 0, "how long the cluster is ready again before its condition Ready changes (default 30s)")
	f.DurationVar(&s.tunable.DegradedAfter, "degraded-after", 0, "how long an object is unhealthy before its Work is Degraded (default 1m)")
	f.BoolVar(&s.options.AllowLoopbackWebhooks, "allow-loopback-webhooks", false, "call interpreter webhooks at loopback and link-local addresses, such as those on this machine")
	f.BoolVar(&s.options.NoMemberEvents, "no-member-events", false, "do not report the warnings of the cluster about what is propagated")
	f = groups.FlagSet("monitoring")
	f.StringVar(&s.options.HealthAddress, "health-probe-bind-address", "", "where /healthz and /readyz are served over HTTP, such as :10357 (default: nowhere)")
	f.StringVar(&s.options.MetricsAddress, "metrics-bind-address", "", "where /metrics is served over HTTP, such as :8080 (default: nowhere)")
	f.StringVar(&s.options.ProfilingAddress, "pprof-bind-address", "", "where /debug/pprof is served over HTTP, such as 127.0.0.1:6060 (default: nowhere)")
	s.traces.add(f)
	f = groups.FlagSet("brake")
	f.Float64Var(&s.tunable.Brake.Share, "brake-share", brake.DefaultShare, "share of the objects of the cluster above which removals and shrinkages wait for 'flagship release-brake'; 1 for never")
	f.DurationVar(&s.tunable.Brake.Window, "brake-window", brake.DefaultWindow, "time over which removals and shrinkages are added up")
	f.IntVar(&s.tunable.Brake.Minimum, "brake-minimum", brake.DefaultMinimum, "number of managed objects below which the cluster is not braked")
	return groups
}

// reloader applies changes of the configuration file to what the options return as Tunable, which it sets.
func (s *agentFlags) reloader(flags *pflag.FlagSet) *settings.Reloader {
	var tuned atomic.Pointer[agent.Tunable]
	tuned.Store(&s.tunable)
	s.options.Tunable = func() agent.Tunable { return *tuned.Load() }
	return settings.NewReloader(flags, &configurationv1alpha1.AgentConfiguration{}, clock.RealClock{}, func() (*pflag.FlagSet, func() (func(), error)) {
		next, flags := &agentFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, group := range next.groups().FlagSets {
			flags.AddFlagSet(group)
		}
		return flags, func() (func(), error) {
			return func() {
				cli.SetVerbosity(next.verbosity)
				tuned.Store(&next.tunable)
			}, next.traces.check()
		}
	})
}

// markReloaded marks which fields of the configuration file change while an agent runs: what loops read at each turn.
func markReloaded(f *pflag.FlagSet) {
	settings.Reload(f, "v", "cluster-probe-period", "cluster-failure-threshold", "cluster-success-threshold", "degraded-after", "brake-share", "brake-minimum")
	settings.AtStart(f,
		"data-dir", "leader-elect", "credential-secret", "bootstrap-kubeconfig", "cluster-kubeconfig", "cluster-context", "cluster-lease-duration",
		"allow-loopback-webhooks", "no-member-events", "health-probe-bind-address", "metrics-bind-address", "pprof-bind-address", "tracing-endpoint",
		"tracing-sampling-rate-per-million",
		"brake-window", // what was counted is in parts of it
	)
}
