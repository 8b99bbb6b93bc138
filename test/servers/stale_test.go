package servers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// spare is the cluster to which objects would be moved.
	spare = "spare"
	// maintenance is the taint of a person.
	maintenance = "example.com/maintenance"
	// tolerated is longer than the others need to take over, and short enough that the leader counts its pause as none: after a gap of more
	// than 20 s it would hold all evictions, and the test would be of that.
	tolerated = 15 * time.Second
)

// TestAStaleLeaderEvictsNothing pauses the leader when it is about to evict objects from a cluster that is not ready and that a person has
// tainted. Meanwhile the cluster becomes ready, the taint is removed, and the tolerations run out. The leader goes on with timers that are
// due and caches in which nothing has changed.
func TestAStaleLeaderEvictsNothing(t *testing.T) {
	fleettest.Nightly(t, "TestServers/Paused guards that a leader that was paused writes nothing old")
	const objects, stale = 40, 0
	s := startEachServer(t, func(dir string, i int, common []string) *fleettest.Part {
		observation := "--failover-observation-period=10m" // the others evict nothing of their own accord
		if i == stale {
			observation = "--failover-observation-period=1s" // nothing is held at this one
		}
		return fleettest.StartHubIn(t, dir, append(common, observation)...)
	})
	s.member = fleettest.StartMember(t, member, "--bare")
	other := fleettest.StartMember(t, spare, "--bare")
	s.all[stale].Join(t, member, s.member.Kubeconfig)
	s.all[stale].Join(t, spare, other.Kubeconfig)
	s.tolerant(t, objects)
	for s.leader(t) != stale { // it had no processor time, and lost the lease
		leads := s.leader(t)
		s.all[leads].Stop(t)
		s.leader(t, leads)
		s.all[leads].Start(t)
	}
	through := s.all[1]
	bindings, works := record(t, through, &workv1alpha2.ResourceBindingList{}, s.ns), record(t, through, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace(member))

	due := s.fails(t, through)
	s.all[stale].Pause(t)
	paused := time.Now()
	if left := due.Sub(paused); left < time.Second {
		t.Fatalf("the leader was paused %s before the tolerations ran out: it may have evicted before", left)
	}
	s.recovers(t, through)
	now := s.leader(t, stale)
	eventually(t, "the member is ready, and the tolerations have run out", func(ctx context.Context) error {
		if time.Now().Before(due.Add(time.Second)) { // times in objects have full seconds
			return errors.New("the tolerations have not run out")
		}
		c := cluster(member)
		if err := through.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	})
	s.all[stale].Resume(t)
	t.Logf("the leader was paused for %s; %s took over", time.Since(paused).Round(time.Millisecond), s.all[now].Name)
	s.follows(t, stale)
	s.expectNoEviction(t, bindings, works)
}

func cluster(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// tolerant writes ConfigMaps that prefer the member to the spare one. Half of them tolerate for some seconds that it is not ready, half of
// them that it is tainted, and each the other one for ever.
func (s *servers) tolerant(t *testing.T, count int) {
	t.Helper()
	fleettest.Create(t, s.all[0].Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
	seconds := int64(tolerated / time.Second)
	for name, limited := range map[string][2]*int64{"unready": {&seconds, nil}, "tainted": {nil, &seconds}} {
		placement := policyv1alpha1.Placement{}
		for _, in := range []string{member, spare} {
			placement.ClusterAffinities = append(placement.ClusterAffinities, policyv1alpha1.ClusterAffinityTerm{
				AffinityName: in, ClusterAffinity: policyv1alpha1.ClusterAffinity{ClusterNames: []string{in}},
			})
		}
		for key, seconds := range map[string]*int64{
			clusterv1alpha1.TaintClusterNotReady: limited[0], clusterv1alpha1.TaintClusterUnreachable: limited[0], maintenance: limited[1],
		} {
			placement.ClusterTolerations = append(placement.ClusterTolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds,
			})
		}
		policy := fleettest.Policy(s.ns, name, placement)
		policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": name}}}}
		policy.Spec.Failover = &policyv1alpha1.FailoverBehavior{Cluster: &policyv1alpha1.ClusterFailoverBehavior{}}
		fleettest.Create(t, s.all[0].Cluster, policy)
		for i := range count / 2 {
			c := fleettest.ConfigMap(s.ns, fmt.Sprintf("%s-%d", name, i), nil)
			c.Labels = map[string]string{"group": name}
			fleettest.Create(t, s.all[0].Cluster, c)
		}
	}
	eventually(t, "the member has all objects", func(ctx context.Context) error {
		present, err := s.list(ctx, s.member, client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue})
		if err == nil && len(present) != count {
			err = fmt.Errorf("it has %d of %d", len(present), count)
		}
		return err
	})
}

