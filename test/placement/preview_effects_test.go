package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// copiesOf are what an answer has of the copies of a kind, as a text.
func copiesOf(status fleetv1alpha1.PreviewStatus, kind string) string {
	var out []string
	for i := range status.Copies {
		c := &status.Copies[i]
		if c.Object.Kind == kind {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s in %s: %s", c.Action, c.Object.Name, strings.Join(c.Clusters, ","), c.Message)))
		}
	}
	return strings.Join(out, "; ")
}

// TestPreviewOfTheFleet: what changes of Clusters, of what taints them, of the interpreter and of whole namespaces do is what their previews
// have. It takes 70 s beside other tests, for a control plane of its own and every change twice: as a preview, and done.
func TestPreviewOfTheFleet(t *testing.T) {
	fleettest.NeedsPushMode(t, "it removes a cluster and looks into it")
	fleet := fleettest.Start(t, fleettest.Options{Members: 2})
	ns := fleet.Namespace(t)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	for _, m := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(m), space.DeepCopy(), fleettest.Exists)
	}
	t.Run("Toleration", func(t *testing.T) { tolerating(t, fleet, ns) })
	web := fleettest.Deployment(ns, "web", 4)
	rule := fleettest.Policy(ns, "web", fleettest.Divided(fleettest.Weight{Cluster: "member1", Weight: 1}, fleettest.Weight{Cluster: "member2", Weight: 1}), web)
	rule.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{PurgeMode: policyv1alpha1.PurgeModeGracefully}}
	bound := binding(ns, "Deployment", "web")
	fleettest.Create(t, fleet.Hub, web.DeepCopy(), rule)
	fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:2 member2:2"))
	for _, m := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(m), web.DeepCopy(), fleettest.Replicas(2))
	}

	t.Run("Customization", func(t *testing.T) {
		doubles := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "doubles"}, Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{APIVersion: "apps/v1", Kind: "Deployment"},
			Customizations: configv1alpha1.CustomizationRules{ReplicaResource: &configv1alpha1.ReplicaResourceRequirement{
				LuaScript: "function GetReplicas(obj) return obj.spec.replicas * 2, {} end",
			}},
		}}
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, doubles)
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:2>4 member2:2>4" {
			t.Fatalf("the preview places it at %q: %+v", got, status)
		}
		fleettest.Create(t, fleet.Hub, doubles)
		fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:4 member2:4"))
		id := fleetv1alpha1.ObjectIdentity{APIVersion: configv1alpha1.GroupVersion.String(), Kind: configv1alpha1.KindResourceInterpreterCustomization, Name: "doubles"}
		status = previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{Delete: []fleetv1alpha1.ObjectIdentity{id}})
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:4>2 member2:4>2" {
			t.Errorf("without it the preview places it at %q: %+v", got, status)
		}
		fleettest.Delete(t, fleet.Hub, doubles)
		fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:2 member2:2"))
	})
	t.Run("ClusterTaintPolicy", func(t *testing.T) { tainting(t, fleet) })
	t.Run("Cluster", func(t *testing.T) {
		id := fleetv1alpha1.ObjectIdentity{APIVersion: clusterv1alpha1.GroupVersion.String(), Kind: clusterv1alpha1.KindCluster, Name: "member2"}
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{Delete: []fleetv1alpha1.ObjectIdentity{id}})
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:2>4 member2:2>-" {
			t.Fatalf("the preview places it at %q: %+v", got, status)
		}
		if got := copiesOf(status, "Deployment"); !strings.Contains(got, "Delete web in member2: it stays in the cluster: the Cluster lacks the annotation") {
			t.Errorf("copies are %q", got)
		}
		member2 := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member2"}}
		fleettest.ExpectEventually(t, fleet.Hub, member2, func(c *clusterv1alpha1.Cluster) error {
			if c.DeletionTimestamp != nil {
				t.Fatal("a preview deletes the Cluster")
			}
			return nil
		})
		fleettest.Delete(t, fleet.Hub, member2)
		fleettest.ExpectGone(t, fleet.Hub, member2)
		fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:4"))
		fleettest.ExpectEventually(t, fleet.Member("member2"), web.DeepCopy(), fleettest.Replicas(2))
	})
	t.Run("Namespace", func(t *testing.T) {
		id := fleetv1alpha1.ObjectIdentity{APIVersion: "v1", Kind: "Namespace", Name: ns}
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{Delete: []fleetv1alpha1.ObjectIdentity{id}})
		if got := placementOf(t, status, "Deployment", "web"); got != "member1:4>-" {
			t.Errorf("the preview places it at %q: %+v", got, status)
		}
		if got := copiesOf(status, "Namespace"); got != "Delete "+ns+" in member1: the cluster deletes all that the namespace has" {
			t.Errorf("namespaces are %q", got)
		}
		listed := func(kind string) bool {
			return slices.ContainsFunc(status.Objects, func(o fleetv1alpha1.PreviewObject) bool {
				return o.Object.Kind == kind && o.Action == fleetv1alpha1.PreviewDelete
			})
		}
		if !listed("Namespace") || !listed("Deployment") {
			t.Errorf("objects are %+v", status.Objects)
		}
		fleettest.Delete(t, fleet.Hub, space.DeepCopy())
		fleettest.ExpectGone(t, fleet.Hub, &appsv1.Deployment{ObjectMeta: web.ObjectMeta})
		fleettest.ExpectGone(t, fleet.Member("member1"), space.DeepCopy())
	})
}

