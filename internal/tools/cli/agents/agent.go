package agents

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	configurationv1alpha1 "github.com/flagship-k8s/flagship/api/configuration/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/agent"
	"github.com/flagship-k8s/flagship/internal/host/memory"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/settings"
)

// NewAgentCommand is the command agent.
func NewAgentCommand(s cli.Streams) *cobra.Command {
	f := &agentFlags{}
	c := &cobra.Command{
		Use:   "agent CLUSTER",
		Short: "Run the agent of a cluster in Pull mode",
		Long: `Runs the agent of a cluster, until SIGINT or SIGTERM: it applies what the control plane has for the cluster, reports the status
of the objects and of the cluster, and renews its own certificate at half of its life. It dials the control plane and the
cluster; nothing dials it.

In the cluster it uses the service account of its pod, and elsewhere the kubeconfig of --cluster-kubeconfig. What that account
may do in the cluster is what the control plane may do there.

With --credential-secret, replicas in the cluster share the credential in that Secret of the namespace karmada-cluster, which must
exist. While it is empty, or the bootstrap kubeconfig is another one, the agent registers the cluster; 'flagship register --print'
prints the manifest for this.

Each flag may also be set in the file of --config, an AgentConfiguration, and in the environment: --leader-elect is leaderElect in
the file and FLAGSHIP_LEADER_ELECT in the environment. A flag wins over the environment, and the environment over the file.`,
		Example: "  flagship agent member3 --cluster-kubeconfig ~/member3.yaml",
		Args:    cli.Exactly(1, "the name of the cluster"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err = settings.Apply(cmd.Flags(), &configurationv1alpha1.AgentConfiguration{}, os.LookupEnv); err != nil {
				return err
			}
			o, dir, kept := &f.options, f.dir, f.kept
			o.Cluster = args[0]
			if err = pingSoon(); err != nil {
				return err
			}
			if dir, err = agentDir(dir, o.Cluster); err != nil {
				return err
			}
			if o.Member, err = memberConfig(f.path, f.contextName); err != nil {
				return err
			}
			cli.LogTo(s.Err)
			cli.SetVerbosity(f.verbosity)
			if kept.secret != "" {
				kept.cluster, kept.dir, kept.member = o.Cluster, dir, o.Member
				if err := kept.load(cmd.Context()); err != nil {
					return err
				}
				o.Shared = kept
			}
			if o.Hub, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, kubeconfigFile)); err != nil {
				return fmt.Errorf("finding the way to the control plane: %w\nregister the cluster first: flagship register %s", err, o.Cluster)
			}
			o.Credential = filepath.Join(dir, certificateFile)
			flush, err := f.traces.start(cmd.Context(), s, o)
			if err != nil {
				return err
			}
			defer flush()
			reloader := f.reloader(cmd.Flags())
			o.Collectors = reloader.Collectors()
			defer reloader.Start(cmd.Context())()
			defer memory.KeepSmall(cmd.Context())()
			fmt.Fprintf(s.Out, "The agent of %s runs; see the cluster become ready: kubectl get cluster %s\n", o.Cluster, o.Cluster)
			return agent.Run(cmd.Context(), *o)
		},
	}
	settings.AddGroups(c, f.groups())
	markReloaded(c.Flags())
	return c
}

// pingSoon has the process detect within 15 seconds that a connection was lost without an end, as when a firewall has lost its table. The
// default of client-go is 45 seconds, and the control plane takes a cluster for unknown after 40. client-go reads it from the environment,
// where a value that is set stays, and nowhere else.
func pingSoon() error {
	for name, seconds := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "10", "HTTP2_PING_TIMEOUT_SECONDS": "5"} {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, seconds); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// memberConfig leads to the cluster of the agent.
func memberConfig(path, context string) (*rest.Config, error) {
	if path == "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("finding the cluster: %w\nset --cluster-kubeconfig, or run the agent in the cluster", err)
		}
		return cfg, nil
	}
	loading := &clientcmd.ClientConfigLoadingRules{ExplicitPath: path}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	return cfg, nil
}
