package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// clocks are how far a clock is off.
var clocks = map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour}

// TestClocksAreOff: members and agents whose clock is an hour off are served as all others.
func TestClocksAreOff(t *testing.T) {
	t.Parallel()
	// The Leases are checked often. An hour is far more than the grace period, and five minutes without a processor are not to be expected.
	hub := fleettest.StartHub(t, "--enable-bootstrap-token-auth", "--cluster-monitor-period=1s", "--cluster-monitor-grace-period=5m", "--cluster-probe-period=1s")
	for name, ahead := range clocks {
		t.Run("OfAnAgent-"+name, func(t *testing.T) { t.Parallel(); agentsClockIsOff(t, hub, "agent-"+name, ahead) })
		t.Run("OfAMember-"+name, func(t *testing.T) { t.Parallel(); membersClockIsOff(t, hub, "member-"+name, ahead) })
	}
}

// agentsClockIsOff: the process of an agent has another time, from its registration on, which is minutes after the certificates of the
// control plane were made.
func agentsClockIsOff(t *testing.T, hub *fleettest.Part, name string, ahead time.Duration) {
	fleettest.Nightly(t, "it compiles all that an agent links with another clock, beside the servers of other tests")
	const renewals, dropped, many = 3, 2, 40
	member := fleettest.StartMember(t, name, "--bare")
	agent := hub.StartShiftedAgent(t, ahead, name, member.Kubeconfig, "--brake-minimum", "20", "--cluster-lease-duration", "4s")
	g := newGround(t, hub.Cluster, member.Cluster, name)
	g.put("kept", 4, "1")
	g.put("dropped", dropped, "1")
	g.converges()
	agent.Kill()
	old := issueEarlier(t, hub, agent, name, 20*24*time.Hour)
	agent.Start(t)
	eventually(t, "the certificate is renewed at half of its life", func(context.Context) error {
		if serial(t, agent) == old {
			return errors.New("it is the old one")
		}
		return nil
	})
	ready := readySince(t, hub.Cluster, name)
	awaitRenewals(t, hub.Cluster, name, renewals)
	if since := readySince(t, hub.Cluster, name); !since.Equal(&ready) {
		t.Errorf("it was not ready meanwhile: it is since %s, and was since %s", since, ready)
	}
	expectWarningOf(t, g, time.Now())

	g.drop("dropped", dropped)
	for i := range dropped {
		fleettest.ExpectGone(t, member.Cluster, fleettest.ConfigMap(g.ns, fmt.Sprintf("dropped-%d", i), nil))
	}
	if c := clockCondition(t, hub.Cluster, name); c != nil {
		t.Errorf("the clock of the member is right, and the condition is %+v", c)
	}

	// The brake is released until a time by the clock of the control plane.
	g.put("many", many, "1")
	g.converges()
	g.drop("many", many)
	fleettest.ExpectEventually(t, hub.Cluster, clusterNamed(name), func(c *clusterv1alpha1.Cluster) error {
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionBrakeEngaged)
	})
	if r := fleettest.Flagship(t, "release-brake", name, "--for", "10m", "--kubeconfig", hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("the brake is not released: %s%s", r.Stdout, r.Stderr)
	}
	for i := range many {
		fleettest.ExpectGone(t, member.Cluster, fleettest.ConfigMap(g.ns, fmt.Sprintf("many-%d", i), nil))
	}
	fleettest.ExpectEventually(t, hub.Cluster, clusterNamed(name), func(c *clusterv1alpha1.Cluster) error {
		if meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionBrakeEngaged) {
			return errors.New("the brake is still engaged")
		}
		return nil
	})
}

