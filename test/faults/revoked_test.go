package faults_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// revokesCredentials has the administrator of a member take from the control plane its rights there, and then its account. The Cluster
// reports it and what to do, nothing is written or deleted, and joining again brings it back: what was ordered meanwhile is done, and
// nothing else is written.
func revokesCredentials(t *testing.T, hub *fleettest.Part) {
	member := fleettest.StartMember(t, "revoking", "--bare")
	hub.Join(t, "revoking", member.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, "revoking")
	g.put("kept", 3, "0")
	g.put("dropped", 2, "0")
	g.converges()
	fleettest.ExpectRefusal(t, `registered as cluster "revoking" already`, "join", "again", "--kubeconfig", hub.Kubeconfig, "--cluster-kubeconfig", member.Kubeconfig)
	const account = "karmada-revoking"
	fleettest.ExpectAbsent(t, member.Cluster, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "karmada-again"}})

	for i, c := range []struct {
		name   string
		taken  client.Object
		reason string
	}{
		{"ItsRights", &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "karmada-controller-manager:" + account}}, clusterv1alpha1.CredentialsLackRightsReason},
		{"ItsAccount", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: account}}, clusterv1alpha1.CredentialsRefusedReason},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.t = t
			before := g.versions()
			if err := member.Delete(t.Context(), c.taken); err != nil {
				t.Fatal(err)
			}
			if c.reason == clusterv1alpha1.CredentialsRefusedReason {
				expectUnready(t, hub.Cluster, "revoking", c.reason) // the member accepts a token for some seconds after its account was deleted
			} else {
				lacksRights(t, member, account)
			}
			g.put("kept", 1, fmt.Sprint(i+1))
			fleettest.Delete(t, hub.Cluster, fleettest.ConfigMap(g.ns, fmt.Sprintf("dropped-%d", i), nil))
			fleettest.ExpectEventually(t, hub.Cluster, g.work("kept-0"), func(w *workv1alpha1.Work) error {
				return is(w, workv1alpha1.WorkApplied, metav1.ConditionFalse)
			})
			expectUnready(t, hub.Cluster, "revoking", c.reason)
			if now := g.versions(); !maps.Equal(before, now) {
				t.Errorf("without rights the objects changed from %v to %v", before, now)
			}

			hub.Join(t, "revoking", member.Kubeconfig)
			g.converges()
			fleettest.ExpectEventually(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "revoking"}}, func(c *clusterv1alpha1.Cluster) error {
				return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
			})
			now := g.versions()
			for _, changed := range []string{"kept-0", fmt.Sprintf("dropped-%d", i)} {
				delete(before, changed)
				delete(now, changed)
			}
			if !maps.Equal(before, now) {
				t.Errorf("joining again changed objects from %v to %v", before, now)
			}
		})
	}
}

// versions are the resource versions of the objects of a ground in the member.
func (g *ground) versions() map[string]string {
	g.t.Helper()
	var list corev1.ConfigMapList
	if err := g.member.List(g.t.Context(), &list, client.InNamespace(g.ns)); err != nil {
		g.t.Fatal(err)
	}
	versions := map[string]string{}
	for i := range list.Items {
		versions[list.Items[i].Name] = list.Items[i].ResourceVersion
	}
	return versions
}

// lacksRights waits until a member does not let an account write any more.
func lacksRights(t *testing.T, member *fleettest.Part, account string) {
	t.Helper()
	eventually(t, "the account has no rights", func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               fmt.Sprintf("system:serviceaccount:%s:%s", clusterv1alpha1.ClusterNamespace, account),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "configmaps", Namespace: "default"},
		}}
		if err := member.Create(ctx, review); err != nil {
			return err
		}
		if review.Status.Allowed {
			return fmt.Errorf("it may write")
		}
		return nil
	})
}

// expectUnready waits until a cluster is not ready for a reason, with what to do.
func expectUnready(t *testing.T, hub *fleettest.Cluster, cluster, reason string) {
	t.Helper()
	fleettest.ExpectEventually(t, hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, func(c *clusterv1alpha1.Cluster) error {
		ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason {
			return fmt.Errorf("Ready is %+v, want the reason %s", ready, reason)
		}
		if !strings.Contains(ready.Message, "flagship join") {
			return fmt.Errorf("its message is %q", ready.Message)
		}
		return nil
	})
}
