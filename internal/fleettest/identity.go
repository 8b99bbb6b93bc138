package fleettest

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// As returns a client of the same cluster that acts as another user, with the rights of that user and no more.
// An identity without groups belongs to system:authenticated only.
func (c *Cluster) As(t testing.TB, identity rest.ImpersonationConfig) *Cluster {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = identity
	user, err := connectWith(c.Name+" as "+identity.UserName, c.Kubeconfig, config)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// Tenant returns a client of the cluster for a new user who may do everything with the named resources in one namespace,
// and nothing else. Resources of all API groups are meant by their plural names.
func (c *Cluster) Tenant(t testing.TB, namespace string, resources ...string) *Cluster {
	t.Helper()
	name := "tenant-" + namespace
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "tenant-"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: resources, Verbs: []string{"*"}}},
	}
	Create(t, c, role)
	Create(t, c, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
	return c.As(t, rest.ImpersonationConfig{UserName: name})
}

// ClusterRights gives a user rules in all namespaces until the test ends.
func (c *Cluster) ClusterRights(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "rights-"}, Rules: rules}
	Create(t, c, role)
	Create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}
