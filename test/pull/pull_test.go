// Package pull_test has a client of its own in the place of an agent, which uses the API and nothing more, and checks what
// the control plane makes of what it writes and of its silence.
package pull_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// impatient are the flags of a control plane that calls an agent silent, and a cluster well again, after seconds.
var impatient = []string{"--cluster-monitor-period=250ms", "--cluster-monitor-grace-period=3s", "--cluster-startup-grace-period=3s",
	"--cluster-success-threshold=1s"}

// TestPull: Clusters in Pull mode come and go with their agents. It takes 45 s beside other tests: an agent is silent for as long as it takes to show.
func TestPull(t *testing.T) {
	hub := fleettest.StartHub(t, "--cluster-success-threshold=1s")
	t.Run("AClusterGoesWithItsAgent", func(t *testing.T) { goesWithItsAgent(t, hub) })
	hub.Kill()
	hub.Start(t, impatient...)
	t.Run("AnAgentIsLostAndFound", func(t *testing.T) { isLostAndFound(t, hub) })
	t.Run("AClusterGoesWithoutItsAgent", func(t *testing.T) { goesWithoutItsAgent(t, hub) })
	t.Run("AClusterChangesHands", func(t *testing.T) { changesHands(t, hub) })
	t.Run("AnAgentNeverReports", func(t *testing.T) { neverReports(t, hub) })
}

// deploy sends a Deployment to the agent's cluster and returns it with its Work.
func deploy(t *testing.T, hub *fleettest.Cluster, a *agent) (*appsv1.Deployment, *workv1alpha1.Work) {
	t.Helper()
	ns := "shop-" + a.cluster
	if err := hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, hub, a.object(), ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
	web := fleettest.Deployment(ns, "web", 2)
	fleettest.Create(t, hub, fleettest.Policy(ns, "web", fleettest.To(a.cluster), web), web)
	work := fleettest.ExpectEventually(t, hub, a.work(ns, "web"), func(w *workv1alpha1.Work) error {
		if len(w.Status.Conditions) > 0 {
			return fmt.Errorf("the control plane wrote the status for the agent: %+v", w.Status.Conditions)
		}
		return nil
	})
	return web, work
}

func isLostAndFound(t *testing.T, hub *fleettest.Part) {
	a := register(t, hub.Cluster, "far")
	web, work := deploy(t, hub.Cluster, a)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: workv1alpha2.BindingName("Deployment", "web")}}
	a.run(work, 2)
	known := func() {
		t.Helper()
		fleettest.ExpectEventually(t, hub.Cluster, a.object(), ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
		fleettest.ExpectEventually(t, hub.Cluster, work, func(w *workv1alpha1.Work) error {
			if len(w.Status.Conditions) != 1 || w.Status.ManifestStatuses[0].Health != workv1alpha1.ResourceHealthy {
				return fmt.Errorf("it is not what the agent wrote: %+v", w.Status)
			}
			return nil
		})
		fleettest.ExpectEventually(t, hub.Cluster, binding, health(workv1alpha2.ResourceHealthy))
		fleettest.ExpectEventually(t, hub.Cluster, web, currency(""))
	}
	known()
	for range 2 {
		a.fallSilent()
		unseen := func() {
			t.Helper()
			fleettest.ExpectEventually(t, hub.Cluster, a.object(),
				ready(metav1.ConditionUnknown, clusterv1alpha1.ClusterStatusUnknownReason, clusterv1alpha1.TaintClusterUnreachable))
			fleettest.ExpectEventually(t, hub.Cluster, work, func(w *workv1alpha1.Work) error {
				c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkAvailable)
				if c == nil || c.Status != metav1.ConditionUnknown || w.Status.ManifestStatuses[0].Health != workv1alpha1.ResourceUnknown {
					return fmt.Errorf("it passes for seen: %+v", w.Status)
				}
				return nil
			})
			fleettest.ExpectEventually(t, hub.Cluster, binding, health(workv1alpha2.ResourceUnknown))
			fleettest.ExpectEventually(t, hub.Cluster, web, currency("False"))
		}
		unseen()
		hub.Kill()
		hub.Start(t)
		unseen()
		a.live()
		known()
	}
}

// The objects in the cluster are the agent's to remove: the control plane waits for as long as the agent lives.
func goesWithItsAgent(t *testing.T, hub *fleettest.Part) {
	a := register(t, hub.Cluster, "leaving")
	_, work := deploy(t, hub.Cluster, a)
	a.run(work, 2)
	fleettest.Delete(t, hub.Cluster, a.object())
	fleettest.ExpectEventually(t, hub.Cluster, work, func(w *workv1alpha1.Work) error {
		if w.DeletionTimestamp == nil {
			return errors.New("the Works of the agent are not deleted")
		}
		return nil
	})
	fleettest.ExpectEventually(t, hub.Cluster, a.object(), fleettest.Exists)
	a.releaseAll()
	fleettest.ExpectGone(t, hub.Cluster, a.object())
	fleettest.ExpectGone(t, hub.Cluster, a.lease())
}

