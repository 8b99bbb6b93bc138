package authorization

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Lookups read what the rights of an agent depend on. They are functions because the caches that answer them start after the API server.
type Lookups struct {
	// Cluster returns a Cluster, nil if there is none.
	Cluster func(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error)
	// TokenCluster returns the name of the Cluster that the user of a bootstrap token may register, "" for none.
	TokenCluster func(ctx context.Context, user string) (string, error)
}

// grant is what may be done with a resource.
type grant struct {
	group, resource, subresource string
	verbs                        []string
	// namespace bounds the grant to one namespace; "" is for resources without.
	namespace string
	// names bounds it to objects of these names; nil is every name. Requests to create have no name.
	names []string
}

var (
	read   = []string{"get", "list", "watch"}
	create = []string{"create"}
)

// NewAgents returns an authorizer that allows agents what they need of their own Cluster, and clients with a bootstrap token what they
// need to register one.
func NewAgents(lookups Lookups) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
		who := request.GetUser()
		if who == nil || !request.IsResourceRequest() {
			return authorizer.DecisionNoOpinion, "", nil
		}
		if slices.Contains(who.GetGroups(), clusterv1alpha1.AgentBootstrappersGroup) {
			cluster, err := lookups.TokenCluster(ctx, who.GetName())
			if err != nil {
				return unknown(err)
			}
			if cluster == "" {
				return authorizer.DecisionNoOpinion, "the bootstrap token registers no cluster: create one with 'flagship token create NAME'", nil
			}
			return decide(request, bootstrapGrants(cluster))
		}
		name, uid, ok := clusterv1alpha1.ClusterOfAgent(who.GetName(), who.GetGroups())
		if !ok {
			return authorizer.DecisionNoOpinion, "", nil
		}
		cluster, err := lookups.Cluster(ctx, name)
		switch {
		case err != nil:
			return unknown(err)
		case cluster == nil || cluster.UID != uid:
			return authorizer.DecisionNoOpinion, "the Cluster that this agent was registered for does not exist any more", nil
		case cluster.Spec.SyncMode != clusterv1alpha1.Pull:
			return authorizer.DecisionNoOpinion, "the Cluster of this agent is not in Pull mode", nil
		}
		return decide(request, agentGrants(name))
	})
}

// unknown refuses a request until what its answer depends on can be read. An error of an authorizer would be a 500 for the client.
func unknown(err error) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "try again: " + err.Error(), nil
}

func decide(request authorizer.Attributes, grants []grant) (authorizer.Decision, string, error) {
	for _, g := range grants {
		if g.allows(request) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (g grant) allows(r authorizer.Attributes) bool {
	return r.GetAPIGroup() == g.group && r.GetResource() == g.resource && r.GetSubresource() == g.subresource &&
		r.GetNamespace() == g.namespace && slices.Contains(g.verbs, r.GetVerb()) &&
		// A list or watch has a name if its field selector has one.
		(g.names == nil || slices.Contains(g.names, r.GetName()))
}

// agentGrants are the rights of the agent of a Cluster.
func agentGrants(cluster string) []grant {
	own, space := []string{cluster}, workv1alpha1.ExecutionNamespace(cluster)
	write := []string{"update", "patch"}
	return slices.Concat([]grant{
		{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: read, names: own},
		{group: clusterv1alpha1.GroupName, resource: "clusters", subresource: "status", verbs: write, names: own},
		{group: workv1alpha1.GroupName, resource: "works", verbs: slices.Concat(read, write), namespace: space},
		{group: workv1alpha1.GroupName, resource: "works", subresource: "status", verbs: write, namespace: space},
		{group: "coordination.k8s.io", resource: "leases", verbs: slices.Concat([]string{"get"}, write), namespace: clusterv1alpha1.ClusterNamespace, names: own},
		{group: "coordination.k8s.io", resource: "leases", verbs: create, namespace: clusterv1alpha1.ClusterNamespace},
		// The count by which a restored control plane is recognized.
		{group: "coordination.k8s.io", resource: "leases", verbs: slices.Concat([]string{"get"}, write), namespace: clusterv1alpha1.SystemNamespace,
			names: []string{clusterv1alpha1.EpochLease(cluster)}},
		{group: "coordination.k8s.io", resource: "leases", verbs: create, namespace: clusterv1alpha1.SystemNamespace},
		{resource: "events", verbs: create, namespace: space},
		{resource: "events", verbs: create, namespace: metav1.NamespaceDefault}, // those of its Cluster
		// Its uid is the id of the control plane.
		{resource: "namespaces", verbs: []string{"get"}, namespace: metav1.NamespaceSystem, names: []string{metav1.NamespaceSystem}},
		{group: configv1alpha1.GroupName, resource: "resourceinterpretercustomizations", verbs: read},
		{group: configv1alpha1.GroupName, resource: "resourceinterpreterwebhookconfigurations", verbs: read},
	}, certificateGrants())
}

// bootstrapGrants are the rights of a client that registers the agent of a Cluster, which it may create.
func bootstrapGrants(cluster string) []grant {
	return append(certificateGrants(),
		grant{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: create},
		grant{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: []string{"get"}, names: []string{cluster}})
}

// certificateGrants are for requests of certificates, which hold no secret.
func certificateGrants() []grant {
	return []grant{{group: "certificates.k8s.io", resource: "certificatesigningrequests", verbs: slices.Concat(create, read)}}
}
