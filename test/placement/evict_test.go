package placement_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestObjectsLeaveTaintedClusters taints the clusters of an object NoExecute: its copy moves, returns while it has not been replaced,
// and stays when there is no other place.
func TestObjectsLeaveTaintedClusters(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 100, 100)
	web := fleettest.Deployment(ns, "web", 2)
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, all)
	place.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("cluster", 1, 1)}
	policy := fleettest.Policy(ns, "web", place, web)
	policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
	policy.Annotations = map[string]string{policyv1alpha1.ClusterFailbackAnnotation: policyv1alpha1.ClusterFailbackManual}
	fleettest.Create(t, fleet.Hub, web, policy)
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), scheduled)
	from, to := clusters[0], clusters[1]
	if b.Spec.Clusters[0].Name == to {
		from, to = to, from
	}
	runs(t, fleet, from, ns)

	// It moves, and the copy that it leaves stays. The cluster is ready again before the other copy is healthy.
	change(t, fleet, from, noExecute)
	fleettest.ExpectEventually(t, fleet.Hub, b, leaving(from, to))
	fleettest.ExpectEventually(t, fleet.Hub, workIn(to, ns), fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, workIn(from, ns), fleettest.Exists)
	change(t, fleet, from, untainted)
	fleettest.ExpectEventually(t, fleet.Hub, b, leaving("", from))
	expectRemoved(t, fleet, to, "Deployment", ns, "web")

	// It moves again, and is healthy there.
	change(t, fleet, from, noExecute)
	fleettest.ExpectEventually(t, fleet.Hub, b, leaving(from, to))
	runs(t, fleet, to, ns)
	fleettest.ExpectEventually(t, fleet.Hub, b, leaving("", to))
	expectRemoved(t, fleet, from, "Deployment", ns, "web")

	// Now there is no other place.
	change(t, fleet, to, noExecute)
	fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.EvictionHeld)
		if c == nil || c.Reason != workv1alpha2.NothingFitsReason || len(b.Spec.Clusters) != 1 || b.Spec.Clusters[0].Name != to {
			return fmt.Errorf("it is in %v, EvictionHeld is %+v", b.Spec.Clusters, c)
		}
		return nil
	})
	change(t, fleet, to, untainted)
	change(t, fleet, from, untainted)
	fleettest.ExpectEventually(t, fleet.Hub, b, leaving("", to))

	// It returns when the user requests it.
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) {
		p.Annotations[policyv1alpha1.ClusterFailbackRequestedAnnotation] = time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	})
	fleettest.ExpectEventually(t, fleet.Hub, b, leaving("", from))
	fleettest.ExpectEventually(t, fleet.Hub, workIn(to, ns), fleettest.Exists)
	runs(t, fleet, from, ns)
	expectRemoved(t, fleet, to, "Deployment", ns, "web")
	withdraw(t, fleet, web, from)
}

// TestAnExclusiveObjectIsNeverTwice has an object whose policy is exclusive leave a cluster: the copy elsewhere is created when the Work
// in the cluster is gone.
func TestAnExclusiveObjectIsNeverTwice(t *testing.T) {
	fleet, ns := start(t)
	clusters, all := island(t, fleet, 100, 100)
	web := fleettest.Deployment(ns, "web", 2)
	place := byAvailable(policyv1alpha1.ReplicaDivisionPreferenceAggregated, all)
	place.SpreadConstraints = []policyv1alpha1.SpreadConstraint{spread("cluster", 1, 1)}
	policy := fleettest.Policy(ns, "web", place, web)
	policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
	policy.Annotations = map[string]string{policyv1alpha1.HandoverAnnotation: policyv1alpha1.HandoverExclusive}
	fleettest.Create(t, fleet.Hub, web, policy)
	b := fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "web"), scheduled)
	from, to := clusters[0], clusters[1]
	if b.Spec.Clusters[0].Name == to {
		from, to = to, from
	}
	fleettest.ExpectEventually(t, fleet.Hub, workIn(from, ns), fleettest.Exists)

	change(t, fleet, from, noExecute)
	fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.EvictionHeld)
		if c == nil || c.Reason != workv1alpha2.AwaitsEndReason {
			return fmt.Errorf("EvictionHeld is %+v", c)
		}
		return leaving(from, to)(b)
	})
	fleettest.ExpectEventually(t, fleet.Hub, workIn(from, ns), going)
	fleettest.ExpectAbsent(t, fleet.Hub, workIn(to, ns))
	expectRemoved(t, fleet, from, "Deployment", ns, "web")
	fleettest.ExpectEventually(t, fleet.Hub, workIn(to, ns), fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, b, func(b *workv1alpha2.ResourceBinding) error {
		if meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.EvictionHeld) != nil {
			return errors.New("the condition EvictionHeld stays")
		}
		return leaving("", to)(b)
	})
	withdraw(t, fleet, web, to)
}

// runs reports the Deployment web of a cluster as healthy and rolled out.
func runs(t *testing.T, fleet *fleettest.Fleet, cluster, namespace string) {
	t.Helper()
	observe(t, fleet, cluster, namespace, workv1alpha1.ResourceHealthy,
		`{"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "updatedReplicas": 2}`)
	fleettest.UpdateStatus(t, fleet.Hub, workIn(cluster, namespace), func(w *workv1alpha1.Work) {
		meta.SetStatusCondition(&w.Status.Conditions, workv1alpha1.Progressed(w.Generation))
	})
}

func noExecute(c *clusterv1alpha1.Cluster) {
	c.Spec.Taints = append(c.Spec.Taints, corev1.Taint{Key: "broken", Effect: corev1.TaintEffectNoExecute})
}

func untainted(c *clusterv1alpha1.Cluster) { c.Spec.Taints = nil }

// leaving is the condition of a binding that leaves one cluster, none if empty, and is scheduled to the others.
func leaving(from string, to ...string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		var tasks []string
		for _, task := range b.Spec.GracefulEvictionTasks {
			tasks = append(tasks, task.FromCluster)
		}
		if from == "" && len(tasks) > 0 || from != "" && (len(tasks) != 1 || tasks[0] != from) {
			return fmt.Errorf("it leaves %v, want %q", tasks, from)
		}
		return placed(to...)(b)
	}
}