// fails kills the member, taints it when it is not ready, and returns when the last of the tolerations runs out. Nothing holds its evictions.
func (s *servers) fails(t *testing.T, through *fleettest.Part) (due time.Time) {
	t.Helper()
	s.member.Kill()
	fleettest.ExpectEventually(t, through.Cluster, cluster(member), func(c *clusterv1alpha1.Cluster) error {
		if ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady); ready == nil || ready.Status != metav1.ConditionFalse {
			return fmt.Errorf("its condition is %+v", ready)
		}
		return nil
	})
	tainted := cluster(member)
	fleettest.Update(t, through.Cluster, tainted, func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = append(c.Spec.Taints, corev1.Taint{Key: maintenance, Effect: corev1.TaintEffectNoExecute})
	})
	if held := meta.FindStatusCondition(tainted.Status.Conditions, clusterv1alpha1.ClusterConditionEvictionHeld); held != nil && held.Status == metav1.ConditionTrue {
		t.Fatalf("evictions are held: %+v", held)
	}
	for _, taint := range tainted.Spec.Taints {
		if taint.Key == maintenance && taint.TimeAdded != nil {
			return taint.TimeAdded.Add(tolerated)
		}
	}
	t.Fatalf("the taint has no time: %+v", tainted.Spec.Taints)
	return time.Time{}
}

// recovers ends what fails began.
func (s *servers) recovers(t *testing.T, through *fleettest.Part) {
	t.Helper()
	eventually(t, "the taint is removed", func(ctx context.Context) error {
		c := cluster(member)
		if err := through.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		var kept []corev1.Taint
		for _, taint := range c.Spec.Taints {
			if taint.Key != maintenance {
				kept = append(kept, taint)
			}
		}
		c.Spec.Taints = kept
		return through.Update(ctx, c)
	})
	s.member.Start(t)
}

// expectNoEviction fails if an object left the member, or was about to, since the recordings began.
func (s *servers) expectNoEviction(t *testing.T, bindings, works *recording) {
	t.Helper()
	last := fleettest.ConfigMap(s.ns, "last", nil)
	last.Labels = map[string]string{"group": "unready"}
	s.mark(t, s.all[1], last)
	for _, e := range bindings.until(t, workv1alpha2.BindingName("ConfigMap", last.Name)) {
		b, ok := e.Object.(*workv1alpha2.ResourceBinding)
		switch {
		case !ok:
			t.Errorf("the watch of bindings has %v", e.Object)
		case len(b.Spec.GracefulEvictionTasks) > 0:
			t.Errorf("binding %s was evicted: %+v", b.Name, b.Spec.GracefulEvictionTasks)
		case slices.ContainsFunc(b.Spec.Clusters, func(target workv1alpha2.TargetCluster) bool { return target.Name != member }):
			t.Errorf("binding %s was moved to %v", b.Name, b.Spec.Clusters)
		}
	}
	for _, e := range works.until(t, workv1alpha1.WorkName("ConfigMap", s.ns, last.Name)) {
		if o := e.object(); o == nil || e.Type == watch.Deleted || o.GetDeletionTimestamp() != nil {
			t.Errorf("a Work went: %s %v", e.Type, e.Object)
		}
	}
	for name, c := range s.converges(t, s.all[1]) {
		if strings.HasPrefix(name.Name, "unready") && c.DeletionTimestamp != nil {
			t.Errorf("%s is being deleted in the member", name)
		}
	}
}
