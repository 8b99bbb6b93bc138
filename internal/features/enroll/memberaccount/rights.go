package memberaccount

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Rights are the rules of the control plane's account in a member, besides those that it needs for itself (see needs).
type Rights []rbacv1.PolicyRule

// AllRights let the control plane propagate objects of any kind, with any rights in them.
func AllRights() Rights {
	return Rights{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
	}
}

// All returns whether the rights are unbounded.
func (r Rights) All() bool {
	return slices.ContainsFunc(r, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, "*") && slices.Contains(rule.Resources, "*") && slices.Contains(rule.Verbs, "*") &&
			len(rule.ResourceNames) == 0
	})
}

// KindRights say what RightsOn grants.
type KindRights struct {
	// Kinds are the resources that are propagated. Required.
	Kinds []schema.GroupResource
	// ReadOnly grants no right to write them: objects are written as an account of their namespace.
	ReadOnly bool
	// Resources grants the right to read nodes, pods and ResourceQuotas, from which the Cluster's summary of resources is made.
	Resources bool
	// Events grants the right to read Events, and by name the objects below workloads, by which an Event is attributed to a template.
	Events bool
}

var (
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"create", "patch", "delete"}
)

// RightsOn are the rights to propagate objects of some kinds, and to create the namespaces they are in. Namespaces are not
// deleted with these rights.
func RightsOn(o KindRights) Rights {
	verbs := readVerbs
	if !o.ReadOnly {
		verbs = slices.Concat(readVerbs, writeVerbs)
	}
	rights := Rights{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: slices.Concat(readVerbs, []string{"create", "patch"})}}
	for _, kind := range o.Kinds {
		rights = append(rights, rbacv1.PolicyRule{APIGroups: []string{kind.Group}, Resources: []string{kind.Resource}, Verbs: verbs})
	}
	if o.Resources {
		rights = append(rights, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "pods", "resourcequotas"}, Verbs: readVerbs})
	}
	if o.Events {
		get := []string{"get"}
		rights = append(rights,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: readVerbs},
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "persistentvolumeclaims"}, Verbs: get},
			rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"replicasets"}, Verbs: get},
			rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: get})
	}
	return rights
}

// ParseKinds reads resources in the form of kubectl, such as deployments.apps and configmaps.
func ParseKinds(names []string) ([]schema.GroupResource, error) {
	if len(names) == 0 {
		return nil, errors.New("no kind is named: give resources such as deployments.apps,services,configmaps")
	}
	kinds := make([]schema.GroupResource, 0, len(names))
	for _, name := range names {
		kind := schema.ParseGroupResource(name)
		problems := validation.IsDNS1123Label(kind.Resource)
		if kind.Group != "" {
			problems = append(problems, validation.IsDNS1123Subdomain(kind.Group)...)
		}
		if len(problems) > 0 {
			return nil, fmt.Errorf("%q is no resource such as deployments.apps or configmaps: %s", name, strings.Join(problems, "; "))
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// ParseRights reads a file of rights: a list of PolicyRules, or a ClusterRole.
func ParseRights(text []byte) (Rights, error) {
	var rights Rights
	if err := yaml.UnmarshalStrict(text, &rights); err != nil {
		var role rbacv1.ClusterRole
		if otherwise := yaml.UnmarshalStrict(text, &role); otherwise != nil || role.Kind != "ClusterRole" {
			return nil, fmt.Errorf("reading the rights: neither a list of PolicyRules (%w) nor a ClusterRole", err)
		}
		if role.AggregationRule != nil {
			return nil, errors.New("reading the rights: the ClusterRole is aggregated, so that the cluster would replace its rules")
		}
		rights = role.Rules
	}
	for i, rule := range rights {
		if len(rule.Verbs) == 0 || len(rule.Resources) == 0 && len(rule.NonResourceURLs) == 0 {
			return nil, fmt.Errorf("reading the rights: rule %d lacks verbs, or resources and nonResourceURLs", i)
		}
		if len(rule.Resources) > 0 && len(rule.APIGroups) == 0 {
			return nil, fmt.Errorf("reading the rights: rule %d lacks apiGroups", i)
		}
	}
	if len(rights) == 0 {
		return nil, errors.New("reading the rights: there is no rule")
	}
	return rights, nil
}

// needs are the rights without which the control plane cannot keep a connection to a member, report its state, and leave
// it. docs/security.md has them as a table.
func (a Account) needs() Rights {
	roles := []string{a.Role, Impersonator}
	return Rights{
		{NonResourceURLs: []string{"/readyz", "/version", "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{KubeSystem}, Verbs: []string{"get"}},
		{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: readVerbs},
		// To leave.
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{clusterv1alpha1.ClusterNamespace}, Verbs: []string{"get", "delete"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "clusterrolebindings"}, ResourceNames: roles, Verbs: []string{"get", "delete"}},
	}
}

// needsAtHome are the rights of the same account that hold only in the namespace of its ServiceAccount.
func (a Account) needsAtHome() Rights {
	own := []string{a.Name}
	return Rights{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: own, Verbs: []string{"create"}},
		// The Lease from which a restored control plane reads when the member was written to last.
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "patch", "delete"}},
		// To read its service account token Secret, which join creates, and to delete it. Its name is that of the account.
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: own, Verbs: []string{"get", "delete"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: append(own, Impersonator), Verbs: []string{"delete"}},
	}
}

// Impersonating is the right to act as the account of this name in every namespace.
func Impersonating(serviceAccount string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{serviceAccount}, Verbs: []string{"impersonate"}}
}

// Granted are the rights that the control plane has in a member already; nil if it has none.
func (a Account) Granted(ctx context.Context, member kubernetes.Interface) (Rights, error) {
	role, err := member.RbacV1().ClusterRoles().Get(ctx, a.Role, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ClusterRole %s in the member: %w", a.Role, err)
	}
	return role.Rules, nil
}

// Merged are both without what is repeated.
func (r Rights) Merged(more Rights) Rights {
	all := slices.Clone(r)
	for _, rule := range more {
		if !slices.ContainsFunc(all, func(have rbacv1.PolicyRule) bool { return have.String() == rule.String() }) {
			all = append(all, rule)
		}
	}
	return all
}

func (r Rights) configuration() []*applyrbacv1.PolicyRuleApplyConfiguration {
	rules := make([]*applyrbacv1.PolicyRuleApplyConfiguration, 0, len(r))
	for _, rule := range r {
		rules = append(rules, applyrbacv1.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).WithNonResourceURLs(rule.NonResourceURLs...).WithVerbs(rule.Verbs...))
	}
	return rules
}
