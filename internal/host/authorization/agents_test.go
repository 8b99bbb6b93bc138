package authorization_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/authorization"
)

func TestAgents(t *testing.T) {
	agents := authorization.NewAgents(authorization.Lookups{
		Cluster: func(_ context.Context, name string) (*clusterv1alpha1.Cluster, error) {
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "1"}}
			switch name {
			case "eu":
				cluster.Spec.SyncMode = clusterv1alpha1.Pull
			case "kay", "joined":
				cluster.Spec.SyncMode = clusterv1alpha1.Pull
				cluster.Annotations = map[string]string{clusterv1alpha1.AgentCredentialsAnnotation: "former,present"}
			case "us":
				cluster.Spec.SyncMode = clusterv1alpha1.Push
			default:
				return nil, nil
			}
			return cluster, nil
		},
		TokenCluster: func(_ context.Context, user string) (string, error) {
			return map[string]string{"system:bootstrap:bound1": "eu"}[user], nil
		},
		IssuedWith: func(_ context.Context, credential string) (string, string, error) {
			if credential == "issued" {
				return "csr", "new", nil
			}
			if credential == "issued-again" {
				return "csr", "left", nil
			}
			return "", "", nil
		},
		HoldsCredential: func(_ context.Context, name string) (bool, error) {
			return name == "joined" || name == "left", nil
		},
	})
	karmada := func(cluster, credential string) user.Info {
		return &user.DefaultInfo{Name: clusterv1alpha1.AgentUser(cluster), Groups: []string{clusterv1alpha1.AgentsGroup, user.AllAuthenticated},
			Extra: map[string][]string{user.CredentialIDKey: {credential}}}
	}
	anonymous := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	agent := func(cluster string, uid string) user.Info {
		return &user.DefaultInfo{Name: clusterv1alpha1.AgentUser(cluster), Groups: []string{
			clusterv1alpha1.AgentsGroup, clusterv1alpha1.AgentClusterGroupPrefix + uid, user.AllAuthenticated,
		}}
	}
	token := func(id string) user.Info {
		return &user.DefaultInfo{Name: "system:bootstrap:" + id, Groups: []string{clusterv1alpha1.AgentBootstrappersGroup}}
	}
	request := func(verb, group, resource, subresource, namespace, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{
			ResourceRequest: true, Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
		}
	}
	page := func(path string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: "get", Path: path}
	}
	const works, clusters, leases, csrs, rbac = "work.karmada.io", "cluster.karmada.io", "coordination.k8s.io", "certificates.k8s.io", "rbac.authorization.k8s.io"
	tests := map[string]struct {
		reason  string
		who     user.Info
		request authorizer.AttributesRecord
		allowed bool
	}{
		"Works":                {"an agent watches the Works of its cluster", agent("eu", "1"), request("watch", works, "works", "", "karmada-es-eu", ""), true},
		"WorkStatus":           {"and reports on them", agent("eu", "1"), request("patch", works, "works", "status", "karmada-es-eu", "web"), true},
		"OtherWorks":           {"but not those of another cluster, which may hold Secrets", agent("eu", "1"), request("list", works, "works", "", "karmada-es-us", ""), false},
		"AllWorks":             {"nor of all clusters", agent("eu", "1"), request("list", works, "works", "", "", ""), false},
		"NewWork":              {"it records what its member has in Works; admission checks that they are records", agent("eu", "1"), request("create", works, "works", "", "karmada-es-eu", ""), true},
		"DeletesWork":          {"and deletes these records", agent("eu", "1"), request("delete", works, "works", "", "karmada-es-eu", "web"), true},
		"OtherRecords":         {"but has none in other namespaces", agent("eu", "1"), request("create", works, "works", "", "karmada-es-us", ""), false},
		"AllWorksDeleted":      {"and deletes no collection", agent("eu", "1"), request("deletecollection", works, "works", "", "karmada-es-eu", ""), false},
		"Status":               {"it writes the status of its Cluster", agent("eu", "1"), request("patch", clusters, "clusters", "status", "", "eu"), true},
		"Spec":                 {"but not its labels, taints or spec, which decide what is scheduled there", agent("eu", "1"), request("patch", clusters, "clusters", "", "", "eu"), false},
		"OtherStatus":          {"nor the status of another one", agent("eu", "1"), request("patch", clusters, "clusters", "status", "", "us"), false},
		"OwnCluster":           {"it watches its Cluster by a field selector", agent("eu", "1"), request("watch", clusters, "clusters", "", "", "eu"), true},
		"AllClusters":          {"and not all of them", agent("eu", "1"), request("list", clusters, "clusters", "", "", ""), false},
		"Capacity":             {"it writes the capacity of its Cluster", agent("eu", "1"), request("patch", "fleet.flagship.io", "clustercapacities", "", "", "eu"), true},
		"OtherCapacity":        {"and of no other one", agent("eu", "1"), request("patch", "fleet.flagship.io", "clustercapacities", "", "", "us"), false},
		"ReadsCapacity":        {"nor does it read those of others", agent("eu", "1"), request("list", "fleet.flagship.io", "clustercapacities", "", "", ""), false},
		"DeletesCapacity":      {"or deletes any", agent("eu", "1"), request("delete", "fleet.flagship.io", "clustercapacities", "", "", "eu"), false},
		"Proxy":                {"it has no way into members", agent("eu", "1"), request("get", clusters, "clusters", "proxy", "", "eu"), false},
		"Tunnel":               {"it opens the tunnel of its cluster", agent("eu", "1"), request("create", clusters, "clusters", "tunnel", "", "eu"), true},
		"OtherTunnel":          {"and not that of another one, whose requests it would receive", agent("eu", "1"), request("create", clusters, "clusters", "tunnel", "", "us"), false},
		"TokenTunnel":          {"a bootstrap token opens none", token("bound1"), request("create", clusters, "clusters", "tunnel", "", "eu"), false},
		"Kinds":                {"it reads which kinds are served", agent("eu", "1"), page("/apis"), true},
		"Groups":               {"and what their versions have", agent("eu", "1"), page("/apis/apps/v1"), true},
		"OtherPages":           {"but no other page", agent("eu", "1"), page("/metrics"), false},
		"GoneDiscovery":        {"without its Cluster it has what RBAC allows", agent("asia", "1"), page("/apis"), false},
		"TokenDiscovery":       {"as a bootstrap token", token("bound1"), page("/apis"), false},
		"Lease":                {"it renews its Lease", agent("eu", "1"), request("update", leases, "leases", "", "karmada-cluster", "eu"), true},
		"OtherLease":           {"and no other one, which would keep a dead cluster alive", agent("eu", "1"), request("update", leases, "leases", "", "karmada-cluster", "us"), false},
		"Secrets":              {"credentials of members are not for agents", agent("eu", "1"), request("get", "", "secrets", "", "karmada-cluster", "eu"), false},
		"Templates":            {"nor are templates", agent("eu", "1"), request("list", "apps", "deployments", "", "shop", ""), false},
		"Identity":             {"the namespace that identifies the control plane is", agent("eu", "1"), request("get", "", "namespaces", "", "kube-system", "kube-system"), true},
		"Renewal":              {"it requests a new certificate", agent("eu", "1"), request("create", csrs, "certificatesigningrequests", "", "", ""), true},
		"Approval":             {"which it does not approve itself", agent("eu", "1"), request("update", csrs, "certificatesigningrequests", "approval", "", "x"), false},
		"Earlier":              {"the certificate of a Cluster that was deleted is of no use for its successor", agent("eu", "0"), request("watch", works, "works", "", "karmada-es-eu", ""), false},
		"Gone":                 {"or without one", agent("asia", "1"), request("watch", works, "works", "", "karmada-es-asia", ""), false},
		"Push":                 {"a Cluster that the control plane serves has no agent", agent("us", "1"), request("watch", works, "works", "", "karmada-es-us", ""), false},
		"NameAlone":            {"the name alone makes no agent", &user.DefaultInfo{Name: clusterv1alpha1.AgentUser("eu")}, request("watch", works, "works", "", "karmada-es-eu", ""), false},
		"NoCluster":            {"nor does the group alone", &user.DefaultInfo{Name: "eve", Groups: clusterv1alpha1.AgentGroups("1")}, request("watch", works, "works", "", "karmada-es-eu", ""), false},
		"TokenRegisters":       {"a bootstrap token creates a Cluster; admission checks the name", token("bound1"), request("create", clusters, "clusters", "", "", ""), true},
		"TokenReads":           {"and reads it", token("bound1"), request("get", clusters, "clusters", "", "", "eu"), true},
		"TokenReadsOther":      {"but no other one", token("bound1"), request("get", clusters, "clusters", "", "", "us"), false},
		"TokenUnbound":         {"a token that names no cluster does nothing", token("loose1"), request("create", clusters, "clusters", "", "", ""), false},
		"TokenIdentity":        {"the id of the control plane is no secret: register writes it into the member", token("bound1"), request("get", "", "namespaces", "", "kube-system", "kube-system"), true},
		"TokenNamespaces":      {"other namespaces are none of its concern", token("bound1"), request("get", "", "namespaces", "", "shop", "shop"), false},
		"TokenReadsWorks":      {"no token reads Works", token("bound1"), request("list", works, "works", "", "karmada-es-eu", ""), false},
		"Discovery":            {"cluster-info is read without a credential", anonymous, request("get", "", "configmaps", "", "kube-public", "cluster-info"), true},
		"Undiscovered":         {"and nothing else", anonymous, request("get", "", "configmaps", "", "kube-public", "other"), false},
		"Registrar":            {"karmadactl creates roles; admission empties them", karmada("rbac-generator", "issued"), request("create", rbac, "clusterroles", "", "", ""), true},
		"RegistrarBinds":       {"and binds them", karmada("rbac-generator", "issued"), request("bind", rbac, "clusterroles", "", "", "system:karmada:new:agent"), true},
		"RegistrarAdmin":       {"and no other one", karmada("rbac-generator", "issued"), request("bind", rbac, "clusterroles", "", "", "cluster-admin"), false},
		"RegistrarEscalates":   {"nor creates a role with rules", karmada("rbac-generator", "issued"), request("escalate", rbac, "clusterroles", "", "", "system:karmada:new:agent"), false},
		"RegistrarReads":       {"it reads whether its Cluster exists", karmada("rbac-generator", "issued"), request("get", clusters, "clusters", "", "", "new"), true},
		"RegistrarOther":       {"and no other one", karmada("rbac-generator", "issued"), request("get", clusters, "clusters", "", "", "eu"), false},
		"RegistrarCleans":      {"it deletes its request", karmada("rbac-generator", "issued"), request("delete", csrs, "certificatesigningrequests", "", "", "csr"), true},
		"RegistrarCleansOther": {"and no other one", karmada("rbac-generator", "issued"), request("delete", csrs, "certificatesigningrequests", "", "", "other"), false},
		"RegistrarSecrets":     {"it has none of the rights of an agent", karmada("rbac-generator", "issued"), request("create", "", "secrets", "", "karmada-cluster", ""), false},
		"RegistrarEnded":       {"it does nothing after its request is gone, or its token", karmada("rbac-generator", "deleted"), request("create", rbac, "clusterroles", "", "", ""), false},
		"KarmadaCreates":       {"a karmada-agent creates its Cluster", karmada("new", "issued"), request("create", clusters, "clusters", "", "", ""), true},
		"KarmadaOther":         {"with a certificate that was issued for it", karmada("us2", "issued"), request("create", clusters, "clusters", "", "", ""), false},
		"KarmadaUnissued":      {"by a token that has not ended", karmada("new", "ended"), request("create", clusters, "clusters", "", "", ""), false},
		"KarmadaWorks":         {"it watches its Works", karmada("kay", "present"), request("watch", works, "works", "", "karmada-es-kay", ""), true},
		"KarmadaRenewed":       {"with each certificate that its Cluster lists", karmada("kay", "former"), request("watch", works, "works", "", "karmada-es-kay", ""), true},
		"KarmadaStale":         {"and with no other one of the same name", karmada("kay", "stale"), request("watch", works, "works", "", "karmada-es-kay", ""), false},
		"KarmadaIssued":        {"also if that was just issued", karmada("kay", "issued"), request("watch", works, "works", "", "karmada-es-kay", ""), false},
		"KarmadaNone":          {"or is none", karmada("kay", ""), request("watch", works, "works", "", "karmada-es-kay", ""), false},
		"KarmadaForeign":       {"a Cluster with another agent lists none", karmada("eu", "present"), request("watch", works, "works", "", "karmada-es-eu", ""), false},
		"KarmadaRecreates":     {"it does not create its Cluster a second time", karmada("kay", "present"), request("create", clusters, "clusters", "", "", ""), false},
		"KarmadaDeletes":       {"nor delete it", karmada("kay", "present"), request("delete", clusters, "clusters", "", "", "kay"), false},
		"KarmadaTunnel":        {"it has no tunnel", karmada("kay", "present"), request("create", clusters, "clusters", "tunnel", "", "kay"), false},
		"KarmadaSecret":        {"it writes the Secrets of its member", karmada("kay", "present"), request("patch", "", "secrets", "", "karmada-cluster", "kay-impersonator"), true},
		"KarmadaJoined":        {"unless they hold credentials of the control plane", karmada("joined", "present"), request("get", "", "secrets", "", "karmada-cluster", "joined"), false},
		"KarmadaJoinedPatch":   {"which the answer to a change would have", karmada("joined", "present"), request("patch", "", "secrets", "", "karmada-cluster", "joined"), false},
		"KarmadaLeft":          {"or were left by an earlier Cluster of the name", karmada("left", "issued-again"), request("get", "", "secrets", "", "karmada-cluster", "left"), false},
		"KarmadaEpoch":         {"it does not count periods of writing", karmada("kay", "present"), request("update", leases, "leases", "", "karmada-system", "member-kay"), false},
		"KarmadaElection":      {"it elects one of its kind", karmada("kay", "present"), request("update", leases, "leases", "", "karmada-system", "karmada-agent-kay"), true},
		"TokenCertificate":     {"it requests the agent's certificate", token("bound1"), request("create", csrs, "certificatesigningrequests", "", "", ""), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.request.User = tc.who
			decision, _, err := agents.Authorize(t.Context(), tc.request)
			if err != nil || decision == authorizer.DecisionDeny || (decision == authorizer.DecisionAllow) != tc.allowed {
				t.Errorf("%s: decision %v, %v; want allowed=%v", tc.reason, decision, err, tc.allowed)
			}
		})
	}
}

