package agents

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Files in the directory of an agent.
const (
	kubeconfigFile  = "agent.kubeconfig"
	certificateFile = "agent.pem"
)

func newRegisterCommand(s cli.Streams) *cobra.Command {
	var (
		bootstrap, kubeconfigPath, context, dir string
		r                                       credential.Registration
	)
	c := &cobra.Command{
		Use:   "register CLUSTER --bootstrap-kubeconfig FILE --cluster-kubeconfig FILE",
		Short: "Register a cluster whose agent dials the control plane",
		Long: `Registers a cluster in Pull mode: the control plane never connects to it, its agent connects to the control plane. The command
runs where both can be reached, with the file that 'flagship token create' wrote. It creates the Cluster and writes the
credential of its agent, a certificate for this one Cluster, to a directory. 'flagship agent' is run with that directory.

It can be repeated after a failure, and with a new token for a cluster whose agent lost its credential.`,
		Example: "  flagship register member3 --bootstrap-kubeconfig member3.bootstrap.kubeconfig --cluster-kubeconfig ~/member3.yaml",
		Args:    cli.Exactly(1, "the name of the cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name = args[0]
			if bootstrap == "" || kubeconfigPath == "" {
				return cli.UsageErrorf("--bootstrap-kubeconfig and --cluster-kubeconfig are needed: the file of 'flagship token create', and the way to the cluster")
			}
			dir, err := agentDir(dir, r.Name)
			if err != nil {
				return err
			}
			hub, err := membership.LoadAccess(bootstrap, "")
			if err != nil {
				return err
			}
			member, err := membership.LoadAccess(kubeconfigPath, context)
			if err != nil {
				return err
			}
			memberClient, err := kubernetes.NewForConfig(membership.WithTimeout(membership.Direct(member.Config)))
			if err != nil {
				return fmt.Errorf("building a client for the cluster: %w", err)
			}
			if r.ID, err = memberaccount.Identity(cmd.Context(), memberClient); err != nil {
				return fmt.Errorf("reading the identity of the cluster: %w", err)
			}
			scheme := runtime.NewScheme()
			if err := clusterv1alpha1.AddToScheme(scheme); err != nil {
				return fmt.Errorf("building the scheme: %w", err)
			}
			hubClient, err := client.New(hub.Config, client.Options{Scheme: scheme})
			if err != nil {
				return fmt.Errorf("building a client for the control plane: %w", err)
			}
			kube, err := kubernetes.NewForConfig(hub.Config)
			if err != nil {
				return fmt.Errorf("building a client for the control plane: %w", err)
			}
			certificate, err := credential.Register(cmd.Context(), hubClient, kube, r)
			if err != nil {
				return fmt.Errorf("registering %s: %w", r.Name, err)
			}
			// Both are in the same file, so that a renewal replaces them as one.
			user := &clientcmdapi.AuthInfo{ClientCertificate: certificateFile, ClientKey: certificateFile}
			text, err := clientcmd.Write(kubeconfig(hub.Config.Host, hub.Config.CAData, r.Name, user))
			if err != nil {
				return fmt.Errorf("encoding the kubeconfig: %w", err)
			}
			for name, content := range map[string][]byte{certificateFile: certificate, kubeconfigFile: text} {
				if err := credential.WriteFile(filepath.Join(dir, name), content); err != nil {
					return err
				}
			}
			fmt.Fprintf(s.Out, "cluster %s registered; run its agent:\n  flagship agent %s --data-dir %s --cluster-kubeconfig %s\n", r.Name, r.Name, dir, kubeconfigPath)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&bootstrap, "bootstrap-kubeconfig", "", "the file that 'flagship token create' wrote")
	f.StringVar(&kubeconfigPath, "cluster-kubeconfig", "", "kubeconfig of the cluster")
	f.StringVar(&context, "cluster-context", "", "context in that kubeconfig (default: its current one)")
	f.StringVar(&dir, "data-dir", "", "where the credential of the agent is kept (default: agents/CLUSTER in the user's state directory)")
	f.StringVar(&r.Provider, "cluster-provider", "", "who runs the cluster, for policies that spread over providers")
	f.StringVar(&r.Region, "cluster-region", "", "region of the cluster")
	f.StringSliceVar(&r.Zones, "cluster-zones", nil, "zones of the cluster, separated by commas")
	f.StringToStringVar(&r.Labels, "cluster-labels", nil, "labels of the new Cluster, as key=value,key=value")
	return c
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
