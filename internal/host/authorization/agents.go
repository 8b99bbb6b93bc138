package authorization

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Lookups read what the rights of an agent depend on. They are functions because the caches that answer them start after the API server.
type Lookups struct {
	// Cluster returns a Cluster, nil if there is none.
	Cluster func(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error)
	// TokenCluster returns the name of the Cluster that the user of a bootstrap token may register, "" for none.
	TokenCluster func(ctx context.Context, user string) (string, error)
	// IssuedWith returns the request by which a certificate was issued with a bootstrap token, and the Cluster which that token
	// registers; "" for both if there is no such request any more, or the token has ended.
	IssuedWith func(ctx context.Context, credential string) (request, cluster string, err error)
	// HoldsCredential returns whether a Secret of the namespace ClusterNamespace exists and has data.
	HoldsCredential func(ctx context.Context, name string) (bool, error)
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
	write  = []string{"update", "patch"}
)

// NewAgents returns an authorizer that allows agents what they need of their own Cluster, and clients with a bootstrap token what they
// need to register one.
func NewAgents(lookups Lookups) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
		who := request.GetUser()
		if who == nil {
			return authorizer.DecisionNoOpinion, "", nil
		}
		name, uid, agent := clusterv1alpha1.ClusterOfAgent(who.GetName(), who.GetGroups())
		if !request.IsResourceRequest() && !(agent && discovers(request)) {
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
		if name, ok := clusterv1alpha1.ClusterOfKarmadaAgent(who.GetName(), who.GetGroups()); ok {
			return lookups.authorizeKarmada(ctx, request, name)
		}
		if !agent {
			return decide(request, publicGrants(who))
		}
		cluster, err := lookups.Cluster(ctx, name)
		switch {
		case err != nil:
			return unknown(err)
		case cluster == nil || cluster.UID != uid:
			return authorizer.DecisionNoOpinion, "the Cluster that this agent was registered for does not exist any more", nil
		case cluster.Spec.SyncMode != clusterv1alpha1.Pull:
			return authorizer.DecisionNoOpinion, "the Cluster of this agent is not in Pull mode", nil
		case !request.IsResourceRequest():
			return authorizer.DecisionAllow, "", nil
		}
		return decide(request, agentGrants(name))
	})
}

// discovers returns whether a request reads which kinds are served. RBAC allows that to all who are authenticated, but refuses it to them for as long as
// a control plane that starts has not read its roles, and agents end after refusals.
func discovers(request authorizer.Attributes) bool {
	path := request.GetPath()
	return request.GetVerb() == "get" && (path == "/api" || path == "/apis" || strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/apis/"))
}

// unknown fails a request until what its answer depends on can be read: the client gets a 500 and tries again. A 403 would be a refusal, after
// which agents end; a control plane that has just started has no caches for as long as it reads all its objects.
func unknown(err error) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", fmt.Errorf("the rights of the agent cannot be read yet: %w", err)
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
	own := []string{cluster}
	return slices.Concat([]grant{
		{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: read, names: own},
		// Requests to create have no name: admission checks it.
		{group: fleetv1alpha1.GroupName, resource: fleetv1alpha1.ResourcePluralClusterCapacity, verbs: slices.Concat(read, write), names: own},
		{group: fleetv1alpha1.GroupName, resource: fleetv1alpha1.ResourcePluralClusterCapacity, verbs: create},
		{group: clusterv1alpha1.GroupName, resource: "clusters", subresource: clusterv1alpha1.TunnelSubresource, verbs: create, names: own},
	}, /* the count by which a restored control plane is recognized */ leaseGrants(clusterv1alpha1.SystemNamespace, clusterv1alpha1.EpochLease(cluster)), reportGrants(cluster), commonGrants())
}

// reportGrants are the rights of any agent: it carries out Works and reports.
func reportGrants(cluster string) []grant {
	own, space := []string{cluster}, workv1alpha1.ExecutionNamespace(cluster)
	return append([]grant{
		{group: clusterv1alpha1.GroupName, resource: "clusters", subresource: "status", verbs: write, names: own},
		// Admission bounds what it creates and deletes to records of what its member has.
		{group: workv1alpha1.GroupName, resource: "works", verbs: slices.Concat(read, write, create, []string{"delete"}), namespace: space},
		{group: workv1alpha1.GroupName, resource: "works", subresource: "status", verbs: write, namespace: space},
		{resource: "events", verbs: create, namespace: space},
		{resource: "events", verbs: create, namespace: metav1.NamespaceDefault}, // those of its Cluster
		{group: configv1alpha1.GroupName, resource: "resourceinterpretercustomizations", verbs: read},
		{group: configv1alpha1.GroupName, resource: "resourceinterpreterwebhookconfigurations", verbs: read},
	}, leaseGrants(clusterv1alpha1.ClusterNamespace, cluster)...)
}

// leaseGrants are the rights to one Lease. Admission checks the name of one that is created.
func leaseGrants(namespace, name string) []grant {
	const group, resource = "coordination.k8s.io", "leases"
	return []grant{
		{group: group, resource: resource, verbs: slices.Concat([]string{"get"}, write), namespace: namespace, names: []string{name}},
		{group: group, resource: resource, verbs: create, namespace: namespace},
	}
}

// bootstrapGrants are the rights of a client that registers the agent of a Cluster, which it may create.
func bootstrapGrants(cluster string) []grant {
	return append(commonGrants(),
		grant{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: create},
		grant{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: []string{"get"}, names: []string{cluster}})
}

// commonGrants are those of both.
func commonGrants() []grant {
	return []grant{
		// Requests of certificates hold no secret.
		{group: "certificates.k8s.io", resource: "certificatesigningrequests", verbs: slices.Concat(create, read)},
		// Its uid is the id of the control plane.
		{resource: "namespaces", verbs: []string{"get"}, namespace: metav1.NamespaceSystem, names: []string{metav1.NamespaceSystem}},
	}
}
