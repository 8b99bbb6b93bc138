package cli

import (
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// completionTimeout bounds how long a shell waits for names while a person types.
const completionTimeout = 2 * time.Second

// ClusterNames completes names of Clusters that are not among the arguments, for arguments and for flags. Without a control plane it
// completes nothing.
func (a *HubAccess) ClusterNames(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := a.Config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	config.Timeout = completionTimeout
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	clusters := clusterv1alpha1.GroupVersion.WithResource(clusterv1alpha1.ResourcePluralCluster)
	list, err := client.Resource(clusters).List(c.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	given := map[string]bool{}
	for _, arg := range args {
		given[arg] = true
	}
	var names []cobra.Completion
	for _, cluster := range list.Items {
		if !given[cluster.Name] {
			names = append(names, cluster.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteFlag has a flag complete names of Clusters.
func (a *HubAccess) CompleteFlag(c *cobra.Command, flag string) {
	_ = c.RegisterFlagCompletionFunc(flag, a.ClusterNames) // it fails without the flag, which a test would find
}
