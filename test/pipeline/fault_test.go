package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A member that hangs must not hold up the others, and gets its share when it is back.
func TestAHangingMemberDelaysNoOtherMember(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	first := fleettest.ConfigMap(ns, "first", map[string]string{"a": "1"})
	second := fleettest.ConfigMap(ns, "second", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, first, fleettest.Policy(ns, "all", fleettest.Everywhere(), first, second))
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, first, fleettest.Exists)
	}
	fleet.PauseMember(t, "member2")
	fleettest.Create(t, fleet.Hub, second)
	fleettest.ExpectEventually(t, fleet.Member("member1"), second, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "second"), workIs("Applied", metav1.ConditionTrue, ""))
	fleet.ResumeMember(t, "member2")
	fleettest.ExpectEventually(t, fleet.Member("member2"), second, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, work("member2", "ConfigMap", ns, "second"), workIs("Applied", metav1.ConditionTrue, ""))
}

// A control plane that is killed while Deployments are in flight carries all of them, each once, when it is back; and one
// that finds everything in place writes nothing.
func TestKillLosesNothingAndARestartWritesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	const many = 200
	fleet := fleettest.Start(t, fleettest.Options{Members: 2, Bare: true})
	ns := fleet.Namespace(t)
	deployments := make([]*appsv1.Deployment, many)
	for i := range deployments {
		deployments[i] = fleettest.Deployment(ns, fmt.Sprintf("app-%03d", i), 1)
		fleettest.Create(t, fleet.Hub, deployments[i])
	}
	// One policy for all: they take off together, and most are somewhere between template and member when the hub dies.
	policy := fleettest.Policy(ns, "all", fleettest.Everywhere(), fleettest.Deployment(ns, "", 1))
	fleettest.Create(t, fleet.Hub, policy)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", deployments[many/10].Name), fleettest.Exists)
	fleet.Kill(t)
	fleet.Restart(t)
	created := map[string]string{}
	for _, m := range fleet.Members {
		for _, d := range deployments {
			created[m.Name+key(d)] = string(fleettest.ExpectEventually(t, m, d, fleettest.Exists).UID)
			fleettest.ExpectEventually(t, fleet.Hub, work(m.Name, "Deployment", ns, d.Name), workIs("Applied", metav1.ConditionTrue, ""))
		}
	}
	for _, d := range deployments {
		fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", d.Name), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	}

	if !fleettest.InPullMode() { // agents keep their credentials themselves
		for _, m := range fleet.Members {
			fleettest.ExpectEventually(t, fleet.Hub, fleettest.Secret(clusterv1alpha1.ClusterNamespace, m.Name, nil), func(s *corev1.Secret) error {
				if len(s.Data[clusterv1alpha1.SecretRenewalTokenKey]) == 0 {
					return errors.New("it has no renewal token yet")
				}
				return nil
			})
		}
	}
	fleet.Stop(t)
	fleet.Restart(t)
	// A new object that arrives shows that every loop has been through its queue: restarts are worked off first.
	probe := fleettest.ConfigMap(ns, "probe", map[string]string{"a": "1"})
	fleettest.Create(t, fleet.Hub, probe, fleettest.Policy(ns, "probe", fleettest.Everywhere(), probe))
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, fleet.Hub, work(m.Name, "ConfigMap", ns, "probe"), workIs("Applied", metav1.ConditionTrue, ""))
	}
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "ConfigMap", "probe"), bindingIs("FullyApplied", metav1.ConditionTrue, ""))
	for _, m := range fleet.Members {
		if written := fleettest.CountRequests(t, m).Of("deployments").Writes(); written.Total() > 0 {
			t.Errorf("a restart with nothing to do wrote to %s: %s", m.Name, written)
		}
		for _, d := range deployments {
			if uid := string(fleettest.ExpectEventually(t, m, d, fleettest.Exists).UID); uid != created[m.Name+key(d)] {
				t.Errorf("%s in %s was made twice", key(d), m.Name)
			}
		}
	}
	if written := fleettest.CountRequests(t, fleet.Hub).Of("secrets").Writes(); written.Total() > 0 {
		t.Errorf("a restart with nothing to do wrote Secrets: %s", written)
	}
	// The probe itself accounts for one binding, its placement and status, and two Works.
	onHub := fleettest.CountRequests(t, fleet.Hub).Of("works", "resourcebindings").Writes()
	if limit := 12; onHub.Total() > limit {
		t.Errorf("a restart with nothing to do wrote bindings or Works: %d writes, the probe needs at most %d: %s", onHub.Total(), limit, onHub)
	}
}
