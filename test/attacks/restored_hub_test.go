package attacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	members "github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestRestoredControlPlaneWaits brings a control plane back to an earlier state. The member keeps what it has, the
// differences are listed, an ordinary restart before that held nothing back, and a person lets it go on. It takes 80 s beside other tests, for each start of a control plane.
func TestRestoredControlPlaneWaits(t *testing.T) {
	t.Parallel()
	v := newVersions(t)
	hub, member, put, expect := v.hub, v.member, v.put, v.expect
	const ns = versionsNamespace
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
	// The count is raised beside the writes, not before them, and in the member last.
	fleettest.ExpectListed(t, member.Cluster, newLeases(), clusterv1alpha1.ClusterNamespace, leaseAt("flagship-"+hubID(t, hub.Cluster), 2))

	hub.Kill()
	backUp(t)
	hub.Start(t)

	v.held(metav1.ConditionTrue)
	// The Work of the object that the member has in a later version was reconciled, and was not applied.
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("east"), Name: workv1alpha1.WorkName("ConfigMap", ns, "changed")}}
	fleettest.ExpectEventually(t, hub.Cluster, work, func(w *workv1alpha1.Work) error {
		c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkDispatching)
		if c == nil || c.Reason != workv1alpha1.DispatchingHeldReason {
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
	findings(t, hub, want, "restore", "status")
	expect("changed", "2")

	if r := fleettest.Flagship(t, "restore", "resume", "--all", "--kubeconfig", hub.Kubeconfig); r.Code != 0 {
		t.Fatalf("resuming: %s%s", r.Stdout, r.Stderr)
	}
	v.held(metav1.ConditionFalse)
	expect("changed", "1")
	expect("dropped", "1")
	expect("made", "1") // an object without a Work stays, and is listed
	findings(t, hub, map[string]members.Class{"made": members.Orphan}, "orphans")

	hub.Kill() // a resumed member is not held again
	hub.Start(t)
	put("after", "1")
	expect("after", "1")
}

// versionsNamespace is the namespace of the ConfigMaps of versions.
const versionsNamespace = "shop"

// versions are ConfigMaps with a version, on a hub whose member is named east.
type versions struct {
	t           *testing.T
	hub, member *fleettest.Part
}

func newVersions(t *testing.T) *versions {
	t.Helper()
	v := &versions{t: t, hub: fleettest.StartHub(t), member: fleettest.StartMember(t, "east", "--bare")}
	v.hub.Join(t, "east", v.member.Kubeconfig)
	t.Cleanup(func() { v.explain(t) })
	fleettest.Create(t, v.hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: versionsNamespace}})
	return v
}

// explain shows where the objects are, if the test failed.
func (v *versions) explain(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	ctx := context.WithoutCancel(t.Context())
	var bindings workv1alpha2.ResourceBindingList
	var works workv1alpha1.WorkList
	cluster := &clusterv1alpha1.Cluster{}
	err := errors.Join(v.hub.List(ctx, &bindings, client.InNamespace(versionsNamespace)), v.hub.List(ctx, &works), v.hub.Get(ctx, client.ObjectKey{Name: "east"}, cluster))
	t.Logf("Cluster %v: %+v: %v", cluster.Annotations, cluster.Status.Conditions, err)
	for i := range bindings.Items {
		t.Logf("binding %s to %v: %+v", bindings.Items[i].Name, bindings.Items[i].Spec.Clusters, bindings.Items[i].Status.Conditions)
	}
	for i := range works.Items {
		t.Logf("Work %s: %+v", works.Items[i].Name, works.Items[i].Status.Conditions)
	}
}

// put creates one with its policy.
func (v *versions) put(name, version string) {
	v.t.Helper()
	cm := fleettest.ConfigMap(versionsNamespace, name, map[string]string{"version": version})
	fleettest.Create(v.t, v.hub.Cluster, cm, fleettest.Policy(versionsNamespace, name, fleettest.To("east"), cm))
}

// expect waits until the member has one with a version.
func (v *versions) expect(name, version string) {
	v.t.Helper()
	fleettest.ExpectEventually(v.t, v.member.Cluster, fleettest.ConfigMap(versionsNamespace, name, nil), func(cm *corev1.ConfigMap) error {
		if cm.Data["version"] != version {
			return fmt.Errorf("the version is %q, want %q", cm.Data["version"], version)
		}
		return nil
	})
}

// held waits until the condition DispatchingHeld of the member has a status.
func (v *versions) held(want metav1.ConditionStatus) {
	v.t.Helper()
	east := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	fleettest.ExpectEventually(v.t, v.hub.Cluster, east, func(c *clusterv1alpha1.Cluster) error {
		found := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
		if found == nil || found.Status != want {
			return fmt.Errorf("the condition is %+v, want %s", found, want)
		}
		return nil
	})
}

// findings runs a command that lists, until it has the objects with their classes. A control plane that was started a moment ago has no
// connection to the member yet.
func findings(t *testing.T, hub *fleettest.Part, want map[string]members.Class, args ...string) {
	t.Helper()
	until(t, func() error {
		r := fleettest.Flagship(t, append(args, "--cluster", "east", "-o", "json", "--kubeconfig", hub.Kubeconfig)...)
		var reports []members.Report
		if err := json.Unmarshal([]byte(r.Stdout), &reports); err != nil || len(reports) != 1 || r.Code != 0 {
			return fmt.Errorf("the command printed %s%s: %v", r.Stdout, r.Stderr, err)
		}
		found := map[string]members.Class{}
		for _, f := range reports[0].Findings {
			found[f.Name] = f.Class
		}
		for name, class := range want {
			if found[name] != class {
				return fmt.Errorf("%s is listed as %q, want %q", name, found[name], class)
			}
		}
		return nil
	})
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
