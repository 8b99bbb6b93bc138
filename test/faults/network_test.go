package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// troubles are what the network to a member does, and what its Cluster reports meanwhile.
var troubles = []struct {
	name string
	fleettest.Trouble
	// unready: the condition Ready turns False, with the reason ClusterNotReachable. Otherwise it does not change at all, unless it may:
	// each of the requests for it may be the one whose connection is cut.
	unready, may bool
}{
	{name: "DropsEverything", Trouble: fleettest.Trouble{Held: true}, unready: true},
	{name: "LosesConnections", Trouble: fleettest.Trouble{Lost: true}, unready: true},
	{name: "IsSlow", Trouble: fleettest.Trouble{Delay: 150 * time.Millisecond}},
	{name: "CutsConnections", Trouble: fleettest.Trouble{Cut: 48 << 10}, may: true},
}

// TestTheNetworkFails has two members, one of them behind a network that fails in every way. The other one is not affected, nothing is
// deleted, and when the network works again the member has what it missed, and its status is on the templates. It takes 75 s beside other tests:
// each failure lasts until the Cluster says so.
func TestTheNetworkFails(t *testing.T) {
	hub := fleettest.StartHub(t, shortTimes...)
	near, far := fleettest.StartMember(t, "near", "--bare"), fleettest.StartMember(t, "far", "--bare")
	network := fleettest.StartLink(t, far.Cluster)
	hub.Join(t, "near", near.Kubeconfig)
	hub.Join(t, "far", network.Kubeconfig)
	here, there := newGround(t, hub.Cluster, near.Cluster, "near"), newGround(t, hub.Cluster, far.Cluster, "far")
	there.put("kept", 3, "0")
	there.put("dropped", len(troubles), "0")
	there.put("taken", len(troubles), "0")
	web := fleettest.Deployment(there.ns, "web", 3)
	fleettest.Create(t, hub.Cluster, fleettest.Policy(there.ns, "web", fleettest.To("far"), web), web)
	there.converges()
	steady := expectSince(t, hub, "near", metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason)
	reports(t, far.Cluster, web, 1)
	fleettest.ExpectEventually(t, hub.Cluster, web, readyReplicas(1))

	for i, c := range troubles {
		t.Run(c.name, func(t *testing.T) {
			here.t, there.t = t, t
			value := fmt.Sprint(i + 1)
			since := expectSince(t, hub, "far", metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason)
			nearBefore, farBefore := population(t, near), population(t, far)
			network.Set(c.Trouble)

			// What the member misses. Its own controllers go on.
			there.put("kept", 3, value)
			fleettest.Delete(t, hub.Cluster, fleettest.ConfigMap(there.ns, fmt.Sprintf("dropped-%d", i), nil))
			late := byHand("far", there.ns, "late-"+strings.ToLower(c.name), 2, map[string]string{"value": value})
			fleettest.Create(t, hub.Cluster, late)
			reports(t, far.Cluster, web, int32(i%2)+2)
			// The other member.
			app := fleettest.Deployment(here.ns, "app-"+strings.ToLower(c.name), 2)
			fleettest.Create(t, hub.Cluster, fleettest.Policy(here.ns, app.Name, fleettest.To("near"), app), app)
			fleettest.ExpectEventually(t, near.Cluster, fleettest.Deployment(here.ns, app.Name, 2), fleettest.Replicas(2))
			reports(t, near.Cluster, app, 2)
			fleettest.ExpectEventually(t, hub.Cluster, app, readyReplicas(2))
			if c.unready {
				expectSince(t, hub, "far", metav1.ConditionFalse, clusterv1alpha1.ClusterNotReachableReason)
				fleettest.ExpectEventually(t, hub.Cluster, late, func(w *workv1alpha1.Work) error {
					return is(w, workv1alpha1.WorkApplied, metav1.ConditionFalse)
				})
				if gone := deleted(t, far, maps.Clone(farBefore)); len(gone) != 0 {
					t.Errorf("deleted in the member that cannot be reached: %v", gone)
				}
			} else {
				there.agrees() // slowly
			}

			network.Set(fleettest.Trouble{})
			// A user deletes an object of ours, which is not observed if a watch was lost for good. It is another one each time: the pause
			// before an object is put back grows while it is deleted again and again.
			fleettest.Delete(t, far.Cluster, fleettest.ConfigMap(there.ns, fmt.Sprintf("taken-%d", i), nil))
			there.converges()
			fleettest.ExpectEventually(t, hub.Cluster, web, readyReplicas(int32(i%2)+2))
			now := expectSince(t, hub, "far", metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason)
			if !c.unready && !c.may && now != since {
				t.Errorf("Ready has changed, from %s to %s", since, now)
			}
			// One by the control plane and one by the user.
			if gone := deleted(t, far, farBefore); len(gone) != 2 {
				t.Errorf("deleted in the member: %v, want 2 objects", gone)
			}
			if gone := deleted(t, near, nearBefore); len(gone) != 0 {
				t.Errorf("deleted in the other member: %v", gone)
			}
			if now := expectSince(t, hub, "near", metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason); now != steady {
				t.Errorf("the condition Ready of the other member has changed, from %s to %s", steady, now)
			}
		})
	}
	if err := errors.Join(here.foreign.untouched(t.Context()), there.foreign.untouched(t.Context())); err != nil {
		t.Error(err)
	}
}