// An agent that is gone will never remove anything: its Works are let go when its cluster is removed.
func goesWithoutItsAgent(t *testing.T, hub *fleettest.Part) {
	a := register(t, hub.Cluster, "gone")
	_, work := deploy(t, hub.Cluster, a)
	a.run(work, 2)
	a.fallSilent()
	fleettest.Delete(t, hub.Cluster, a.object()) // it may be reported for some time to come
	fleettest.ExpectGone(t, hub.Cluster, work)
	fleettest.ExpectGone(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: work.Namespace}})
	fleettest.ExpectGone(t, hub.Cluster, a.object())
}

// A cluster may be handed to an agent and taken back: what was ordered or happened to it meanwhile is made good.
func changesHands(t *testing.T, hub *fleettest.Part) {
	member := fleettest.StartMember(t, "near", "--bare")
	hub.Join(t, "near", member.Kubeconfig)
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "near"}}
	const ns = "shop-near"
	if err := hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		t.Fatal(err)
	}
	web, api := fleettest.Deployment(ns, "web", 2), fleettest.Deployment(ns, "api", 2)
	fleettest.Create(t, hub.Cluster, fleettest.Policy(ns, "both", fleettest.To("near"), web, api), web, api)
	fleettest.ExpectEventually(t, member.Cluster, web, fleettest.Replicas(2))
	fleettest.ExpectEventually(t, member.Cluster, api, fleettest.Replicas(2))

	hand := func(to clusterv1alpha1.ClusterSyncMode) {
		t.Helper()
		fleettest.Update(t, hub.Cluster, cluster, func(c *clusterv1alpha1.Cluster) { c.Spec.SyncMode = to })
	}
	hand(clusterv1alpha1.Pull)
	fleettest.ExpectEventually(t, hub.Cluster, cluster,
		ready(metav1.ConditionUnknown, clusterv1alpha1.ClusterStatusUnknownReason, clusterv1alpha1.TaintClusterUnreachable))
	fleettest.Delete(t, member.Cluster, web)
	fleettest.ExpectGone(t, member.Cluster, web)
	fleettest.Update(t, hub.Cluster, api, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
	fleettest.ExpectEventually(t, hub.Cluster, &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("near"), Name: workv1alpha1.WorkName("Deployment", ns, "api"),
	}}, func(w *workv1alpha1.Work) error {
		if raw := string(w.Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, `"replicas":3`) {
			return fmt.Errorf("it orders %s", raw)
		}
		return nil
	})

	hand(clusterv1alpha1.Push)
	fleettest.ExpectEventually(t, member.Cluster, web, fleettest.Replicas(2))
	fleettest.ExpectEventually(t, member.Cluster, api, fleettest.Replicas(3))
	fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
	fleettest.Delete(t, member.Cluster, api)
	fleettest.ExpectEventually(t, member.Cluster, api, fleettest.Replicas(3))
}

func neverReports(t *testing.T, hub *fleettest.Part) {
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "mute"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}}
	fleettest.Create(t, hub.Cluster, cluster)
	fleettest.ExpectEventually(t, hub.Cluster, cluster,
		ready(metav1.ConditionUnknown, clusterv1alpha1.ClusterStatusNeverUpdatedReason, clusterv1alpha1.TaintClusterUnreachable))
}

// ready expects a condition Ready of a Cluster, and no condition taint but the given one.
func ready(status metav1.ConditionStatus, reason, taint string) func(*clusterv1alpha1.Cluster) error {
	return func(c *clusterv1alpha1.Cluster) error {
		r := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		if r == nil || r.Status != status || r.Reason != reason {
			return fmt.Errorf("Ready is %+v", r)
		}
		var taints []string
		for _, t := range c.Spec.Taints {
			taints = append(taints, t.Key)
		}
		if got := strings.Join(taints, ","); got != taint {
			return fmt.Errorf("taints are %q, want %q", got, taint)
		}
		return nil
	}
}

func health(want workv1alpha2.ResourceHealth) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		if items := b.Status.AggregatedStatus; len(items) != 1 || !items[0].Applied || items[0].Health != want {
			return fmt.Errorf("aggregated: %+v, want health %s", items, want)
		}
		return nil
	}
}

// currency is the condition of a template that has its counters, and StatusCurrent as given.
func currency(want string) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != 2 {
			return fmt.Errorf("status is %+v", d.Status)
		}
		got := ""
		for _, c := range d.Status.Conditions {
			if c.Type == workv1alpha2.StatusCurrent {
				got = string(c.Status)
			}
		}
		if got != want {
			return fmt.Errorf("StatusCurrent is %q, want %q", got, want)
		}
		return nil
	}
}
