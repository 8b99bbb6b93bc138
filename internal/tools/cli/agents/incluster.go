package agents

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// inCluster are the flags about agents that run in their cluster.
type inCluster struct {
	print, apply  bool
	image, rights string
	replicas      int32
}

func (i *inCluster) flags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&i.print, "print", false, "print the manifest of agents that run in the cluster, and change nothing")
	f.BoolVar(&i.apply, "apply", false, "run agents in the cluster")
	f.StringVar(&i.image, "image", "", "with --print or --apply: the image of the agents, whose entrypoint is flagship or flagship-server")
	f.Int32Var(&i.replicas, "replicas", 2, "with --print or --apply: the number of agents, of which one acts")
	f.StringVar(&i.rights, "rights-file", "", "with --print or --apply: a YAML file with a list of PolicyRules, or a ClusterRole: what the control plane may do in the cluster (default: everything)")
	c.MarkFlagsMutuallyExclusive("print", "apply")
}

// refuse returns an error for flags that have no effect on agents that run in the cluster.
func (*inCluster) refuse(cmd *cobra.Command) error {
	for _, name := range []string{"cluster-labels", "cluster-provider", "cluster-region", "cluster-zones"} {
		if cmd.Flags().Changed(name) {
			return cli.UsageErrorf("--%s has no effect with --print or --apply, since the agents create the Cluster: change the Cluster when it exists", name)
		}
	}
	if cmd.Flags().Changed("share") {
		return cli.UsageErrorf("--share has no effect with --print or --apply: the objects of two control planes may have the same names in the cluster; " +
			"run 'flagship register --share' and 'flagship agent' outside of the cluster")
	}
	return nil
}

// run prints or applies the manifest.
func (i *inCluster) run(ctx context.Context, s cli.Streams, r Registration, bootstrap, kubeconfig, contextName string) error {
	if i.image == "" {
		return cli.UsageErrorf("--image is needed: where the cluster gets the agents from")
	}
	if err := memberaccount.CheckName(r.Name); err != nil {
		return cli.UsageErrorf("%w", err)
	}
	m := manifest{cluster: r.Name, image: i.image, replicas: i.replicas}
	rights := memberaccount.AllRights()
	if i.rights != "" {
		text, err := os.ReadFile(i.rights)
		if err != nil {
			return fmt.Errorf("reading the rights: %w", err)
		}
		if rights, err = memberaccount.ParseRights(text); err != nil {
			return err
		}
	}
	var err error
	if m.bootstrap, err = os.ReadFile(bootstrap); err != nil {
		return fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	access, err := membership.LoadAccess(bootstrap, "")
	if err != nil {
		return err
	}
	hub, err := kubernetes.NewForConfig(membership.WithTimeout(access.Config))
	if err != nil {
		return fmt.Errorf("building a client for the control plane: %w", err)
	}
	if m.controlPlane, err = memberaccount.Identity(ctx, hub); err != nil {
		return fmt.Errorf("reading the id of the control plane: %w", err)
	}
	m.account = memberaccount.ControllerOf(r.Name).With(rights)
	if i.print {
		text, err := m.yaml()
		if err != nil {
			return err
		}
		_, err = s.Out.Write(text)
		return err
	}
	member, err := membership.LoadAccess(kubeconfig, contextName)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(membership.WithTimeout(membership.Direct(member.Config)))
	if err != nil {
		return fmt.Errorf("building a client for the cluster: %w", err)
	}
	holding := membership.Holding{Cluster: r.Name, ControlPlane: m.controlPlane}
	if _, err := holding.Suffix(ctx, client); err != nil {
		return err
	}
	if err := m.apply(ctx, membership.Direct(member.Config)); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "agents of %s run in the cluster as Deployment karmada-cluster/%s; see the cluster become ready: kubectl get cluster %s\n", r.Name, m.name(), r.Name)
	return nil
}
