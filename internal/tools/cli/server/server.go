package server

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/utils/clock"

	configurationv1alpha1 "github.com/flagship-k8s/flagship/api/configuration/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/controlplane"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/tunable"
	"github.com/flagship-k8s/flagship/internal/host/memory"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/backup"
	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// defaultServerPort is where the control plane listens by default.
const defaultServerPort = 6443

// serverFlags are the flags of the command server.
type serverFlags struct {
	options  controlplane.Options
	etcd     controlplane.ExternalEtcd
	storage  storageFlags
	skipped  []string
	undelete time.Duration
	// verbosity is that of the log.
	verbosity int
}

// groups returns the flags, by subject.
func (s *serverFlags) groups() cliflag.NamedFlagSets {
	var groups cliflag.NamedFlagSets
	o := &s.options
	generalFlags(groups.FlagSet("general"), o)
	cli.VerbosityFlag(groups.FlagSet("general"), &s.verbosity)
	backup.EtcdFlags(groups.FlagSet("storage"), &s.etcd)
	s.storage.add(groups.FlagSet("storage"))
	encryptionFlags(groups.FlagSet("encryption"), o)
	auditFlags(groups.FlagSet("audit"), &o.Server.Audit)
	authenticationFlags(groups.FlagSet("authentication"), &o.Server.Authentication)
	memberFlags(groups.FlagSet("members"), o, &s.skipped)
	failoverFlags(groups.FlagSet("failover"), o)
	descheduleFlags(groups.FlagSet("descheduling"), &o.Tunable)
	historyFlags(groups.FlagSet("history"), &o.Tunable, &s.undelete)
	brakeFlags(groups.FlagSet("brake"), &o.Tunable)
	settings.AddFlag(groups.FlagSet("general"))
	return groups
}

// flagSet returns all flags as one set.
func (s *serverFlags) flagSet() *pflag.FlagSet {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, group := range s.groups().FlagSets {
		all.AddFlagSet(group)
	}
	return all
}

// complete sets the options that follow from flags of other types, or returns an error of use.
func (s *serverFlags) complete() (err error) {
	o := &s.options
	if err := s.storage.apply(o); err != nil {
		return err
	}
	if o.SkippedNamespaces, err = namespacePatterns(s.skipped); err != nil {
		return err
	}
	o.Tunable.UndeletePeriod = cmp.Or(max(s.undelete, 0), -1)
	if mode := o.Tunable.Evict.PurgeMode; mode != policyv1alpha1.PurgeModeGracefully && mode != policyv1alpha1.PurgeModeDirectly {
		return cli.UsageErrorf("--no-execute-taint-eviction-purge-mode must be Gracefully or Directly, not %q", mode)
	}
	return nil
}

// reloader applies changes of the configuration file to the control plane that hub returns.
func (s *serverFlags) reloader(flags *pflag.FlagSet, hub func() *controlplane.Hub) *settings.Reloader {
	return settings.NewReloader(flags, &configurationv1alpha1.ServerConfiguration{}, clock.RealClock{}, func() (*pflag.FlagSet, func() (func(), error)) {
		next := &serverFlags{}
		return next.flagSet(), func() (func(), error) {
			return func() {
				cli.SetVerbosity(next.verbosity)
				hub().Tune(next.options.Tunable)
			}, next.complete()
		}
	})
}