// tainting: a ClusterTaintPolicy taints a cluster as its preview has it.
func tainting(t *testing.T, fleet *fleettest.Fleet) {
	policy := &policyv1alpha1.ClusterTaintPolicy{ObjectMeta: metav1.ObjectMeta{Name: "repairs"}, Spec: policyv1alpha1.ClusterTaintPolicySpec{
		TargetClusters: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}},
		AddOnConditions: []policyv1alpha1.MatchCondition{{
			ConditionType: clusterv1alpha1.ClusterConditionReady, Operator: policyv1alpha1.MatchConditionOpIn, StatusValues: []metav1.ConditionStatus{metav1.ConditionTrue},
		}},
		Taints: []policyv1alpha1.Taint{{Key: "repair", Effect: corev1.TaintEffectNoSchedule}},
	}}
	status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, policy)
	if len(status.Taints) != 1 || status.Taints[0].Cluster != "member2" || !slices.Equal(status.Taints[0].Added, []string{"repair:NoSchedule"}) {
		t.Errorf("taints are %+v", status.Taints)
	}
	fleettest.Create(t, fleet.Hub, policy)
	member2 := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member2"}}
	fleettest.ExpectEventually(t, fleet.Hub, member2, func(c *clusterv1alpha1.Cluster) error {
		if len(c.Spec.Taints) != 1 || c.Spec.Taints[0].ToString() != status.Taints[0].Added[0] {
			return fmt.Errorf("taints are %v", c.Spec.Taints)
		}
		return nil
	})
	fleettest.Delete(t, fleet.Hub, policy)
	fleettest.ExpectGone(t, fleet.Hub, policy)
	fleettest.Update(t, fleet.Hub, member2, func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil })
}

// tolerating: a preview has when an object leaves a tainted cluster, and where to.
func tolerating(t *testing.T, fleet *fleettest.Fleet, ns string) {
	api := fleettest.Deployment(ns, "api", 4)
	rule := fleettest.Policy(ns, "api", policyv1alpha1.Placement{
		ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		},
		ClusterTolerations: []corev1.Toleration{
			{Key: "repair", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(600))},
			{Key: "short", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To(int64(3))},
		},
	}, api)
	rule.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{PurgeMode: policyv1alpha1.PurgeModeGracefully}}
	bound := binding(ns, "Deployment", "api")
	fleettest.Create(t, fleet.Hub, api.DeepCopy(), rule)
	fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:2 member2:2"))
	for _, m := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(m), api.DeepCopy(), fleettest.Available)
	}
	member2 := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member2"}}
	if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(member2), member2); err != nil {
		t.Fatal(err)
	}
	for key, most := range map[string]int64{"repair": 600, "short": 3} {
		tainted := member2.DeepCopy()
		tainted.ManagedFields, tainted.ResourceVersion = nil, ""
		tainted.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute}}
		status := previewOf(t, fleet.Hub, fleetv1alpha1.PreviewSpec{}, tainted)
		if got := placementOf(t, status, "Deployment", "api"); got != "member1:2>4 member2:2>-" {
			t.Fatalf("the preview places it at %q: %+v", got, status)
		}
		for _, c := range status.Placements[0].Clusters { // part of the time has passed when the answer is made, which takes 30 seconds at most
			if c.AfterSeconds > most || c.AfterSeconds < most-30 {
				t.Errorf("with the taint %s, %s changes after %d seconds, want at most %d", key, c.Name, c.AfterSeconds, most)
			}
		}
	}
	fleettest.Update(t, fleet.Hub, member2, func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = []corev1.Taint{{Key: "short", Effect: corev1.TaintEffectNoExecute}}
	})
	fleettest.ExpectEventually(t, fleet.Hub, bound, placedAt("member1:4"))
	fleettest.ExpectGone(t, fleet.Member("member2"), api.DeepCopy())
	fleettest.Update(t, fleet.Hub, member2, func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil })
}
