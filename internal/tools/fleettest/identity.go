package fleettest

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
	tenant := c.As(t, rest.ImpersonationConfig{UserName: name})
	resource, subresource, _ := strings.Cut(resources[len(resources)-1], "/")
	tenant.AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "*", Resource: resource, Subresource: subresource})
	return tenant
}

// AwaitRight returns once the user of this client has a right: the API server's authorizer receives a new role a moment
// after it was written.
func (c *Cluster) AwaitRight(t testing.TB, right authorizationv1.ResourceAttributes) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), rightsPoll, Patience, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		last = c.Create(ctx, review)
		return last == nil && review.Status.Allowed, nil
	})
	if err != nil {
		t.Fatalf("waiting for the right to %s %s: %v: %v", right.Verb, right.Resource, err, last)
	}
}

// rightsPoll is how often a right is read.
const rightsPoll = 20 * time.Millisecond

// ClusterRights gives a user rules in all namespaces until the test ends, and returns once they count.
func (c *Cluster) ClusterRights(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "rights-"}, Rules: rules}
	Create(t, c, role)
	Create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	for _, rule := range rules {
		if len(rule.Resources) == 0 {
			continue
		}
		right := authorizationv1.ResourceAttributes{Verb: rule.Verbs[0], Group: rule.APIGroups[0]}
		right.Resource, right.Subresource, _ = strings.Cut(rule.Resources[0], "/")
		if len(rule.ResourceNames) > 0 {
			right.Name = rule.ResourceNames[0]
		}
		c.As(t, rest.ImpersonationConfig{UserName: user}).AwaitRight(t, right)
	}
}
