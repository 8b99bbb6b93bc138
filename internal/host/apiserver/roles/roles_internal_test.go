package roles

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
)

// kinds are the resources of our groups, by group and plural.
func kinds(t *testing.T) map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	out := map[schema.GroupResource]*apiextensionsv1.CustomResourceDefinition{}
	for _, d := range definitions {
		out[schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}] = d
	}
	return out
}

// allowed are the verbs of a role on each resource; a subresource has its name after a slash.
func allowed(role *rbacv1.ClusterRole) map[schema.GroupResource]sets.Set[string] {
	out := map[schema.GroupResource]sets.Set[string]{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				at := schema.GroupResource{Group: group, Resource: resource}
				if out[at] == nil {
					out[at] = sets.New[string]()
				}
				out[at].Insert(rule.Verbs...)
			}
		}
	}
	return out
}

func role(t *testing.T, name string) map[schema.GroupResource]sets.Set[string] {
	t.Helper()
	all := defaultRoles()
	at := slices.IndexFunc(all, func(r *rbacv1.ClusterRole) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("there is no role %s", name)
	}
	return allowed(all[at])
}

func TestRolesAreForResourcesThatAreServed(t *testing.T) {
	served := sets.New(
		schema.GroupResource{Resource: "events"}, schema.GroupResource{Resource: "namespaces"},
		schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: "clusters"},
		schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: "clusters/status"},
		schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: "clusters/proxy"},
	)
	for at, d := range kinds(t) {
		served.Insert(at)
		if d.Spec.Versions[0].Subresources != nil && d.Spec.Versions[0].Subresources.Status != nil {
			served.Insert(schema.GroupResource{Group: at.Group, Resource: at.Resource + "/status"})
		}
	}
	for _, role := range defaultRoles() {
		for at := range allowed(role) {
			if !served.Has(at) {
				t.Errorf("%s has rights on %s, which does not exist", role.Name, at)
			}
		}
	}
}

// TestNoRoleLeadsToMoreRights: who has one of these rights can give himself others, read Secrets, or send objects to members that no
// policy allows.
func TestNoRoleLeadsToMoreRights(t *testing.T) {
	all := kinds(t)
	for _, role := range defaultRoles() {
		if role.AggregationRule != nil {
			t.Errorf("%s takes in the rules of other roles", role.Name)
		}
		for _, rule := range role.Rules {
			if len(rule.NonResourceURLs) > 0 || slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Resources, "*") {
				t.Errorf("%s has rights on more than named resources: %v", role.Name, rule)
			}
		}
		for at, verbs := range allowed(role) {
			proxy := at == schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: "clusters/proxy"}
			if proxy != (role.Name == proxyRole) {
				t.Errorf("%s has rights on %s; the proxy has a role of its own", role.Name, at)
			}
			if !proxy && verbs.HasAny("*", "impersonate", "bind", "escalate", "approve", "sign") {
				t.Errorf("%s may %v %s", role.Name, sets.List(verbs), at)
			}
			writes := verbs.HasAny(writeVerbs...)
			switch {
			case at.Group == "work.karmada.io" && strings.HasPrefix(at.Resource, "works"):
				t.Errorf("%s has rights on Works, which hold Secrets of all namespaces", role.Name)
			case at.Group == "work.karmada.io" && writes:
				t.Errorf("%s writes %s, and so decides what is sent where", role.Name, at)
			case strings.HasSuffix(at.Resource, "/status") && writes:
				t.Errorf("%s writes %s, which only the control plane does", role.Name, at)
			case at.Group == clusterv1alpha1.GroupName && verbs.HasAny("create", "delete", "deletecollection"):
				t.Errorf("%s may let clusters join or leave", role.Name)
			case at.Resource == "resourceinterpreterwebhookconfigurations" && writes:
				t.Errorf("%s writes %s, and so is sent the objects of all tenants", role.Name, at)
			case all[at] == nil && at.Group != clusterv1alpha1.GroupName && writes:
				t.Errorf("%s writes %s, which is not of our groups", role.Name, at)
			}
		}
	}
}

