package authorization

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// authorizeKarmada decides about a request of karmadactl, or of the agent that it installs. Their certificates name no Cluster object.
// One of karmadactl has the rights of the bootstrap token with which it was issued. One of an agent has rights if its Cluster lists it,
// or if there is no such Cluster and the agent may create it.
func (l Lookups) authorizeKarmada(ctx context.Context, request authorizer.Attributes, name string) (authorizer.Decision, string, error) {
	credential := ""
	if ids := request.GetUser().GetExtra()[user.CredentialIDKey]; len(ids) == 1 {
		credential = ids[0]
	}
	if name != clusterv1alpha1.KarmadaRegistrar {
		cluster, err := l.Cluster(ctx, name)
		switch {
		case err != nil:
			return unknown(err)
		case cluster != nil && !clusterv1alpha1.HasAgentCredential(cluster, credential):
			return authorizer.DecisionNoOpinion, "the Cluster was not registered with this certificate", nil
		case cluster != nil && cluster.Spec.SyncMode != clusterv1alpha1.Pull:
			return authorizer.DecisionNoOpinion, "the Cluster of this agent is not in Pull mode", nil
		case cluster != nil:
			return l.decideKarmada(ctx, request, karmadaAgentGrants(name))
		}
	}
	issued, bound, err := l.IssuedWith(ctx, credential)
	switch {
	case err != nil:
		return unknown(err)
	case bound == "":
		return authorizer.DecisionNoOpinion, "the registration with this certificate has ended", nil
	case name == clusterv1alpha1.KarmadaRegistrar:
		return decide(request, registrarGrants(bound, issued))
	case name != bound:
		return authorizer.DecisionNoOpinion, "the bootstrap token registers cluster " + bound + " only", nil
	}
	return l.decideKarmada(ctx, request, append(karmadaAgentGrants(name), grant{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: create}))
}

// decideKarmada is decide, but for Secrets with data: their names are those under which the control plane keeps credentials of a member,
// and what an agent reports is stored without data.
func (l Lookups) decideKarmada(ctx context.Context, request authorizer.Attributes, grants []grant) (authorizer.Decision, string, error) {
	decision, reason, err := decide(request, grants)
	if err != nil || decision != authorizer.DecisionAllow || request.GetResource() != "secrets" || request.GetName() == "" {
		return decision, reason, err
	}
	switch holds, err := l.HoldsCredential(ctx, request.GetName()); {
	case err != nil:
		return unknown(err)
	case holds:
		return authorizer.DecisionNoOpinion, "the Secret holds a credential of the control plane", nil
	}
	return decision, reason, nil
}

// karmadaAgentGrants are the rights of a karmada-agent. Some requests that it makes are for more: the API server answers lists and watches
// of Clusters and Services with those of the agent only, and admission keeps the spec of the Cluster and drops the data of Secrets.
func karmadaAgentGrants(name string) []grant {
	return slices.Concat([]grant{
		{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: []string{"get", "update"}, names: []string{name}},
		{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: []string{"list", "watch"}, names: []string{name, ""}},
		{resource: "services", verbs: []string{"list", "watch"}},
		{resource: "namespaces", verbs: []string{"get"}, namespace: clusterv1alpha1.ClusterNamespace, names: []string{clusterv1alpha1.ClusterNamespace}},
		{resource: "secrets", verbs: []string{"get", "patch"}, namespace: clusterv1alpha1.ClusterNamespace, names: clusterv1alpha1.KarmadaAgentSecrets(name)},
		{resource: "secrets", verbs: create, namespace: clusterv1alpha1.ClusterNamespace},
		// Of Leases and Events, admission checks which.
		{resource: "events", verbs: write, namespace: workv1alpha1.ExecutionNamespace(name)},
		{resource: "events", verbs: write, namespace: metav1.NamespaceDefault},
		{resource: "events", verbs: slices.Concat(create, write), namespace: clusterv1alpha1.SystemNamespace},
	}, leaseGrants(clusterv1alpha1.SystemNamespace, clusterv1alpha1.KarmadaElectionLease(name)), reportGrants(name), commonGrants())
}

// registrarGrants are the rights of karmadactl while it prepares a registration. Admission bounds what it creates and deletes.
func registrarGrants(cluster, request string) []grant {
	const group = "rbac.authorization.k8s.io"
	grants := []grant{
		{group: clusterv1alpha1.GroupName, resource: "clusters", verbs: []string{"get"}, names: []string{cluster}},
		{group: "certificates.k8s.io", resource: "certificatesigningrequests", verbs: []string{"delete"}, names: []string{request}},
		{resource: "namespaces", verbs: create},
	}
	for _, namespace := range []string{"", clusterv1alpha1.ClusterNamespace, workv1alpha1.ExecutionNamespace(cluster)} {
		roles, bindings := "roles", "rolebindings"
		if namespace == "" {
			roles, bindings = "clusterroles", "clusterrolebindings"
		}
		name := []string{clusterv1alpha1.KarmadaAgentRole(cluster, namespace)}
		grants = append(grants,
			grant{group: group, resource: roles, verbs: create, namespace: namespace},
			grant{group: group, resource: bindings, verbs: create, namespace: namespace},
			// A binding that karmadactl creates has no subjects. Without "bind" the API server reads the role, which its cache may not have yet.
			grant{group: group, resource: roles, verbs: []string{"bind", "delete"}, namespace: namespace, names: name},
			grant{group: group, resource: bindings, verbs: []string{"delete"}, namespace: namespace, names: name})
	}
	return grants
}

// publicGrants are the rights of clients without a credential. They reach them only if bootstrap tokens are enabled: see package access.
func publicGrants(who user.Info) []grant {
	if !slices.Contains(who.GetGroups(), user.AllUnauthenticated) {
		return nil
	}
	return []grant{{resource: "configmaps", verbs: []string{"get"}, namespace: metav1.NamespacePublic, names: []string{bootstrapapi.ConfigMapClusterInfo}}}
}
