package agents

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Files in the directory of an agent.
const (
	kubeconfigFile  = "agent.kubeconfig"
	certificateFile = "agent.pem"
)

func newRegisterCommand(s cli.Streams) *cobra.Command {
	var (
		bootstrap, kubeconfigPath, contextName, dir string
		r                                           Registration
		m                                           inCluster
	)
	c := &cobra.Command{
		Use:   "register CLUSTER --bootstrap-kubeconfig FILE --cluster-kubeconfig FILE",
		Short: "Register a cluster whose agent dials the control plane",
		Long: `Registers a cluster in Pull mode: the control plane never connects to it, its agent connects to the control plane. The command
runs where both can be reached, with the file that 'flagship token create' wrote. It creates the Cluster and writes the
credential of its agent, a certificate for this one Cluster, to a directory. 'flagship agent' is run with that directory.

With --apply, agents run in the cluster instead: the command creates a Deployment there, with an account, its rights and a Secret with
the token, and the agent registers the cluster itself. With --print, the command prints the manifest of these objects. The token is in
it: treat it as a secret until the token has expired.

It can be repeated after a failure, and with a new token for a cluster whose agent lost its credential. The kubeconfig of the cluster
needs the rights of an administrator, once: the command creates an account without rights, by which other control planes recognize
that the cluster has an agent. A cluster that is a member of another control plane is refused without --share.`,
		Example: `  flagship register member3 --bootstrap-kubeconfig member3.bootstrap.kubeconfig --cluster-kubeconfig ~/member3.yaml
  flagship register member3 --bootstrap-kubeconfig member3.bootstrap.kubeconfig --print --image registry.example.com/flagship:v1`,
		Args: cli.Exactly(1, "the name of the cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name = args[0]
			if bootstrap == "" || kubeconfigPath == "" && !m.print {
				return cli.UsageErrorf("--bootstrap-kubeconfig and --cluster-kubeconfig are needed: the file of 'flagship token create', and the way to the cluster")
			}
			if m.print || m.apply {
				if err := m.refuse(cmd); err != nil {
					return err
				}
				return m.run(cmd.Context(), s, r, bootstrap, kubeconfigPath, contextName)
			}
			dir, err := agentDir(dir, r.Name)
			if err != nil {
				return err
			}
			hub, err := membership.LoadAccess(bootstrap, "")
			if err != nil {
				return err
			}
			member, err := membership.LoadAccess(kubeconfigPath, contextName)
			if err != nil {
				return err
			}
			if err := Register(cmd.Context(), hub.Config, member.Config, dir, r); err != nil {
				return fmt.Errorf("registering %s: %w", r.Name, err)
			}
			fmt.Fprintf(s.Out, "cluster %s registered; run its agent:\n  flagship agent %s --data-dir %s --cluster-kubeconfig %s\n", r.Name, r.Name, dir, kubeconfigPath)
			fmt.Fprint(s.Out, cli.OperatorsHint(kubeconfigPath))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&bootstrap, "bootstrap-kubeconfig", "", "the file that 'flagship token create' wrote")
	f.StringVar(&kubeconfigPath, "cluster-kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&contextName, "cluster-context", "", "context in that kubeconfig (default: its current one)")
	f.StringVar(&dir, "data-dir", "", "where the credential of the agent is kept (default: agents/CLUSTER in the user's state directory)")
	f.StringVar(&r.Provider, "cluster-provider", "", "who runs the cluster, for policies that spread over providers")
	f.StringVar(&r.Region, "cluster-region", "", "region of the cluster")
	f.StringSliceVar(&r.Zones, "cluster-zones", nil, "zones of the cluster, separated by commas")
	m.flags(c)
	f.BoolVar(&r.Share, "share", false, "register a cluster that is a member of another control plane, too")
	f.StringToStringVar(&r.Labels, "cluster-labels", nil, "labels of the new Cluster, as key=value,key=value")
	return c
}

// Registration is which cluster is registered, and how.
type Registration struct {
	credential.Registration
	// Share registers a cluster that is a member of another control plane.
	Share bool
}

// Register registers a cluster with the control plane that the first configuration leads to, as a bootstrap token, and writes the
// credential of its agent to a directory. The second configuration leads to the cluster.
func Register(ctx context.Context, bootstrap, member *rest.Config, dir string, r Registration) error {
	memberClient, err := kubernetes.NewForConfig(membership.WithTimeout(membership.Direct(member)))
	if err != nil {
		return fmt.Errorf("building a client for the cluster: %w", err)
	}
	if r.ID, err = memberaccount.Identity(ctx, memberClient); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clusterv1alpha1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	hub, err := client.New(bootstrap, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("building a client for the control plane: %w", err)
	}
	kube, err := kubernetes.NewForConfig(bootstrap)
	if err != nil {
		return fmt.Errorf("building a client for the control plane: %w", err)
	}
	holding, err := holdingOf(ctx, hub, kube, r)
	if err != nil {
		return ended(err, r.Name)
	}
	if _, err := holding.Suffix(ctx, memberClient); err != nil {
		return err
	}
	certificate, err := credential.Register(ctx, hub, kube, r.Registration)
	if err != nil {
		return ended(err, r.Name)
	}
	if err := holding.Mark(ctx, memberClient); err != nil {
		return err
	}
	// Both are in the same file, so that a renewal replaces them as one.
	user := &clientcmdapi.AuthInfo{ClientCertificate: certificateFile, ClientKey: certificateFile}
	text, err := clientcmd.Write(kubeconfig(bootstrap.Host, bootstrap.CAData, r.Name, user))
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	for name, content := range map[string][]byte{certificateFile: certificate, kubeconfigFile: text} {
		if err := atomicfile.Write(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// ended adds to an error of the control plane that the token has ended, if it means that.
func ended(err error, cluster string) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: the token has expired or was deleted; create another one with 'flagship token create %s'", err, cluster)
	}
	return err
}

// holdingOf is the control plane that a cluster is registered with.
func holdingOf(ctx context.Context, hub client.Client, kube kubernetes.Interface, r Registration) (membership.Holding, error) {
	id, err := memberaccount.Identity(ctx, kube)
	if err != nil {
		return membership.Holding{}, fmt.Errorf("reading the id of the control plane: %w", err)
	}
	cluster := &clusterv1alpha1.Cluster{}
	err = hub.Get(ctx, client.ObjectKey{Name: r.Name}, cluster)
	if client.IgnoreNotFound(err) != nil && !apierrors.IsForbidden(err) { // a token for another cluster: the creation of this one fails with that
		return membership.Holding{}, fmt.Errorf("reading Cluster %s: %w", r.Name, err)
	}
	return membership.Holding{Cluster: r.Name, ControlPlane: id, Known: cluster.Spec.ID == r.ID, Share: r.Share}, nil
}

// agentDir is the directory of the agent of a cluster.
func agentDir(dir, cluster string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	state, err := cli.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(state, "agents", cluster), nil
}
