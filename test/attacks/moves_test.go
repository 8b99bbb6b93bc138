package attacks_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// healthy has the Deployment of a member without controllers report that it runs, until the control plane has seen that: a later write of
// the control plane to the Deployment may begin a new generation.
func healthy(t *testing.T, fleet *fleettest.Fleet, member *fleettest.Cluster, web *appsv1.Deployment) {
	t.Helper()
	live := fleettest.ExpectEventually(t, member, web, fleettest.Exists)
	until(t, func() error {
		fleettest.UpdateStatus(t, member, live, func(d *appsv1.Deployment) {
			n := *d.Spec.Replicas
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		})
		work := workFor(member.Name, "Deployment", web.Namespace, web.Name)
		if err := fleet.Hub.Get(t.Context(), clientKey(work), work); err != nil {
			return err
		}
		if s := work.Status.ManifestStatuses; len(s) != 1 || s[0].Health != workv1alpha1.ResourceHealthy {
			return fmt.Errorf("its Work has %+v", s)
		}
		return nil
	})
}

// labelled places an object in the clusters with a label.
func labelled(key string) policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key: "yes"}},
	}}
}

func label(t *testing.T, fleet *fleettest.Fleet, name, key string, set bool) {
	t.Helper()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fleettest.Update(t, fleet.Hub, cluster, func(c *clusterv1alpha1.Cluster) {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		if delete(c.Labels, key); set {
			c.Labels[key] = "yes"
		}
	})
}

// TestAMoveLeavesNoGap: labels of clusters that were changed one by one left an object nowhere for seconds.
func TestAMoveLeavesNoGap(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	here, there := fleet.Members[0], fleet.Members[1]
	web, conf := fleettest.Deployment(ns, "web", 2), fleettest.ConfigMap(ns, "conf", nil)
	label(t, fleet, here.Name, ns, true)
	defer label(t, fleet, there.Name, ns, false)
	fleettest.Create(t, fleet.Hub, web, conf, fleettest.Policy(ns, "p", labelled(ns), web, conf))
	healthy(t, fleet, here, web)
	old := guard(t, here, web)
	guard(t, here, conf)

	label(t, fleet, there.Name, ns, true)
	label(t, fleet, here.Name, ns, false)
	guard(t, there, web)
	fleettest.ExpectGone(t, here, conf) // healthy at once at the new place: the scheduler and render have been here
	expectUntouched(t, "a move whose new copy does not run yet", old...)

	healthy(t, fleet, there, web)
	fleettest.ExpectGone(t, here, web)
	guard(t, there, web, conf)
}

// TestEveryReasonToMoveLeavesNoGap: another placement, a taint that is not tolerated, and replicas that are divided anew.
func TestEveryReasonToMoveLeavesNoGap(t *testing.T) {
	fleet := shared.Start(t)
	here, there := fleet.Members[0], fleet.Members[1]
	for name, test := range map[string]struct {
		before, after policyv1alpha1.Placement
	}{
		"Placement": {fleettest.To(here.Name), fleettest.To(there.Name)},
		"Division":  {fleettest.Divided(fleettest.Weight{Cluster: here.Name, Weight: 1}), fleettest.Divided(fleettest.Weight{Cluster: there.Name, Weight: 1})},
	} {
		t.Run(name, func(t *testing.T) {
			ns := fleet.Namespace(t)
			web := fleettest.Deployment(ns, "web", 2)
			policy := fleettest.Policy(ns, "p", test.before, web)
			fleettest.Create(t, fleet.Hub, web, policy)
			healthy(t, fleet, here, web)
			old := guard(t, here, web)
			fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = test.after })
			guard(t, there, web)
			probe(t, fleet, ns, here)
			expectUntouched(t, "a move whose new copy does not run yet", old...)
			live := fleettest.ExpectEventually(t, here, web, fleettest.Exists)
			if *live.Spec.Replicas != 2 {
				t.Errorf("the old place has %d replicas while the new one is not healthy, want all 2", *live.Spec.Replicas)
			}
			healthy(t, fleet, there, web)
			fleettest.ExpectGone(t, here, web)
		})
	}
}

// TestAMoveWithPurgeModeDirectly: a policy may ask for the old order.
func TestAMoveWithPurgeModeDirectly(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	here, there := fleet.Members[0], fleet.Members[1]
	web := fleettest.Deployment(ns, "web", 2)
	policy := fleettest.Policy(ns, "p", fleettest.To(here.Name), web)
	policy.Annotations = map[string]string{policyv1alpha1.PurgeModeAnnotation: string(policyv1alpha1.PurgeModeDirectly)}
	fleettest.Create(t, fleet.Hub, web, policy)
	guard(t, here, web)
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To(there.Name) })
	fleettest.ExpectGone(t, here, web)
	guard(t, there, web)
}

// probe has an object go to a member and back: what was under way before is done then.
func probe(t *testing.T, fleet *fleettest.Fleet, ns string, member *fleettest.Cluster) {
	t.Helper()
	cm := fleettest.ConfigMap(ns, "probe", nil)
	fleettest.Create(t, fleet.Hub, cm, fleettest.Policy(ns, "probe", fleettest.To(member.Name), cm))
	fleettest.ExpectEventually(t, member, cm, fleettest.Exists)
	fleettest.Delete(t, fleet.Hub, cm)
	fleettest.ExpectGone(t, member, cm)
}