// TestTenantsHaveRightsInTheirNamespaceOnly: view and edit are bound in namespaces and, with a ClusterRoleBinding, for all of them.
func TestTenantsHaveRightsInTheirNamespaceOnly(t *testing.T) {
	all := kinds(t)
	for _, name := range []string{viewRole, editRole} {
		for at := range role(t, name) {
			plain, _, _ := strings.Cut(at.Resource, "/")
			d := all[schema.GroupResource{Group: at.Group, Resource: plain}]
			if d == nil || d.Spec.Scope != apiextensionsv1.NamespaceScoped {
				t.Errorf("%s has rights on %s, which is not in a namespace", name, at)
			}
		}
	}
	for at, verbs := range role(t, viewRole) {
		if !verbs.Equal(sets.New(readVerbs...)) {
			t.Errorf("%s may %v %s, want to read it", viewRole, sets.List(verbs), at)
		}
	}
	for at, verbs := range role(t, editRole) {
		if at.Resource == "overridepolicies" && verbs.HasAll(readVerbs...) { // the role for viewers does not read them
			verbs = verbs.Difference(sets.New(readVerbs...))
		}
		if !verbs.Equal(sets.New(writeVerbs...)) {
			t.Errorf("%s may %v %s, want to write it: that it is read comes from %s", editRole, sets.List(verbs), at, viewRole)
		}
	}
}

// TestEveryKindIsInARole: a kind that is added without rights can be used by administrators only, which they notice late.
func TestEveryKindIsInARole(t *testing.T) {
	view, edit, operator := role(t, viewRole), role(t, editRole), role(t, operatorRole)
	// readOnly are kinds of namespaces that tenants do not write: limits on themselves, and what the control plane writes.
	readOnly := sets.New("federatedresourcequotas", "resourcebindings")
	for at, d := range kinds(t) {
		status := schema.GroupResource{Group: at.Group, Resource: at.Resource + "/status"}
		hasStatus := d.Spec.Versions[0].Subresources != nil && d.Spec.Versions[0].Subresources.Status != nil
		switch {
		case at.Resource == "works":
		case slices.Contains([]string{"explanations", "histories", "timelines", "undeletions", "driftreports"}, at.Resource):
			its := explainRole
			if at.Resource == "driftreports" {
				its = driftRole
			}
			if !operator[at].Equal(sets.New("create")) || !role(t, its)[at].Equal(sets.New("create")) {
				t.Errorf("%s may %v %s, want to create it alone", operatorRole, sets.List(operator[at]), at)
			}
		case at.Resource == "previews":
			if !operator[at].Equal(sets.New("create")) || !role(t, previewRole)[at].Equal(sets.New("create")) {
				t.Errorf("%s may %v %s, want to create it alone", operatorRole, sets.List(operator[at]), at)
			}
		case d.Spec.Scope == apiextensionsv1.NamespaceScoped:
			reads := view
			if at.Resource == "overridepolicies" { // they may have values of Secrets
				reads = edit
				if len(view[at]) > 0 {
					t.Errorf("%s may %v %s", viewRole, sets.List(view[at]), at)
				}
			}
			if !reads[at].HasAll(readVerbs...) || hasStatus && !view[status].HasAll(readVerbs...) {
				t.Errorf("%s does not read %s and its status", viewRole, at)
			}
			if got, want := edit[at].HasAll(writeVerbs...), !readOnly.Has(at.Resource); got != want {
				t.Errorf("%s writes %s: %v, want %v", editRole, at, got, want)
			}
		case !operator[at].HasAll(readVerbs...):
			t.Errorf("%s does not read %s", operatorRole, at)
		}
	}
	clusters := schema.GroupResource{Group: clusterv1alpha1.GroupName, Resource: "clusters"}
	if !operator[clusters].Equal(sets.New(append([]string{"patch", "update"}, readVerbs...)...)) {
		t.Errorf("%s may %v clusters", operatorRole, sets.List(operator[clusters]))
	}
}

// TestRolesAggregate: the built-in roles of tenants, which are bound already, include ours by these labels.
func TestRolesAggregate(t *testing.T) {
	want := map[string]string{
		viewRole: "rbac.authorization.k8s.io/aggregate-to-view", editRole: "rbac.authorization.k8s.io/aggregate-to-edit", proxyRole: "", operatorRole: "", explainRole: "", driftRole: "", previewRole: "",
	}
	for _, role := range defaultRoles() {
		label, known := want[role.Name]
		delete(want, role.Name)
		if !known {
			t.Errorf("%s is not in docs/security.md", role.Name)
		}
		for _, has := range []string{"rbac.authorization.k8s.io/aggregate-to-view", "rbac.authorization.k8s.io/aggregate-to-edit", "rbac.authorization.k8s.io/aggregate-to-admin"} {
			if (role.Labels[has] == "true") != (has == label) {
				t.Errorf("%s has the labels %v", role.Name, role.Labels)
			}
		}
		if role.Labels[clusterv1alpha1.BootstrappingLabel] != clusterv1alpha1.BootstrappingRBACDefaults || role.Annotations[rbacv1.AutoUpdateAnnotationKey] != "true" {
			t.Errorf("%s is not marked as one that the control plane restores: %v, %v", role.Name, role.Labels, role.Annotations)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing are %v", want)
	}
}
