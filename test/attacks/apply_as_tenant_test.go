package attacks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// applier is the account that writes a tenant's objects in a member.
const applier = "flagship-applier"

// TestATenantHasNoMoreRightsInAMemberThanTheMemberGivesHim has a tenant send what the member's RBAC does not let the account
// of his namespace write, though the control plane itself may write everything there.
func TestATenantHasNoMoreRightsInAMemberThanTheMemberGivesHim(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	applyAs(t, fleet.Hub, member.Name, applier)
	grant(t, member, ns, applier, "configmaps")
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "secrets", "propagationpolicies")

	allowed, denied := fleettest.ConfigMap(ns, "allowed", map[string]string{"k": "v"}), fleettest.Secret(ns, "denied", map[string]string{"k": "v"})
	fleettest.Create(t, tenant, allowed, denied, fleettest.Policy(ns, "p", fleettest.To(member.Name), allowed, denied))
	fleettest.ExpectEventually(t, member, allowed, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, workFor(member.Name, "Secret", ns, "denied"), refusedTo(ns, "secrets"))
	fleettest.ExpectAbsent(t, member, denied)

	// The tenant cannot choose an account with more rights than the one that the Cluster names.
	grant(t, member, ns, "powerful", "secrets")
	p := fleettest.Policy(ns, "p", fleettest.To(member.Name))
	fleettest.Update(t, tenant, p, func(*policy) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, clusterv1alpha1.ApplyAsAnnotation, "powerful")
	})
	fleettest.ExpectEventually(t, fleet.Hub, workFor(member.Name, "Secret", ns, "denied"), func(w *workv1alpha1.Work) error {
		if w.Annotations[clusterv1alpha1.ApplyAsAnnotation] != "powerful" {
			return fmt.Errorf("the annotation of the policy has not arrived: %v", w.Annotations)
		}
		return nil
	})
	// The condition may be older than the annotation. That of a later generation is not.
	fleettest.Update(t, tenant, fleettest.Secret(ns, "denied", nil), func(s *corev1.Secret) { s.StringData = map[string]string{"k": "changed"} })
	fleettest.ExpectEventually(t, fleet.Hub, workFor(member.Name, "Secret", ns, "denied"), func(w *workv1alpha1.Work) error {
		if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); w.Generation < 2 || c == nil || c.ObservedGeneration != w.Generation {
			return fmt.Errorf("generation %d has not been tried: %v", w.Generation, c)
		}
		return refusedTo(ns, "secrets")(w)
	})
	fleettest.ExpectAbsent(t, member, denied)
}

// TestDriftIsNotRepairedWithTheRightsOfTheControlPlane takes the account's rights away before an object drifts and before it
// is to be deleted.
func TestDriftIsNotRepairedWithTheRightsOfTheControlPlane(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	applyAs(t, fleet.Hub, member.Name, applier)
	role := grant(t, member, ns, applier, "configmaps")
	changed, kept := fleettest.ConfigMap(ns, "changed", map[string]string{"k": "v"}), fleettest.ConfigMap(ns, "kept", nil)
	fleettest.Create(t, fleet.Hub, changed, kept, fleettest.Policy(ns, "p", fleettest.To(member.Name), changed, kept))
	for _, c := range []*corev1.ConfigMap{changed, kept} {
		fleettest.ExpectEventually(t, fleet.Hub, workFor(member.Name, "ConfigMap", ns, c.Name), applied)
	}

	fleettest.Update(t, member, role, func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"get"} })
	account := member.As(t, rest.ImpersonationConfig{UserName: "system:serviceaccount:" + ns + ":" + applier})
	until(t, func() error { // the member's authorizer receives the change a moment later
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: ns, Verb: "patch", Resource: "configmaps"},
		}}
		if err := account.Create(t.Context(), review); err != nil {
			return err
		}
		if review.Status.Allowed {
			return errors.New("the account has the rights still")
		}
		return nil
	})
	fleettest.Update(t, member, fleettest.ConfigMap(ns, "changed", nil), func(c *corev1.ConfigMap) { c.Data["k"] = "drifted" })
	fleettest.Delete(t, fleet.Hub, kept)
	fleettest.ExpectEventually(t, fleet.Hub, workFor(member.Name, "ConfigMap", ns, "changed"), refusedTo(ns, "configmaps"))
	fleettest.ExpectEventually(t, fleet.Hub, workFor(member.Name, "ConfigMap", ns, "kept"), refusedTo(ns, "configmaps"))
	for name, want := range map[string]string{"changed": "drifted", "kept": ""} {
		fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, name, nil), func(c *corev1.ConfigMap) error {
			if c.Data["k"] != want || c.DeletionTimestamp != nil {
				t.Errorf("%s is %v: it was written with the rights of the control plane", name, c.Data)
			}
			return nil
		})
	}

	// Both are made good as soon as the account may.
	fleettest.Update(t, member, role, func(r *rbacv1.Role) { r.Rules[0].Verbs = []string{"*"} })
	fleettest.ExpectGone(t, member, kept)
	fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "changed", nil), func(c *corev1.ConfigMap) error {
		if c.Data["k"] != "v" {
			return fmt.Errorf("it is %v", c.Data)
		}
		return nil
	})
}

