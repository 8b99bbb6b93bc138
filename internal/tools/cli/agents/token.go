package agents

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// defaultTTL is how long a token is valid, as in kubeadm and Karmada.
const defaultTTL = 24 * time.Hour

func newTokenCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Create, list and delete the tokens with which agents are registered",
		Long: `A token registers the agent of one cluster, until it expires. The control plane accepts tokens if it was started with
--enable-bootstrap-token-auth.`,
	}
	c.AddCommand(newTokenCreateCommand(s), newTokenListCommand(s), newTokenDeleteCommand(s))
	return c
}

func newTokenCreateCommand(s cli.Streams) *cobra.Command {
	var (
		hub    cli.HubAccess
		ttl    time.Duration
		server string
		file   string

		forKarmadactl bool
	)
	c := &cobra.Command{
		Use:   "create CLUSTER",
		Short: "Create a token for the agent of a cluster",
		Long: `Creates a token for the agent of a cluster, and writes it to a kubeconfig with which 'flagship register' reaches the control
plane from the cluster. The token can create the Cluster of that name, in Pull mode, and request the certificate of its agent;
it has no other rights. A cluster that has an agent already gets a new one with it.

With --print-register-command no file is written: the command is printed with which karmadactl, from version 1.12, registers a new
cluster and installs karmada-agent in it.`,
		Example: "  flagship token create member3 --server https://flagship.example.com:6443 --file member3.bootstrap.kubeconfig",
		Args:    cli.Exactly(1, "the name of a cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster := args[0]
			if err := memberaccount.CheckName(cluster); err != nil {
				return cli.UsageErrorf("%w", err)
			}
			if ttl <= 0 {
				return cli.UsageErrorf("--ttl is %s: it must be more than nothing", ttl)
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			if server == "" {
				server = cfg.Host
			}
			if file == "" {
				file = cluster + ".bootstrap.kubeconfig"
			}
			token, err := credential.CreateToken(cmd.Context(), cfg, cluster, time.Now().Add(ttl))
			if err != nil {
				return fmt.Errorf("creating a token for %s: %w", cluster, err)
			}
			if forKarmadactl {
				command, err := credential.RegisterCommand(cmd.Context(), cfg, server, cluster, token)
				if err != nil {
					return err
				}
				s.Line(command)
				return nil
			}
			text, err := clientcmd.Write(kubeconfig(server, cfg.CAData, cluster, &clientcmdapi.AuthInfo{Token: token}))
			if err != nil {
				return fmt.Errorf("encoding the kubeconfig: %w", err)
			}
			if err := atomicfile.Write(file, text, 0o600); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "token for the agent of %s written to %s, valid for %s; take the file to the cluster and run:\n"+
				"  flagship register %s --bootstrap-kubeconfig %s --cluster-kubeconfig FILE\n", cluster, file, ttl, cluster, file)
			return nil
		},
	}
	hub.Flags(c)
	f := c.Flags()
	f.DurationVar(&ttl, "ttl", defaultTTL, "how long the token is valid")
	f.StringVar(&server, "server", "", "URL at which the cluster reaches the control plane (default: that of the kubeconfig)")
	f.BoolVar(&forKarmadactl, "print-register-command", false, "print a command of karmadactl instead, with which it registers the cluster and installs karmada-agent")
	f.StringVar(&file, "file", "", "where the kubeconfig with the token is written (default: CLUSTER.bootstrap.kubeconfig)")
	return c
}

func newTokenListCommand(s cli.Streams) *cobra.Command {
	var (
		hub    cli.HubAccess
		output cli.Output
	)
	c := &cobra.Command{
		Use: "list", Short: "List the tokens for agents", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			kube, err := clientOf(&hub)
			if err != nil {
				return err
			}
			tokens, err := credential.ListTokens(cmd.Context(), kube)
			if err != nil {
				return err
			}
			rows := make([][]string, len(tokens))
			for i, token := range tokens {
				rows[i] = []string{token.ID, token.Cluster, token.Expires.Local().Format(time.RFC3339)}
			}
			return output.Print(s, tokens, "ID CLUSTER EXPIRES", rows)
		},
	}
	hub.Flags(c)
	output.Flags(c)
	return c
}

func newTokenDeleteCommand(s cli.Streams) *cobra.Command {
	var hub cli.HubAccess
	c := &cobra.Command{
		Use: "delete ID", Short: "Delete a token for an agent", Args: cli.Exactly(1, "the id of a token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kube, err := clientOf(&hub)
			if err != nil {
				return err
			}
			if err := credential.DeleteToken(cmd.Context(), kube, args[0]); err != nil {
				return err
			}
			s.Line("token deleted; agents that were registered with it stay registered")
			return nil
		},
	}
	hub.Flags(c)
	return c
}

func clientOf(hub *cli.HubAccess) (kubernetes.Interface, error) {
	cfg, err := hub.Config()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client for the control plane: %w", err)
	}
	return kube, nil
}

// kubeconfig leads to the control plane as the agent of a cluster, or as its token. Its names are not those of other kubeconfigs of the
// control plane, so that both can be merged.
func kubeconfig(server string, ca []byte, cluster string, user *clientcmdapi.AuthInfo) clientcmdapi.Config {
	name := "agent-of-" + cluster
	return clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}
}