// membersClockIsOff: the API server of a member has another time in everything that it answers.
func membersClockIsOff(t *testing.T, hub *fleettest.Part, name string, ahead time.Duration) {
	member := fleettest.StartMember(t, name, "--bare")
	proxy := fleettest.StartProxy(t, member.Cluster)
	proxy.ClockAhead(ahead)
	hub.Join(t, name, proxy.Kubeconfig)
	g := newGround(t, hub.Cluster, member.Cluster, name)
	g.put("kept", 4, "1")
	g.put("dropped", 2, "1")
	g.converges()
	ready := readySince(t, hub.Cluster, name)
	direction := map[bool]string{true: "1h0m ahead of", false: "1h0m behind"}[ahead > 0]
	fleettest.ExpectEventually(t, hub.Cluster, clusterNamed(name), func(c *clusterv1alpha1.Cluster) error {
		found := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionClockInSync)
		if found == nil || found.Status != metav1.ConditionFalse || found.Reason != clusterv1alpha1.ClockDiffersReason || !strings.Contains(found.Message, direction) {
			return fmt.Errorf("the condition of its clock is %+v", found)
		}
		return nil
	})
	expectWarningOf(t, g, time.Now()) // to which the proxy adds
	g.drop("dropped", 2)
	g.put("kept", 4, "2")
	g.converges()

	proxy.ClockAhead(0)
	fleettest.ExpectEventually(t, hub.Cluster, clusterNamed(name), func(c *clusterv1alpha1.Cluster) error {
		if found := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionClockInSync); found != nil {
			return fmt.Errorf("its clock is right, and the condition is %+v", found)
		}
		return nil
	})
	g.put("late", 1, "1")
	g.converges()
	if since := readySince(t, hub.Cluster, name); !since.Equal(&ready) {
		t.Errorf("it was not ready meanwhile: it is since %s, and was since %s", since, ready)
	}
}

// readySince waits until a cluster is ready, and returns since when it is.
func readySince(t *testing.T, hub *fleettest.Cluster, name string) metav1.Time {
	t.Helper()
	cluster := fleettest.ExpectEventually(t, hub, clusterNamed(name), func(c *clusterv1alpha1.Cluster) error {
		return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
	})
	return meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionReady).LastTransitionTime
}

func clockCondition(t *testing.T, hub *fleettest.Cluster, name string) *metav1.Condition {
	t.Helper()
	cluster := fleettest.ExpectEventually(t, hub, clusterNamed(name), fleettest.Exists)
	return meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionClockInSync)
}

// awaitRenewals waits until the Lease of an agent has been renewed some times.
func awaitRenewals(t *testing.T, hub *fleettest.Cluster, name string, times int) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}}
	var last string
	fleettest.ExpectEventually(t, hub, lease, func(l *coordinationv1.Lease) error {
		if renewed := l.Spec.RenewTime.String(); renewed != last {
			last = renewed
			times--
		}
		if times >= 0 {
			return fmt.Errorf("%d renewals are missing", times+1)
		}
		return nil
	})
}

// expectWarningOf has a member warn about an object at a time by its clock, and waits until the template has the warning.
func expectWarningOf(t *testing.T, g *ground, at time.Time) {
	t.Helper()
	about := fleettest.ConfigMap(g.ns, "kept-0", nil)
	if err := g.member.Get(t.Context(), client.ObjectKeyFromObject(about), about); err != nil {
		t.Fatal(err)
	}
	fleettest.Create(t, g.member, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: g.ns, Name: "warning"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: g.ns, Name: about.Name, UID: about.UID},
		Type:           corev1.EventTypeWarning, Reason: "Odd", Message: "something is odd", Source: corev1.EventSource{Component: "test"},
		FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at), Count: 1,
	})
	eventually(t, "the template has the warning of its member", func(ctx context.Context) error {
		list := &corev1.EventList{}
		if err := g.hub.List(ctx, list, client.InNamespace(g.ns)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Reason == "Odd" && e.InvolvedObject.Name == about.Name && strings.Contains(e.Message, g.cluster) {
				return nil
			}
		}
		return fmt.Errorf("it is not among %d events", len(list.Items))
	})
}
