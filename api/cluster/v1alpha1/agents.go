package v1alpha1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Users and groups of agents and of clients that register one. Those that begin with "system:" have the names that Karmada gives them.
const (
	// AgentUserPrefix begins the user name of an agent; the name of its Cluster follows.
	AgentUserPrefix = "system:karmada:agent:"
	// AgentsGroup is the group of all agents.
	AgentsGroup = "system:karmada:agents"
	// AgentClusterGroupPrefix begins the group that binds the certificate of an agent to one Cluster object, whose UID follows: when
	// that object is deleted the certificate is of no use any more, also for a later Cluster of the same name.
	AgentClusterGroupPrefix = "flagship:agents:"
	// AgentBootstrappersGroup is the group of the bootstrap tokens with which agents are registered.
	AgentBootstrappersGroup = "system:bootstrappers:karmada:default-cluster-token"
)

// TokenClusterAnnotation, on the Secret of a bootstrap token, names the only Cluster whose agent can be registered with the token.
const TokenClusterAnnotation = "flagship.io/registers-cluster"

// EpochLease returns the name of the Lease in SystemNamespace that counts the periods in which a cluster was written to, by which a
// control plane that was restored from a backup is recognized.
func EpochLease(cluster string) string { return "member-" + cluster }

// AgentUser returns the user name of the agent of a Cluster.
func AgentUser(cluster string) string { return AgentUserPrefix + cluster }

// AgentGroups returns the groups of the agent of a Cluster.
func AgentGroups(cluster types.UID) []string {
	return []string{AgentsGroup, AgentClusterGroupPrefix + string(cluster)}
}

// ClusterOfAgent returns the name and the UID of the Cluster whose agent a user is, and false if the user is none: the name and both
// groups have to be those of an agent, and there must be one Cluster only.
func ClusterOfAgent(user string, groups []string) (cluster string, uid types.UID, ok bool) {
	cluster, named := strings.CutPrefix(user, AgentUserPrefix)
	if !named || cluster == "" || !slices.Contains(groups, AgentsGroup) {
		return "", "", false
	}
	for _, group := range groups {
		if id, is := strings.CutPrefix(group, AgentClusterGroupPrefix); is {
			if id == "" || uid != "" {
				return "", "", false
			}
			uid = types.UID(id)
		}
	}
	return cluster, uid, uid != ""
}
