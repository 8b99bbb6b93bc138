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

// KarmadaRegistrar stands in the place of a cluster in the name of the user as which karmadactl prepares a registration.
const KarmadaRegistrar = "rbac-generator"

// AgentCredentialsAnnotation on a Cluster lists the certificates of its karmada-agent, separated by commas, as the API server identifies
// credentials. Such a certificate names no Cluster object: without this list, that of an earlier Cluster of the name would be of use.
const AgentCredentialsAnnotation = "flagship.io/agent-credentials"

// Annotations of the Lease of a Cluster in Pull mode, which its agent renews. They are what the agent reports, and nothing is decided by them.
const (
	// AgentVersionAnnotation is the version of the agent.
	AgentVersionAnnotation = "flagship.io/agent-version"
	// AgentCertificateExpiryAnnotation is when the certificate of the agent expires, in RFC 3339.
	AgentCertificateExpiryAnnotation = "flagship.io/agent-certificate-expiry"
)

// TokenClusterAnnotation, on the Secret of a bootstrap token, names the only Cluster whose agent can be registered with the token.
const TokenClusterAnnotation = "flagship.io/registers-cluster"

// KarmadaElectionLease returns the name of the Lease in SystemNamespace by which the karmada-agents of a Cluster elect one.
func KarmadaElectionLease(cluster string) string { return "karmada-agent-" + cluster }

// KarmadaAgentSecrets returns the names of the Secrets in ClusterNamespace to which a karmada-agent writes credentials of its member.
func KarmadaAgentSecrets(cluster string) []string {
	return []string{cluster, ImpersonatorSecretName(cluster)}
}

// KarmadaAgentRole returns the name of the role, and of its binding, that karmadactl creates for the agent of a Cluster: a ClusterRole
// without a namespace, a Role in ClusterNamespace and one in the execution namespace.
func KarmadaAgentRole(cluster, namespace string) string {
	name := "system:karmada:" + cluster + ":agent"
	switch namespace {
	case "":
		return name
	case ClusterNamespace:
		return name + "-secret"
	default:
		return name + "-work"
	}
}

// TunnelSubresource is the subresource of a Cluster at which its agent opens a tunnel, through which the control plane reaches the member.
const TunnelSubresource = "tunnel"

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

// ClusterOfKarmadaAgent returns the name of the Cluster whose karmada-agent a user is by name and groups, or KarmadaRegistrar, and false
// for other users. Which certificate it is decides whether it has any rights: see HasAgentCredential.
func ClusterOfKarmadaAgent(user string, groups []string) (cluster string, ok bool) {
	cluster, named := strings.CutPrefix(user, AgentUserPrefix)
	if !named || cluster == "" || !slices.Contains(groups, AgentsGroup) {
		return "", false
	}
	return cluster, !slices.ContainsFunc(groups, func(group string) bool { return strings.HasPrefix(group, AgentClusterGroupPrefix) })
}

// HasAgentCredential returns whether a Cluster lists the credential of its karmada-agent.
func HasAgentCredential(cluster *Cluster, credential string) bool {
	return credential != "" && slices.Contains(strings.Split(cluster.Annotations[AgentCredentialsAnnotation], ","), credential)
}
