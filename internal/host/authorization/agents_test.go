package authorization_test

import (
	"context"
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
	})
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
	const works, clusters, leases, csrs = "work.karmada.io", "cluster.karmada.io", "coordination.k8s.io", "certificates.k8s.io"
	tests := map[string]struct {
		reason  string
		who     user.Info
		request authorizer.AttributesRecord
		allowed bool
	}{
		"Works":            {"an agent watches the Works of its cluster", agent("eu", "1"), request("watch", works, "works", "", "karmada-es-eu", ""), true},
		"WorkStatus":       {"and reports on them", agent("eu", "1"), request("patch", works, "works", "status", "karmada-es-eu", "web"), true},
		"OtherWorks":       {"but not those of another cluster, which may hold Secrets", agent("eu", "1"), request("list", works, "works", "", "karmada-es-us", ""), false},
		"AllWorks":         {"nor of all clusters", agent("eu", "1"), request("list", works, "works", "", "", ""), false},
		"NewWork":          {"it creates no Work", agent("eu", "1"), request("create", works, "works", "", "karmada-es-eu", ""), false},
		"DeletesWork":      {"and deletes none", agent("eu", "1"), request("delete", works, "works", "", "karmada-es-eu", "web"), false},
		"Status":           {"it writes the status of its Cluster", agent("eu", "1"), request("patch", clusters, "clusters", "status", "", "eu"), true},
		"Spec":             {"but not its labels, taints or spec, which decide what is scheduled there", agent("eu", "1"), request("patch", clusters, "clusters", "", "", "eu"), false},
		"OtherStatus":      {"nor the status of another one", agent("eu", "1"), request("patch", clusters, "clusters", "status", "", "us"), false},
		"OwnCluster":       {"it watches its Cluster by a field selector", agent("eu", "1"), request("watch", clusters, "clusters", "", "", "eu"), true},
		"AllClusters":      {"and not all of them", agent("eu", "1"), request("list", clusters, "clusters", "", "", ""), false},
		"Proxy":            {"it has no way into members", agent("eu", "1"), request("get", clusters, "clusters", "proxy", "", "eu"), false},
		"Lease":            {"it renews its Lease", agent("eu", "1"), request("update", leases, "leases", "", "karmada-cluster", "eu"), true},
		"OtherLease":       {"and no other one, which would keep a dead cluster alive", agent("eu", "1"), request("update", leases, "leases", "", "karmada-cluster", "us"), false},
		"Secrets":          {"credentials of members are not for agents", agent("eu", "1"), request("get", "", "secrets", "", "karmada-cluster", "eu"), false},
		"Templates":        {"nor are templates", agent("eu", "1"), request("list", "apps", "deployments", "", "shop", ""), false},
		"Identity":         {"the namespace that identifies the control plane is", agent("eu", "1"), request("get", "", "namespaces", "", "kube-system", "kube-system"), true},
		"Renewal":          {"it requests a new certificate", agent("eu", "1"), request("create", csrs, "certificatesigningrequests", "", "", ""), true},
		"Approval":         {"which it does not approve itself", agent("eu", "1"), request("update", csrs, "certificatesigningrequests", "approval", "", "x"), false},
		"Earlier":          {"the certificate of a Cluster that was deleted is of no use for its successor", agent("eu", "0"), request("watch", works, "works", "", "karmada-es-eu", ""), false},
		"Gone":             {"or without one", agent("asia", "1"), request("watch", works, "works", "", "karmada-es-asia", ""), false},
		"Push":             {"a Cluster that the control plane serves has no agent", agent("us", "1"), request("watch", works, "works", "", "karmada-es-us", ""), false},
		"NameAlone":        {"the name alone makes no agent", &user.DefaultInfo{Name: clusterv1alpha1.AgentUser("eu")}, request("watch", works, "works", "", "karmada-es-eu", ""), false},
		"NoCluster":        {"nor does the group alone", &user.DefaultInfo{Name: "eve", Groups: clusterv1alpha1.AgentGroups("1")}, request("watch", works, "works", "", "karmada-es-eu", ""), false},
		"TokenRegisters":   {"a bootstrap token creates a Cluster; admission checks the name", token("bound1"), request("create", clusters, "clusters", "", "", ""), true},
		"TokenReads":       {"and reads it", token("bound1"), request("get", clusters, "clusters", "", "", "eu"), true},
		"TokenReadsOther":  {"but no other one", token("bound1"), request("get", clusters, "clusters", "", "", "us"), false},
		"TokenUnbound":     {"a token that names no cluster does nothing", token("loose1"), request("create", clusters, "clusters", "", "", ""), false},
		"TokenReadsWorks":  {"no token reads Works", token("bound1"), request("list", works, "works", "", "karmada-es-eu", ""), false},
		"TokenCertificate": {"it requests the agent's certificate", token("bound1"), request("create", csrs, "certificatesigningrequests", "", "", ""), true},
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