// TestARequestIsNotRefusedWhileItsRightsAreUnknown: an agent that is refused ends.
func TestARequestIsNotRefusedWhileItsRightsAreUnknown(t *testing.T) {
	missing := errors.New("the cache is not filled")
	agents := authorization.NewAgents(authorization.Lookups{
		Cluster:      func(context.Context, string) (*clusterv1alpha1.Cluster, error) { return nil, missing },
		TokenCluster: func(context.Context, string) (string, error) { return "", missing },
		IssuedWith:   func(context.Context, string) (string, string, error) { return "", "", missing },
	})
	for name, groups := range map[string][]string{
		clusterv1alpha1.AgentUser("eu"): {clusterv1alpha1.AgentsGroup, clusterv1alpha1.AgentClusterGroupPrefix + "1"},
		clusterv1alpha1.AgentUser("us"): {clusterv1alpha1.AgentsGroup}, // a karmada-agent
		"system:bootstrap:bound1":       {clusterv1alpha1.AgentBootstrappersGroup},
	} {
		decision, _, err := agents.Authorize(t.Context(), authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: name, Groups: groups}, ResourceRequest: true, Verb: "get", APIGroup: clusterv1alpha1.GroupName, Resource: "clusters", Name: "eu",
		})
		if decision == authorizer.DecisionAllow || !errors.Is(err, missing) {
			t.Errorf("%s: the decision is %v with the error %v", name, decision, err)
		}
	}
	agent := &user.DefaultInfo{Name: clusterv1alpha1.AgentUser("eu"), Groups: []string{clusterv1alpha1.AgentsGroup, clusterv1alpha1.AgentClusterGroupPrefix + "1"}}
	if decision, _, err := agents.Authorize(t.Context(), authorizer.AttributesRecord{User: agent, Verb: "get", Path: "/api"}); decision == authorizer.DecisionAllow || !errors.Is(err, missing) {
		t.Errorf("discovery: the decision is %v with the error %v", decision, err)
	}
}
