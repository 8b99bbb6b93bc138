package agents

import (
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfigs that KUBECONFIG names together are merged: clusters, users and contexts of the same name would hide each other.
func TestTheNamesInAKubeconfigAreTheAgents(t *testing.T) {
	config := kubeconfig("https://hub.example.com", nil, "member3", &clientcmdapi.AuthInfo{Token: "t"})
	const name = "agent-of-member3"
	context := config.Contexts[config.CurrentContext]
	if config.CurrentContext != name || context == nil || context.Cluster != name || context.AuthInfo != name {
		t.Fatalf("the context is %+v", context)
	}
	if config.Clusters[name] == nil || len(config.Clusters) != 1 || config.AuthInfos[name] == nil || len(config.AuthInfos) != 1 {
		t.Errorf("the clusters are %v, the users %v", config.Clusters, config.AuthInfos)
	}
}
