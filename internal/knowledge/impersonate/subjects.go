package impersonate

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	accountPrefix       = "system:serviceaccount:"
	accountsGroupPrefix = "system:serviceaccounts:"
	allAccountsGroup    = "system:serviceaccounts"
	authenticated       = "system:authenticated"
)

// Subjects are those who may be impersonated in one member.
type Subjects struct {
	// Users and Groups are names, sorted.
	Users, Groups []string
	// Accounts are names of service accounts, sorted, by namespace. A nil list means all of the namespace.
	Accounts map[string][]string
}

// Holders returns the subjects that hold clusters/proxy of a cluster: those of every ClusterRoleBinding whose ClusterRole grants
// a verb on it. RoleBindings do not count, since Clusters are not in a namespace.
func Holders(cluster string, bindings []*rbacv1.ClusterRoleBinding, role func(name string) *rbacv1.ClusterRole) Subjects {
	users, groups := map[string]bool{}, map[string]bool{}
	accounts := map[string]map[string]bool{}
	whole := map[string]bool{}
	granted := map[string]bool{}
	for _, binding := range bindings {
		name := binding.RoleRef.Name
		if binding.RoleRef.Kind != "ClusterRole" {
			continue
		}
		if _, known := granted[name]; !known {
			granted[name] = grants(role(name), cluster)
		}
		if !granted[name] {
			continue
		}
		for _, s := range binding.Subjects {
			switch {
			case s.Kind == rbacv1.UserKind && !privilegedUser(s.Name):
				if namespace, account, ok := accountOf(s.Name); ok {
					note(accounts, namespace, account)
				} else {
					users[s.Name] = true
				}
			case s.Kind == rbacv1.ServiceAccountKind && !reserved(s.Namespace):
				note(accounts, s.Namespace, s.Name)
			case s.Kind == rbacv1.GroupKind && strings.HasPrefix(s.Name, accountsGroupPrefix):
				if namespace := strings.TrimPrefix(s.Name, accountsGroupPrefix); !reserved(namespace) {
					whole[namespace] = true
				}
			case s.Kind == rbacv1.GroupKind && !privilegedGroup(s.Name):
				groups[s.Name] = true
			}
		}
	}
	found := Subjects{Users: slices.Sorted(maps.Keys(users)), Groups: slices.Sorted(maps.Keys(groups)), Accounts: map[string][]string{}}
	for namespace, names := range accounts {
		found.Accounts[namespace] = slices.Sorted(maps.Keys(names))
	}
	for namespace := range whole {
		found.Accounts[namespace] = nil
	}
	return found
}

func note(accounts map[string]map[string]bool, namespace, name string) {
	if accounts[namespace] == nil {
		accounts[namespace] = map[string]bool{}
	}
	accounts[namespace][name] = true
}

// grants is true if a role allows any verb on the proxy of a cluster.
func grants(role *rbacv1.ClusterRole, cluster string) bool {
	if role == nil {
		return false
	}
	return slices.ContainsFunc(role.Rules, func(rule rbacv1.PolicyRule) bool {
		return len(rule.Verbs) > 0 && containsAny(rule.APIGroups, "*", clusterv1alpha1.GroupName) &&
			containsAny(rule.Resources, "*", "*/proxy", clusterv1alpha1.ResourcePluralCluster+"/proxy") &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, cluster))
	})
}

func containsAny(list []string, wanted ...string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(list, w) })
}

// accountOf splits the user name of a service account.
func accountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, accountPrefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

// privilegedUser is true for the users by which Kubernetes itself acts, and for service accounts in reserved namespaces.
func privilegedUser(name string) bool {
	if namespace, _, ok := accountOf(name); ok {
		return reserved(namespace)
	}
	return name == "" || strings.HasPrefix(name, "system:")
}

// privilegedGroup is true for the groups to which members give rights themselves, and for those that every user or service
// account belongs to.
func privilegedGroup(name string) bool {
	return name == "" || strings.HasPrefix(name, "system:") || strings.HasPrefix(name, "kubeadm:")
}

// reserved is true for the namespaces that belong to Kubernetes and to control planes, in members as here: their service accounts
// have far-reaching rights there.
func reserved(namespace string) bool {
	_, execution := workv1alpha1.ClusterOfExecutionNamespace(namespace)
	return namespace == "" || strings.HasPrefix(namespace, "kube-") || execution ||
		namespace == clusterv1alpha1.SystemNamespace || namespace == clusterv1alpha1.ClusterNamespace
}
