package attacks_test

import (
	"encoding/json"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	members "github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestRestoredControlPlaneWaits brings a control plane back to an earlier state. The member keeps what it has, the
// differences are listed, an ordinary restart before that held nothing back, and a person lets it go on.
func TestRestoredControlPlaneWaits(t *testing.T) {
	hub := fleettest.StartHub(t)
	member := fleettest.StartMember(t, "east", "--bare")
	hub.Join(t, "east", member.Kubeconfig)
	const ns = "shop"
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	put := func(name, version string) {
		t.Helper()
		cm := fleettest.ConfigMap(ns, name, map[string]string{"version": version})
		fleettest.Create(t, hub.Cluster, cm, fleettest.Policy(ns, name, fleettest.To("east"), cm))
	}
	expect := func(name, version string) {
		t.Helper()
		fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap(ns, name, nil), func(cm *corev1.ConfigMap) error {
			if cm.Data["version"] != version {
				return fmt.Errorf("the version is %q, want %q", cm.Data["version"], version)
			}
			return nil
		})
	}
	put("changed", "1")
	put("dropped", "1")
	expect("changed", "1")
	expect("dropped", "1")

	hub.Kill()
	backUp := hub.Backup(t)
	hub.Start(t)
	fleettest.Update(t, hub.Cluster, fleettest.ConfigMap(ns, "changed", nil), func(cm *corev1.ConfigMap) { cm.Data["version"] = "2" })
	put("made", "1")
	fleettest.Delete(t, hub.Cluster, fleettest.ConfigMap(ns, "dropped", nil))
	expect("changed", "2")
	expect("made", "1")
	fleettest.ExpectGone(t, member.Cluster, fleettest.ConfigMap(ns, "dropped", nil))
	// The count of the member is raised beside the writes, not before them.
	fleettest.ExpectListed(t, hub.Cluster, newLeases(), clusterv1alpha1.SystemNamespace, leaseAt("member-east", 2))

	hub.Kill()
	backUp(t)
	hub.Start(t)
	east := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	held := func(want metav1.ConditionStatus) {
		t.Helper()
		fleettest.ExpectEventually(t, hub.Cluster, east, func(c *clusterv1alpha1.Cluster) error {
			found := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
			if found == nil || found.Status != want {
				return fmt.Errorf("the condition is %+v, want %s", found, want)
			}
			return nil
		})
	}
	held(metav1.ConditionTrue)
	// The Work of the object that the member has in a later version was reconciled, and was not applied.
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("east"), Name: workv1alpha1.WorkName("ConfigMap", ns, "changed")}}
	fleettest.ExpectEventually(t, hub.Cluster, work, func(w *workv1alpha1.Work) error {
		c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkDispatching)
		if c == nil || c.Reason != workv1alpha1.ControlPlaneRestoredReason {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
	expect("changed", "2")
	expect("made", "1")
	fleettest.ExpectAbsent(t, member.Cluster, fleettest.ConfigMap(ns, "dropped", nil))

	hub.Kill() // and it waits on after a restart
	hub.Start(t)
	want := map[string]members.Class{"changed": members.Different, "made": members.Orphan, "dropped": members.Missing}
	listed := findings(t, hub, "restore", "status")
	for name, class := range want {
		if listed[name] != class {
			t.Errorf("%s is listed as %q, want %q", name, listed[name], class)
		}
	}
	expect("changed", "2")

	if r := fleettest.Flagship(t, "restore", "resume", "--all", "--kubeconfig", hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("resuming: %s%s", r.Stdout, r.Stderr)
	}
	held(metav1.ConditionFalse)
	expect("changed", "1")
	expect("dropped", "1")
	expect("made", "1") // an object without a Work stays, and is listed
	if got := findings(t, hub, "orphans")["made"]; got != members.Orphan {
		t.Errorf("the orphan is listed as %q", got)
	}

	hub.Kill() // a resumed member is not held again
	hub.Start(t)
	put("after", "1")
	expect("after", "1")
}

// findings runs a command that lists, and returns the class of every object of the test by its name.
func findings(t *testing.T, hub *fleettest.Part, args ...string) map[string]members.Class {
	t.Helper()
	var r fleettest.Result
	for range 20 { // a control plane that was started a moment ago has no connection yet; each run takes its time
		if r = fleettest.Flagship(t, append(args, "--cluster", "east", "-o", "json", "--kubeconfig", hub.Kubeconfig)...); r.Code == 0 {
			break
		}
	}
	var reports []members.Report
	if err := json.Unmarshal([]byte(r.Stdout), &reports); err != nil || len(reports) != 1 || r.Code != 0 {
		t.Fatalf("the command printed %s%s: %v", r.Stdout, r.Stderr, err)
	}
	found := map[string]members.Class{}
	for _, f := range reports[0].Findings {
		found[f.Name] = f.Class
	}
	return found
}

func newLeases() *coordinationv1.LeaseList { return &coordinationv1.LeaseList{} }

// leaseAt waits for a Lease with at least so many transitions.
func leaseAt(name string, transitions int32) func(*coordinationv1.LeaseList) error {
	return func(l *coordinationv1.LeaseList) error {
		for i := range l.Items {
			if n := l.Items[i].Spec.LeaseTransitions; l.Items[i].Name == name && n != nil && *n >= transitions {
				return nil
			}
		}
		return fmt.Errorf("there is no Lease %s with %d transitions", name, transitions)
	}
}