func newServerCommand(s cli.Streams) *cobra.Command {
	f := &serverFlags{}
	c := &cobra.Command{
		Use:   "server",
		Short: "Run the control plane alone",
		Long: `Runs the control plane: API server, storage, scheduler and controllers, in this process, until SIGINT or SIGTERM.

Storage is an embedded etcd in the data directory, or an external etcd cluster with --etcd-servers, or with the file etcd.json
that 'flagship restore' writes into the data directory. Several servers on one etcd cluster share the files in DIR/pki and elect a leader for the controllers; put any TCP load balancer in front of them.

It listens on 127.0.0.1, for clients on this machine, unless --bind-address is given.

Each flag may also be set in the file of --config, a ServerConfiguration, and in the environment: --bind-address is
bindAddress in the file and FLAGSHIP_BIND_ADDRESS in the environment. A flag wins over the environment, and the
environment over the file.`,
		Example: `  flagship server --data-dir /var/lib/flagship
  flagship server --data-dir /var/lib/flagship --bind-address 0.0.0.0
  flagship server --config /etc/flagship/server.yaml
  flagship server --bind-address 0.0.0.0 --etcd-servers https://etcd1:2379,https://etcd2:2379 --etcd-cafile ca.crt --etcd-certfile c.crt --etcd-keyfile c.key`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := settings.Apply(c.Flags(), &configurationv1alpha1.ServerConfiguration{}, os.LookupEnv); err != nil {
				return err
			}
			o := &f.options
			if err := cli.DefaultDir(&o.Server.DataDir); err != nil {
				return err
			}
			if err := f.complete(); err != nil {
				return err
			}
			var err error
			if o.Server.ExternalEtcd, err = backup.ExternalEtcd(o.Server.DataDir, f.etcd); err != nil {
				return err
			}
			if o.LeaderElection = o.Server.ExternalEtcd != nil; o.ShardMembers && !o.LeaderElection {
				return cli.UsageErrorf("--shard-members needs --etcd-servers: members are shared by several servers on one etcd cluster")
			}
			cli.LogTo(s.Err)
			cli.SetVerbosity(f.verbosity)
			var h *controlplane.Hub
			reloader := f.reloader(c.Flags(), func() *controlplane.Hub { return h })
			o.Collectors = reloader.Collectors()
			if h, err = controlplane.Start(c.Context(), *o); err != nil {
				return err
			}
			defer reloader.Start(c.Context())()
			defer memory.Adapt(c.Context())()
			kubeconfig := filepath.Join(o.Server.DataDir, cli.HubKubeconfig)
			if err := h.WriteKubeconfig(kubeconfig); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "Flagship is ready at %s: export KUBECONFIG=%s\n", h.URL(), kubeconfig)
			printListening(s.Out, o.Server.BindAddress, o.Server.Port)
			return h.Wait()
		},
	}
	groups := f.groups()
	settings.AddGroups(c, groups)
	markReloaded(c.Flags())
	return c
}

func generalFlags(f *pflag.FlagSet, o *controlplane.Options) {
	f.StringVar(&o.Server.DataDir, "data-dir", "", "where state, keys and the kubeconfig are kept (default: flagship in the user's state directory)")
	f.StringVar(&o.Server.Name, "name", "flagship", "name of the cluster, the user and the context in kubeconfigs of the control plane, which distinguishes them from those of others")
	f.StringVar(&o.Server.BindAddress, "bind-address", "127.0.0.1", "IP address to listen on; the default is for clients on this machine, 0.0.0.0 is every address of it")
	f.IntVar(&o.Server.Port, "port", defaultServerPort, "port to listen on")
	f.StringVar(&o.Server.AdvertiseAddress, "advertise-address", "", "IP address that goes into kubeconfigs (default: that of --bind-address, or one of this machine if that is 0.0.0.0)")
	f.StringSliceVar(&o.Server.ServerNames, "tls-san", nil, "further DNS names and IP addresses for the serving certificate")
	f.BoolVar(&o.Server.Profiling, "profiling", false, "serve /debug/pprof to administrators")
	f.StringVar(&o.Server.TracingConfigFile, "tracing-config-file", "", "TracingConfiguration, as for kube-apiserver: where traces of requests and of the loops are sent, and how many (default: nowhere)")
}

// encryptionFlags configure how Secrets are stored.
func encryptionFlags(f *pflag.FlagSet, o *controlplane.Options) {
	f.BoolVar(&o.Server.PlainSecrets, "plain-secrets", false, "store Secrets, and what holds parts of them, unencrypted")
	f.StringVar(&o.Server.EncryptionConfig, "encryption-provider-config", "", "EncryptionConfiguration to load instead of the built-in one, as for kube-apiserver; KMS plugins are possible (start from encryption.yaml in the data directory, which reads what is stored)")
	f.BoolVar(&o.Server.EncryptionConfigReload, "encryption-provider-config-automatic-reload", false, "load the file of --encryption-provider-config again when it changes")
}

