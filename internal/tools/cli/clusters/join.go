package clusters

import (
	"fmt"
	"os"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newJoinCommand(s cli.Streams) *cobra.Command {
	var (
		hub    cli.HubAccess
		member memberAccess
		rights joinRights
		o      membership.Options
	)
	c := &cobra.Command{
		Use:   "join NAME --cluster-kubeconfig FILE",
		Short: "Make a cluster a member of the control plane",
		Long: `Makes an existing Kubernetes cluster a member. The kubeconfig needs the rights of an administrator of that cluster, once:
join makes two service accounts in it, and the control plane works with short-lived tokens of those, which it renews itself.

By default the control plane may do everything in the cluster. With --rights namespaced it may only propagate the kinds of
--kinds, and with --rights-file what the file says; then it gets no account that impersonates users, so that the Cluster has
no proxy. With --apply-as, every object is written as the service account of that name in the namespace of the object: what a
tenant may do is then decided by the RBAC of the cluster.

A cluster that is a member already, under the same name, gets new credentials, for the address in the kubeconfig; one in Pull mode
is in Push mode from then on, with the objects in it as they are, and its agent ends. Do this
after the address, the proxy or the certificate authority of a member changed: until then its credentials are not used. Its rights change only if a flag says so.

This command and the control plane connect to a member directly or through the proxy-url of the kubeconfig. HTTPS_PROXY has no
effect there.

A cluster that is a member of another control plane is refused without --share; with it, each control plane has accounts of
its own there, and its own objects.`,
		Example: `  flagship join member1 --cluster-kubeconfig ~/member1.yaml
  flagship join member1 --cluster-kubeconfig ~/member1.yaml --rights namespaced --kinds deployments.apps,services,configmaps
  flagship join member1 --cluster-kubeconfig ~/member1.yaml --rights namespaced --kinds configmaps --apply-as flagship-applier
  flagship join eu-1 --cluster-kubeconfig ~/.kube/config --cluster-context eu-1 --cluster-region eu --cluster-provider acme`,
		Args: cli.Exactly(1, "the name of the new cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if member.kubeconfig == "" {
				return cli.UsageErrorf("--cluster-kubeconfig is needed: the file that leads to the cluster to join")
			}
			access, err := membership.LoadAccess(member.kubeconfig, member.context)
			if err != nil {
				return err
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			o.Name, o.ProxyURL = args[0], access.ProxyURL
			o.Notice = func(message string) { fmt.Fprintln(s.Err, message) }
			if o.Rights, err = rights.read(o.ApplyAs != ""); err != nil {
				return err
			}
			if err := membership.Join(cmd.Context(), cfg, access.Config, o); err != nil {
				return fmt.Errorf("joining %s: %w", o.Name, err)
			}
			fmt.Fprintf(s.Out, "cluster %s joined; see it become ready: kubectl get cluster %s\n", o.Name, o.Name)
			if rights.impersonates() {
				fmt.Fprint(s.Out, cli.OperatorsHint(member.kubeconfig))
			}
			return nil
		},
	}
	hub.Flags(c)
	member.flags(c)
	rights.flags(c)
	f := c.Flags()
	f.StringVar(&o.APIEndpoint, "api-endpoint", "", "URL at which the control plane reaches the cluster (default: that of the kubeconfig)")
	f.StringVar(&o.ApplyAs, "apply-as", "", "name of the service account, in the namespace of each object, as which objects are written in the cluster (default: the control plane's own account)")
	f.StringVar(&o.Provider, "cluster-provider", "", "who runs the cluster, for policies that spread over providers")
	f.StringVar(&o.Region, "cluster-region", "", "region of the cluster")
	f.StringSliceVar(&o.Zones, "cluster-zones", nil, "zones of the cluster, separated by commas")
	f.StringToStringVar(&o.Labels, "cluster-labels", nil, "labels of the new Cluster, as key=value,key=value")
	f.BoolVar(&o.Share, "share", false, "join a cluster that is a member of another control plane, too")
	f.DurationVar(&o.TokenLifetime, "token-lifetime", membership.DefaultTokenLifetime, "how long the first tokens are asked to live")
	return c
}

// joinRights are the flags that bound what the control plane may do in a member.
type joinRights struct {
	rights, file string
	kinds        []string
	resources    bool
	events       bool
}

const (
	rightsAll        = "all"
	rightsNamespaced = "namespaced"
)

func (r *joinRights) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&r.rights, "rights", "", "what the control plane may do in the cluster: all, or namespaced: only propagate --kinds (default: all; for a member, what it may do already)")
	f.StringSliceVar(&r.kinds, "kinds", nil, "with --rights namespaced: the resources that are propagated, such as deployments.apps,services,configmaps")
	f.BoolVar(&r.resources, "read-resources", false, "with --rights namespaced: nodes, pods and ResourceQuotas may be read, from which the cluster's free resources are known")
	f.BoolVar(&r.events, "read-events", true, "with --rights namespaced: Events may be read, and the pods, ReplicaSets, jobs and claims that they are about, so that warnings are shown on templates")
	f.StringVar(&r.file, "rights-file", "", "a YAML file with a list of PolicyRules, or a ClusterRole: what the control plane may do in the cluster, besides keeping its connection")
}

// impersonates returns whether the control plane gets an account that impersonates users, without which the cluster has no proxy.
func (r *joinRights) impersonates() bool { return r.file == "" && r.rights != rightsNamespaced }

// read returns the rights, nil if nothing is said about them. With an account for writing, the control plane itself only reads.
func (r *joinRights) read(appliesAsOther bool) (memberaccount.Rights, error) {
	if r.file != "" && r.rights != "" {
		return nil, cli.UsageErrorf("--rights and --rights-file exclude each other")
	}
	if r.rights != rightsNamespaced && (len(r.kinds) > 0 || r.resources) {
		return nil, cli.UsageErrorf("--kinds and --read-resources need --rights namespaced")
	}
	switch r.rights {
	case "":
		if r.file == "" {
			return nil, nil
		}
		text, err := os.ReadFile(r.file)
		if err != nil {
			return nil, fmt.Errorf("reading the rights: %w", err)
		}
		return memberaccount.ParseRights(text)
	case rightsAll:
		return memberaccount.AllRights(), nil
	case rightsNamespaced:
		kinds, err := memberaccount.ParseKinds(r.kinds)
		if err != nil {
			return nil, cli.UsageErrorf("--kinds: %w", err)
		}
		return memberaccount.RightsOn(memberaccount.KindRights{Kinds: kinds, ReadOnly: appliesAsOther, Resources: r.resources, Events: r.events}), nil
	default:
		return nil, cli.UsageErrorf("--rights is %q: it may be %s or %s", r.rights, rightsAll, rightsNamespaced)
	}
}

// memberAccess describes where a cluster is that joins or leaves.
type memberAccess struct {
	kubeconfig, context string
}

func (a *memberAccess) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.kubeconfig, "cluster-kubeconfig", "", "kubeconfig of the cluster, with an administrator's rights")
	f.StringVar(&a.context, "cluster-context", "", "context in that kubeconfig (default: its current one)")
}