// expectSince waits until the condition Ready of a cluster has a status and a reason, and returns since when it has.
func expectSince(t *testing.T, hub *fleettest.Part, cluster string, status metav1.ConditionStatus, reason string) (since time.Time) {
	t.Helper()
	fleettest.ExpectEventually(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}, func(c *clusterv1alpha1.Cluster) error {
		ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		if ready == nil || ready.Status != status || ready.Reason != reason {
			return fmt.Errorf("Ready is %+v", ready)
		}
		since = ready.LastTransitionTime.Time
		return nil
	})
	return since
}

// reports writes the status of a Deployment in a member that has no controllers.
func reports(t *testing.T, member *fleettest.Cluster, d *appsv1.Deployment, ready int32) {
	t.Helper()
	fleettest.UpdateStatus(t, member, fleettest.ExpectEventually(t, member, d, fleettest.Exists), func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: *d.Spec.Replicas, UpdatedReplicas: *d.Spec.Replicas, ReadyReplicas: ready, AvailableReplicas: ready,
		}
	})
}

// readyReplicas is the condition of a template whose present status has n ready replicas.
func readyReplicas(n int32) func(*appsv1.Deployment) error {
	return func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != n || conditionOf(d, workv1alpha2.StatusCurrent) != "" {
			return fmt.Errorf("status is %+v", d.Status)
		}
		return nil
	}
}

// countedKinds are the kinds whose deletions in members are counted.
func countedKinds() []client.ObjectList {
	return []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.NamespaceList{}, &appsv1.DeploymentList{},
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
	}
}

// population reads the objects of a member, by what is never used again after a deletion.
func population(t *testing.T, member *fleettest.Part) map[types.UID]string {
	t.Helper()
	present := map[types.UID]string{}
	for _, list := range countedKinds() {
		if err := member.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		if err := meta.EachListItem(list, func(o runtime.Object) error {
			m, err := meta.Accessor(o)
			if err == nil {
				present[m.GetUID()] = fmt.Sprintf("%T %s/%s", o, m.GetNamespace(), m.GetName())
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return present
}

// deleted returns what was deleted in a member since before. Requests are no measure: the API server counts the deletion of an object
// as failed if the connection ended before its answer.
func deleted(t *testing.T, member *fleettest.Part, before map[types.UID]string) []string {
	t.Helper()
	now := population(t, member)
	maps.DeleteFunc(before, func(uid types.UID, _ string) bool { return now[uid] != "" })
	return slices.Sorted(maps.Values(before))
}