// TestAPolicyNarrowsWhoWrites sets the annotation on a policy alone.
func TestAPolicyNarrowsWhoWrites(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Members[0]
	ns := fleet.Namespace(t)
	grant(t, member, ns, "narrow", "configmaps")
	allowed, denied := fleettest.ConfigMap(ns, "allowed", nil), fleettest.Secret(ns, "denied", nil)
	p := fleettest.Policy(ns, "p", fleettest.To(member.Name), allowed, denied)
	p.Annotations = map[string]string{clusterv1alpha1.ApplyAsAnnotation: "narrow"}
	fleettest.Create(t, fleet.Hub, allowed, denied, p)
	fleettest.ExpectEventually(t, member, allowed, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, workFor(member.Name, "Secret", ns, "denied"), refused("ServiceAccount "+ns+"/narrow", "secrets"))
	fleettest.ExpectAbsent(t, member, denied)

	foreign := fleettest.Policy(ns, "foreign", fleettest.To(member.Name), fleettest.ConfigMap(ns, "other", nil))
	foreign.Annotations = map[string]string{clusterv1alpha1.ApplyAsAnnotation: "kube-system:admin"}
	if err := fleet.Hub.Create(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "name of a ServiceAccount") {
		t.Errorf("a policy that names an account of another namespace: %v, want a refusal", err)
	}
}

// applyAs sets the account of a Cluster until the test ends.
func applyAs(t *testing.T, hub *fleettest.Cluster, cluster, account string) {
	t.Helper()
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	fleettest.Update(t, hub, c, func(c *clusterv1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1alpha1.ApplyAsAnnotation, account)
	})
	t.Cleanup(func() {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, clusterv1alpha1.ApplyAsAnnotation)
		mergePatch(t, hub, c, patch)
	})
}

// grant lets an account do everything with the resources in its namespace of a member, once that is there.
func grant(t *testing.T, member *fleettest.Cluster, ns, account string, resources ...string) *rbacv1.Role {
	t.Helper()
	fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: resources, Verbs: []string{"*"}}},
	}
	fleettest.Create(t, member, role, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account}},
	})
	return role
}

func applied(w *workv1alpha1.Work) error {
	return fleettest.ConditionTrue(w.Status.Conditions, workv1alpha1.WorkApplied)
}

// refusedTo is the condition of a Work whose object the member refuses to the applier of a namespace.
func refusedTo(ns, resource string) func(*workv1alpha1.Work) error {
	return refused("ServiceAccount "+ns+"/"+applier, resource)
}

// refused is the condition of a Work that names who was refused what.
func refused(words ...string) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error {
		c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != workv1alpha1.AppliedForbiddenReason {
			return fmt.Errorf("Applied is %+v, want it False because of %s", c, workv1alpha1.AppliedForbiddenReason)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("Applied says %q, want it to name %q", c.Message, word)
			}
		}
		return nil
	}
}
