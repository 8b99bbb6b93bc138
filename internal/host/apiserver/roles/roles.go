package roles

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-helpers/auth/rbac/reconciliation"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Names of the roles; the first three are those of the contract.
const (
	viewRole     = "karmada-view"
	editRole     = "karmada-edit"
	proxyRole    = "cluster-proxy-admin"
	operatorRole = "karmada-operator"
	explainRole  = "flagship-explain"
	driftRole    = "flagship-drift"
	previewRole  = "flagship-preview"
)

var (
	readVerbs  = []string{"get", "list", "watch"}
	writeVerbs = []string{"create", "delete", "deletecollection", "patch", "update"}
)

// defaultRoles are what tenants and operators are given. They have no bindings here. Works are in none of them, since they
// hold Secrets; bindings can be read only, since who writes one decides what is sent where.
func defaultRoles() []*rbacv1.ClusterRole {
	rule := func(verbs []string, group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: resources}
	}
	all := append(append([]string{}, readVerbs...), writeVerbs...)
	explain := rule([]string{"create"}, "fleet.flagship.io", "explanations", "histories", "timelines", "undeletions")
	drift := rule([]string{"create"}, "fleet.flagship.io", "driftreports")
	preview := rule([]string{"create"}, "fleet.flagship.io", "previews")
	return []*rbacv1.ClusterRole{
		defaultRole(viewRole, "rbac.authorization.k8s.io/aggregate-to-view",
			rule(readVerbs, "autoscaling.karmada.io", "cronfederatedhpas", "cronfederatedhpas/status", "federatedhpas", "federatedhpas/status"),
			rule(readVerbs, "multicluster.x-k8s.io", "serviceexports", "serviceexports/status", "serviceimports", "serviceimports/status"),
			rule(readVerbs, "networking.karmada.io", "multiclusteringresses", "multiclusteringresses/status", "multiclusterservices", "multiclusterservices/status"),
			rule(readVerbs, "policy.karmada.io", "federatedresourcequotas", "federatedresourcequotas/status", "propagationpolicies"),
			rule(readVerbs, "work.karmada.io", "resourcebindings", "resourcebindings/status"),
		),
		defaultRole(editRole, "rbac.authorization.k8s.io/aggregate-to-edit",
			rule(writeVerbs, "autoscaling.karmada.io", "cronfederatedhpas", "federatedhpas"),
			rule(writeVerbs, "multicluster.x-k8s.io", "serviceexports", "serviceimports"),
			rule(writeVerbs, "networking.karmada.io", "multiclusteringresses", "multiclusterservices"),
			// OverridePolicies may have values of Secrets, which the role view does not read.
			rule(all, "policy.karmada.io", "overridepolicies"),
			rule(writeVerbs, "policy.karmada.io", "propagationpolicies"),
		),
		defaultRole(proxyRole, "",
			rule([]string{"*"}, clusterv1alpha1.GroupName, clusterv1alpha1.ResourcePluralCluster+"/proxy"),
		),
		// Answers have only what their author may get, so that the role can be bound to all users.
		defaultRole(explainRole, "", explain),
		defaultRole(driftRole, "", drift),
		// So has a Preview, and its author needs the rights that the change itself takes.
		defaultRole(previewRole, "", preview),
		// Neither creates nor deletes Clusters: joining and leaving take rights on credentials.
		defaultRole(operatorRole, "",
			rule(append([]string{"patch", "update"}, readVerbs...), clusterv1alpha1.GroupName, clusterv1alpha1.ResourcePluralCluster),
			rule(readVerbs, clusterv1alpha1.GroupName, clusterv1alpha1.ResourcePluralCluster+"/status"),
			rule(readVerbs, "fleet.flagship.io", "clustercapacities"), explain, drift, preview,
			rule(all, "policy.karmada.io", "clusteroverridepolicies", "clusterpropagationpolicies", "clustertaintpolicies",
				"federatedresourcequotas", "overridepolicies", "propagationpolicies"),
			rule(readVerbs, "work.karmada.io", "clusterresourcebindings", "clusterresourcebindings/status", "resourcebindings", "resourcebindings/status"),
			rule(all, "apps.karmada.io", "workloadrebalancers"),
			rule(all, "remedy.karmada.io", "remedies"),
			rule(all, "search.karmada.io", "resourceregistries"),
			rule(all, "config.karmada.io", "resourceinterpretercustomizations"),
			rule(readVerbs, "config.karmada.io", "resourceinterpreterwebhookconfigurations"),
			rule(readVerbs, "", "events", "namespaces"),
		),
	}
}

func defaultRole(name, aggregate string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{clusterv1alpha1.BootstrappingLabel: clusterv1alpha1.BootstrappingRBACDefaults},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		},
		Rules: rules,
	}
	if aggregate != "" {
		role.Labels[aggregate] = "true"
	}
	return role
}

// Install creates the default roles and puts back rules that are missing in them, as Kubernetes does with its own: with
// the annotation rbac.authorization.kubernetes.io/autoupdate set to false a role is left alone. Rules that a user added
// stay.
func Install(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client for roles: %w", err)
	}
	if err := withdraw(ctx, client.RbacV1().ClusterRoles()); err != nil {
		return fmt.Errorf("removing the right to read OverridePolicies from the ClusterRole %s: %w", viewRole, err)
	}
	for _, role := range defaultRoles() {
		reconcile := reconciliation.ReconcileRoleOptions{
			Role:    reconciliation.ClusterRoleRuleOwner{ClusterRole: role},
			Client:  reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()},
			Confirm: true,
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := reconcile.Run(); err != nil {
			return fmt.Errorf("installing the ClusterRole %s: %w", role.Name, err)
		}
	}
	return nil
}

// withdraw removes the right to read OverridePolicies from the role for viewers, which had it in earlier versions. A rule that is not the
// former default is one that a user added, and stays.
func withdraw(ctx context.Context, roles rbacclient.ClusterRoleInterface) error {
	role, err := roles.Get(ctx, viewRole, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || role.Annotations[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return err
	}
	former := []string{"federatedresourcequotas", "federatedresourcequotas/status", "overridepolicies", "propagationpolicies"}
	changed := false
	for i := range role.Rules {
		rule := &role.Rules[i]
		if slices.Equal(rule.APIGroups, []string{"policy.karmada.io"}) && slices.Equal(rule.Verbs, readVerbs) && slices.Equal(rule.Resources, former) {
			rule.Resources, changed = slices.DeleteFunc(rule.Resources, func(resource string) bool { return resource == "overridepolicies" }), true
		}
	}
	if !changed {
		return nil
	}
	_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
	return err
}