// memberFlags configure connections to members, and when a member is healthy.
func memberFlags(f *pflag.FlagSet, o *controlplane.Options, skipped *[]string) {
	f.BoolVar(&o.Server.AllowLoopbackMembers, "allow-loopback-members", false, "connect to members, and call webhooks, at loopback and link-local addresses, such as those on this machine")
	f.BoolVar(&o.ShardMembers, "shard-members", false, "of several servers on one etcd cluster, have each connect to a share of the members in Push mode, instead of the leader to all; set it on all of them")
	f.StringToStringVar(&o.Server.ConversionServices, "conversion-service", nil, "the address of a Service that conversion or interpreter webhooks name, as NAMESPACE/NAME[:PORT]=HOST:PORT (default: looked up by its EndpointSlices; may be given again)")
	f.StringSliceVar(skipped, "skipped-propagating-namespaces", nil, "regular expressions; namespaces whose whole name matches one stay on the control plane with everything in them, as kube-*, karmada-system, karmada-cluster and karmada-es-* always do")
	f.BoolVar(&o.NoRenewalTokens, "no-renewal-tokens", false, "keep no service account tokens without expiry of members, which renew credentials that expired while a member was unreachable or the control plane stopped; revokes those that are kept")
	f.BoolVar(&o.NoMemberEvents, "no-member-events", false, "do not show the warnings of members about what is propagated as events of the templates")
	f.DurationVar(&o.Tunable.ProbePeriod, "cluster-probe-period", 0, "how often the health of a member is probed (default 10s)")
	f.DurationVar(&o.Tunable.FailureThreshold, "cluster-failure-threshold", 0, "how long a member is unhealthy before its condition Ready changes (default 30s)")
	f.DurationVar(&o.Tunable.SuccessThreshold, "cluster-success-threshold", 0, "how long a member is healthy again before its condition Ready changes (default 30s)")
	f.DurationVar(&o.Tunable.LeasePeriod, "cluster-monitor-period", 0, "how often the lease of a member's agent is checked (default 5s)")
	f.DurationVar(&o.Tunable.LeaseGrace, "cluster-monitor-grace-period", 0, "how long after its last heartbeat the status of an agent's cluster becomes unknown (default 40s)")
	f.DurationVar(&o.Tunable.StartupGrace, "cluster-startup-grace-period", 0, "the same for an agent that has never reported (default 1m)")
	f.DurationVar(&o.Tunable.DegradedAfter, "degraded-after", 0, "how long an object is unhealthy before its Work is Degraded (default 1m)")
	f.DurationVar(&o.Tunable.ServiceGrace, "service-grace", 0, "how long the endpoints of a member that is not ready keep counting in others (default 5m)")
}

// descheduleFlags configure when replicas that cannot run move.
func descheduleFlags(f *pflag.FlagSet, o *tunable.Options) {
	f.DurationVar(&o.Deschedule.Interval, "descheduling-interval", 0, "how often the pods of members are checked for replicas that cannot run, of policies with the annotation flagship.io/deschedule (default 1m)")
	f.DurationVar(&o.Deschedule.Threshold, "unschedulable-threshold", 0, "how long a pod is unschedulable before its replica moves (default 5m)")
}

// brakeFlags configure when removals wait for a person.
func brakeFlags(f *pflag.FlagSet, o *tunable.Options) {
	f.Float64Var(&o.Brake.Share, "brake-share", brake.DefaultShare, "share of a member's objects, or of all members' together, above which removals and shrinkages wait for 'flagship release-brake'; 1 for never")
	f.DurationVar(&o.Brake.Window, "brake-window", brake.DefaultWindow, "time over which removals and shrinkages are added up")
	f.IntVar(&o.Brake.Minimum, "brake-minimum", brake.DefaultMinimum, "number of managed objects below which a member is not braked")
}

// historyFlags configure what is kept of what templates were. Undelete is Tunable.UndeletePeriod, where 0 keeps none.
func historyFlags(f *pflag.FlagSet, o *tunable.Options, undelete *time.Duration) {
	f.IntVar(&o.HistoryLimit, "history-limit", tunable.DefaultHistoryLimit, "revisions that are kept of a template without a field revisionHistoryLimit, for 'flagship history' and 'flagship undo'; a negative number records nothing")
	f.DurationVar(undelete, "undelete-period", tunable.DefaultUndeletePeriod, "how long templates that were deleted can be brought back with 'flagship undelete'; 0 keeps none")
}

