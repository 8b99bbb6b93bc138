package attacks_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var updateMatrix = flag.Bool("update-matrix", false, "write testdata/matrix.txt")

// matrixFile lists what each role allows in the tenant's own namespace, or cluster-wide for the operator.
const matrixFile = "testdata/matrix.txt"

// verbs of the matrix.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// served is one resource or subresource of the control plane.
type served struct {
	group, version, name, subresource string
	namespaced                        bool
}

func (s served) String() string {
	name := s.name
	if s.subresource != "" {
		name += "/" + s.subresource
	}
	if s.group != "" {
		name += "." + s.group
	}
	return name
}

// TestTenantByVerbByKind requests every verb on every resource that the control plane serves, as tenants with each of the roles
// that they are given, in their namespace and in another one. A resource that is served one day and not in the table fails the
// test, so no role gets a right by accident.
func TestTenantByVerbByKind(t *testing.T) {
	fleet := shared.Start(t)
	own, other := fleet.Namespace(t), fleet.Namespace(t)
	tenants := map[string]*fleettest.Cluster{"unbound": fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "matrix-unbound"})}
	for _, role := range []string{"view", "edit", "admin"} {
		fleettest.Create(t, fleet.Hub, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "matrix-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{userNamed("matrix-" + role)},
		})
		tenants[role] = fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "matrix-" + role})
	}
	fleettest.Create(t, fleet.Hub, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "matrix-operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "karmada-operator"},
		Subjects:   []rbacv1.Subject{userNamed("matrix-operator")},
	})
	tenants["operator"] = fleet.Hub.As(t, rest.ImpersonationConfig{UserName: "matrix-operator"})
	// The roles that Kubernetes aggregates.
	var roles rbacv1.ClusterRoleList
	if err := fleet.Hub.List(t.Context(), &roles); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"view", "edit", "admin"} {
		fleettest.ExpectEventually(t, fleet.Hub, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}}, func(r *rbacv1.ClusterRole) error {
			return aggregates(r, roles.Items)
		})
		tenants[role].AwaitRight(t, authorizationv1.ResourceAttributes{Namespace: own, Verb: "get", Group: policyv1alpha1.GroupName, Resource: "propagationpolicies"})
	}
	tenants["operator"].AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "get", Group: clusterv1alpha1.GroupName, Resource: "clusters"})

	resources := everything(t, fleet.Hub)
	lines := make([]string, len(resources))
	var asking errgroup.Group
	asking.SetLimit(8)
	for i, r := range resources {
		asking.Go(func() error {
			var cells []string
			for _, role := range []string{"view", "edit", "admin", "operator", "unbound"} {
				allowed, err := rights(t.Context(), tenants[role], r, own)
				if err != nil {
					return err
				}
				if role != "operator" {
					elsewhere, err := rights(t.Context(), tenants[role], r, other)
					if err != nil {
						return err
					}
					if r.namespaced && len(elsewhere) > 0 {
						t.Errorf("%s may %v %s in the namespace of another tenant", role, elsewhere, r)
					}
				}
				if err := tryReally(t, tenants[role], r, own, allowed); err != nil {
					return err
				}
				if len(allowed) > 0 {
					cells = append(cells, role+": "+strings.Join(allowed, " "))
				}
			}
			lines[i] = fmt.Sprintf("%s | %s", r, strings.Join(cells, " | "))
			return nil
		})
	}
	if err := asking.Wait(); err != nil {
		t.Fatal(err)
	}
	compareMatrix(t, lines)
}

// aggregates returns nil if a role has all rules of those that are added to it.
func aggregates(role *rbacv1.ClusterRole, all []rbacv1.ClusterRole) error {
	for i := range all {
		if all[i].Labels["rbac.authorization.k8s.io/aggregate-to-"+role.Name] != "true" {
			continue
		}
		for _, rule := range all[i].Rules {
			if !slices.ContainsFunc(role.Rules, func(has rbacv1.PolicyRule) bool { return reflect.DeepEqual(has, rule) }) {
				return fmt.Errorf("role %s does not have the rules of %s yet", role.Name, all[i].Name)
			}
		}
	}
	return nil
}

func compareMatrix(t *testing.T, lines []string) {
	t.Helper()
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasSuffix(line, "| ") })
	slices.Sort(lines)
	if *updateMatrix {
		if err := os.WriteFile(matrixFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("what roles allow differs from %s (-want +got); -update-matrix writes it anew:\n%s", matrixFile, diff)
	}
}

// everything lists what the control plane serves, in the preferred version of each group. Kinds that other tests define do not
// count.
func everything(t *testing.T, hub *fleettest.Cluster) []served {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var out []served
	for _, list := range lists {
		full, err := disco.ServerResourcesForGroupVersion(list.GroupVersion) // the preferred ones lack subresources
		if err != nil {
			t.Fatal(err)
		}
		group, version, _ := strings.Cut(list.GroupVersion, "/")
		if version == "" {
			group, version = "", group
		}
		if strings.HasSuffix(group, "example.com") || strings.HasSuffix(group, "example.io") {
			continue
		}
		for _, r := range full.APIResources {
			name, sub, _ := strings.Cut(r.Name, "/")
			out = append(out, served{group, version, name, sub, r.Namespaced})
		}
	}
	return out
}

// rights returns which verbs a user may use.
func rights(ctx context.Context, user *fleettest.Cluster, r served, namespace string) ([]string, error) {
	if !r.namespaced {
		namespace = ""
	}
	var allowed []string
	for _, verb := range verbs {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: verb, Group: r.group, Version: r.version, Resource: r.name, Subresource: r.subresource,
			},
		}}
		if err := user.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("asking for the right to %s %s: %w", verb, r, err)
		}
		if review.Status.Allowed {
			allowed = append(allowed, verb)
		}
	}
	return allowed, nil
}

// tryReally sends requests, since what a review says is worth nothing if the server decides otherwise. Nothing is written.
// A request that is allowed fails for another reason than RBAC: there is no such object, or its body is empty.
func tryReally(t *testing.T, user *fleettest.Cluster, r served, namespace string, allowed []string) error {
	if r.subresource != "" {
		return nil // Which methods a subresource supports differs; that they are authorized alike is shown by the rest.
	}
	path := "/apis/" + r.group + "/" + r.version
	if r.group == "" {
		path = "/api/" + r.version
	}
	if r.namespaced {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.name
	web, err := rest.HTTPClientFor(user.Config)
	if err != nil {
		return err
	}
	for verb, request := range map[string][3]string{
		"get": {http.MethodGet, path + "/matrix-absent", ""}, "list": {http.MethodGet, path + "?limit=1", ""},
		"create": {http.MethodPost, path + "?dryRun=All", "{}"}, "update": {http.MethodPut, path + "/matrix-absent?dryRun=All", "{}"},
		"patch": {http.MethodPatch, path + "/matrix-absent?dryRun=All", "{}"}, "delete": {http.MethodDelete, path + "/matrix-absent?dryRun=All", ""},
		"deletecollection": {http.MethodDelete, path + "?dryRun=All&labelSelector=matrix%3Dabsent", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), request[0], user.Config.Host+request[1], strings.NewReader(request[2]))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		if verb == "patch" {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
		resp, err := web.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if refused, may := resp.StatusCode == http.StatusForbidden, slices.Contains(allowed, verb); refused == may && resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %s as %s: the server answers %s, the review says %v", verb, r, user.Name, resp.Status, may)
		}
	}
	return nil
}
