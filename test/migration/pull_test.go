package migration_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestInPullMode has control planes take over a member in Pull mode beside one in Push mode, one after the other: an import, and then an
// export. Each time the agent of the former is stopped, and one of the next is registered. No object in a member changes but for its marks.
func TestInPullMode(t *testing.T) {
	fleettest.Nightly(t, "TestImport guards the same with members in Push mode; this takes 100 s")
	t.Parallel()
	source, target := fleettest.StartHub(t, "--enable-bootstrap-token-auth"), fleettest.StartHub(t, "--enable-bootstrap-token-auth")
	east, west := fleettest.StartMember(t, "east", "--nodes", "1"), fleettest.StartMember(t, "west", "--nodes", "1")
	members := map[string]*fleettest.Part{"east": east, "west": west}
	source.Join(t, "east", east.Kubeconfig)
	agent := source.StartAgent(t, "west", west.Kubeconfig)
	propagate(t, source, members)
	rolledOut(t, members)
	// Its own control loops are done with the members: what changes from here on is a fault.
	before := contentsOf(t, members)

	importing := []string{"import", "--kubeconfig", target.Kubeconfig, "--from-kubeconfig", source.Kubeconfig}
	copied := run(t, append(importing, "-o", "json")...)
	if copied.Copied.Created == 0 || len(copied.Copied.Refused) > 0 || copied.Comparison.Same < 8 || len(copied.Comparison.Differences) > 0 {
		t.Fatalf("the import reports %+v", copied)
	}
	fleettest.ExpectRefusal(t, "Lease karmada-cluster/west is renewed", append(importing, "--cut-over")...)
	unchanged(t, members, before)
	for name := range members {
		hold(t, source, name)
	}
	agent.Stop(t)
	as(t, members)
	before = contentsOf(t, members)
	if again := run(t, append(importing, "-o", "json")...); again.Copied.Created != 0 || len(again.Comparison.Differences) > 0 {
		t.Errorf("a second import reports %+v", again)
	}
	if r := fleettest.Flagship(t, append(importing, "--cut-over")...); r.Code != 0 || strings.Count(r.Stdout, "is taken over") != 2 {
		t.Fatalf("the cut-over: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	taken(t, east)
	if now := objectsOf(t, west); !maps.Equal(now, before["west"]) {
		t.Errorf("objects in west have changed without an agent, from %v to %v", before["west"], now)
	}
	agent = target.StartAgent(t, "west", west.Kubeconfig)
	taken(t, west)
	ready(t, target, "west")
	applied(t, target, "east")
	applied(t, target, "west")
	unchanged(t, members, before)
	inCharge(t, target, members, "nginx:2")
	fleettest.ExpectRefusal(t, "writes to cluster east, west already", importing...)
	exportsInPullMode(t, target, members, agent)
}

// exportsInPullMode gives the members to a third control plane.
func exportsInPullMode(t *testing.T, from *fleettest.Part, members map[string]*fleettest.Part, agent *fleettest.Agent) {
	t.Helper()
	to := fleettest.StartHub(t, "--enable-bootstrap-token-auth")
	exporting := []string{"export", "--kubeconfig", from.Kubeconfig, "--to-kubeconfig", to.Kubeconfig}
	rolledOut(t, members)
	before := contentsOf(t, members)
	exported := run(t, append(exporting, "-o", "json")...)
	if exported.Copied.Created == 0 || len(exported.Copied.Refused) > 0 || exported.Comparison.Same < 8 || len(exported.Comparison.Differences) > 0 {
		t.Fatalf("the export reports %+v", exported)
	}
	unchanged(t, members, before)
	if r := fleettest.Flagship(t, append(exporting, "--cut-over")...); r.Code != 0 || strings.Count(r.Stdout, "is given away") != 2 {
		t.Fatalf("the cut-over: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	agent.Stop(t)
	as(t, members)
	before = contentsOf(t, members)
	to.StartAgent(t, "west", members["west"].Kubeconfig)
	for name, member := range members {
		applied(t, to, name)
		taken(t, member)
	}
	ready(t, to, "west")
	unchanged(t, members, before)
	inCharge(t, to, members, "nginx:3")
	fleettest.ExpectRefusal(t, "writes to cluster east, west already", exporting...)
}

// contentsOf are the managed objects of all members.
func contentsOf(t *testing.T, members map[string]*fleettest.Part) map[string]map[string]object {
	t.Helper()
	all := map[string]map[string]object{}
	for name, member := range members {
		if all[name] = objectsOf(t, member); len(all[name]) < 9 {
			t.Fatalf("there are only %v", all[name])
		}
	}
	return all
}

// unchanged expects that every object is there, has not been made again, and has the same content and generation, so that nothing restarts.
func unchanged(t *testing.T, members map[string]*fleettest.Part, before map[string]map[string]object) {
	t.Helper()
	for name, member := range members {
		now := objectsOf(t, member)
		for key, was := range before[name] {
			is := now[key]
			was.resourceVersion, is.resourceVersion = "", ""
			if is != was {
				t.Errorf("%s in %s was %+v and is %+v", key, name, was, is)
			}
		}
	}
}

// as gives the objects of members, and the accounts of the agent, the form in which Karmada leaves them.
func as(t *testing.T, members map[string]*fleettest.Part) {
	t.Helper()
	for name, member := range members {
		manager := map[string]string{"east": "karmada-controller-manager", "west": "karmada-agent"}[name]
		asKarmada(t, member, manager)
		accounts := &corev1.ServiceAccountList{}
		if err := member.List(t.Context(), accounts, client.InNamespace(clusterv1alpha1.ClusterNamespace)); err != nil {
			t.Fatal(err)
		}
		for i := range accounts.Items {
			fleettest.Update(t, member.Cluster, &accounts.Items[i], func(a *corev1.ServiceAccount) { delete(a.Annotations, workv1alpha1.ControlPlaneAnnotation) })
		}
	}
}

// ready waits until a cluster is ready.
func ready(t *testing.T, hub *fleettest.Part, name string) {
	t.Helper()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fleettest.ExpectEventually(t, hub.Cluster, cluster, func(c *clusterv1alpha1.Cluster) error {
		if !meta.IsStatusConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady) || c.Spec.SyncMode != clusterv1alpha1.Pull {
			return fmt.Errorf("its mode is %s, its conditions are %+v", c.Spec.SyncMode, c.Status.Conditions)
		}
		return nil
	})
}