// failoverFlags configure when objects leave clusters that fail. Those of taints are those of Karmada; the rates and thresholds are those that
// kube-controller-manager has for nodes.
func failoverFlags(f *pflag.FlagSet, o *controlplane.Options) {
	e := &o.Tunable.Evict
	f.DurationVar(&o.Tunable.GracefulEvictionTimeout, "graceful-eviction-timeout", 0,
		"how long a copy stays at the old place while the copy at the new one is not healthy (default 10m)")
	f.BoolVar(&o.AllowNoExecuteTaintPolicy, "allow-no-execute-taint-policy", false, "accept ClusterTaintPolicies with the effect NoExecute, which evicts what runs in a cluster")
	f.Float64Var(&o.Tunable.EvictionRate, "resource-eviction-rate", eviction.DefaultRate, "copies of objects that leave clusters each second, after twice as many at once, by cluster failover and application failover together")
	f.BoolVar(&e.NoExecute, "enable-no-execute-taint-eviction", false, "NoExecute taints of clusters evict all objects; without it, those whose policy has spec.failover.cluster")
	f.StringVar((*string)(&e.PurgeMode), "no-execute-taint-eviction-purge-mode", string(policyv1alpha1.PurgeModeGracefully), "how the copies of objects are removed whose policy lacks spec.failover.cluster: Gracefully or Directly")
	f.DurationVar(&e.Grace, "cluster-failover-grace-period", 0, "how long objects with spec.failover.cluster stay in a cluster that is not ready, if their policy does not tolerate it for another time (default 30s)")
	f.Float64Var(&e.Rate, "cluster-eviction-rate", 0, "clusters of a zone per second from which evictions begin (default 0.1)")
	f.Float64Var(&e.SecondaryRate, "secondary-cluster-eviction-rate", 0, "the same in a large zone that is unhealthy (default 0.01)")
	f.Float64Var(&e.UnhealthyZone, "unhealthy-zone-threshold", 0, "share of the clusters of a zone that are not ready above which the zone is unhealthy, from three clusters on (default 0.55)")
	f.IntVar(&e.LargeZone, "large-zone-size-threshold", 0, "clusters up to which an unhealthy zone has no evictions at all (default 50)")
	f.Float64Var(&e.Share, "eviction-share", 0, "share of all clusters from which objects may be evicted at the same time; above it, further clusters wait for a person (default 0.5)")
	f.DurationVar(&e.Observation, "failover-observation-period", 0, "how long the control plane observes the clusters after a start or a gap in its clock before it evicts from any that is not ready (default 1m)")
}

// namespacePatterns compiles regular expressions that whole names match, as the flag has them in Karmada.
func namespacePatterns(expressions []string) ([]*regexp.Regexp, error) {
	var patterns []*regexp.Regexp
	for _, expression := range expressions {
		pattern, err := regexp.Compile("^(?:" + expression + ")$")
		if err != nil {
			return nil, cli.UsageErrorf("--skipped-propagating-namespaces: %v", err)
		}
		patterns = append(patterns, pattern)
	}
	return patterns, nil
}

// printListening prints where the server listens and, if clients on other machines cannot reach it, the flag that changes that.
func printListening(out io.Writer, address string, port int) {
	fmt.Fprintf(out, "It listens on %s\n", net.JoinHostPort(address, strconv.Itoa(port)))
	if ip := net.ParseIP(address); ip != nil && ip.IsLoopback() {
		fmt.Fprintln(out, "Only clients on this machine can reach it. For others, start it with --bind-address 0.0.0.0 or one of its addresses")
	}
}

// auditFlags are those that kube-apiserver has under the same names.
func auditFlags(f *pflag.FlagSet, a *controlplane.Audit) {
	f.StringVar(&a.PolicyFile, "audit-policy-file", "", "audit policy (default: metadata of users' writes and of requests through the proxy of a Cluster; nothing that the control plane does itself)")
	f.StringVar(&a.LogPath, "audit-log-path", "", `audit log, "-" for standard output, "none" for no log (default: audit/audit.log in the data directory)`)
	f.IntVar(&a.MaxAge, "audit-log-maxage", 0, "days to keep old audit log files (default 90)")
	f.IntVar(&a.MaxBackups, "audit-log-maxbackup", 0, "number of old audit log files to keep (default 9)")
	f.IntVar(&a.MaxSize, "audit-log-maxsize", 0, "size of an audit log file in megabytes (default 100)")
	f.StringVar(&a.WebhookConfigFile, "audit-webhook-config-file", "", "kubeconfig of a webhook that audit events are sent to")
}

// authenticationFlags are those that kube-apiserver has under the same names.
func authenticationFlags(f *pflag.FlagSet, a *controlplane.Authentication) {
	f.StringVar(&a.ConfigFile, "authentication-config", "", "AuthenticationConfiguration with issuers of JWTs (OIDC) and what anonymous users may reach (default: the paths for health checks); read again when it changes")
	f.StringVar(&a.TokenWebhookConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig of a webhook that reviews tokens")
	f.BoolVar(&a.BootstrapTokens, "enable-bootstrap-token-auth", false, "accept bootstrap tokens, with which agents are registered: see flagship token")
	f.StringVar(&a.AuthorizationWebhookConfigFile, "authorization-webhook-config-file", "", "kubeconfig of a webhook that decides what RBAC does not allow")
}
