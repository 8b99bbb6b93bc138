package pipeline_test

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// What is held back stays so over a kill, what was allowed a moment before one goes, and so does a definition that was
// deleted by force while a member was away: of neither is more known afterwards than the hub had stored. It takes a minute beside other tests,
// for the starts of a control plane and of a member.
func TestDecisionsAboutADefinitionSurviveAKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	fleet := fleettest.StartApart(t, 2)
	ns := fleet.Namespace(t)
	one, two := fleet.Members[0], fleet.Members[1]
	pumps := define("Pump", version("v1", true, teeth))
	fleettest.Create(t, fleet.Hub, pumps.DeepCopy())
	fleettest.ExpectEventually(t, fleet.Hub, pumps, established)
	hand := instance(pumps, "v1", ns, "hand", map[string]any{"metal": "iron"})
	fleettest.Create(t, fleet.Hub, withDependencies(fleettest.Policy(ns, "hand", fleettest.Everywhere(), hand)), hand.DeepCopy())
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, hand, fleettest.Exists)
	}
	fleettest.Update(t, fleet.Hub, pumps, func(d *definition) {
		delete(d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties, "metal")
	})
	held := isHeld("v1 .spec.metal is removed", "of 1 objects there 0 would be invalid and 1 would lose fields")
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, fleet.Hub, definitionWork(m.Name, pumps), held)
	}
	fleet.KillAndStart(t)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, fleet.Hub, definitionWork(m.Name, pumps), held)
		if there := fleettest.ExpectEventually(t, m, pumps, established); there.Generation != 1 {
			t.Errorf("the definition in %s was changed by the restart", m.Name)
		}
	}

	fleettest.Update(t, fleet.Hub, pumps, func(d *definition) { d.Annotations = map[string]string{workv1alpha1.AllowBreakingAnnotation: "true"} })
	fleet.KillAndStart(t)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, pumps, func(d *definition) error {
			if _, kept := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["metal"]; kept {
				return errors.New("the field is still there")
			}
			return nil
		})
		fleettest.ExpectEventually(t, fleet.Hub, definitionWork(m.Name, pumps), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
	}

	fleet.Parts[two.Name].Kill()
	fleettest.Update(t, fleet.Hub, pumps, func(d *definition) { d.Annotations[workv1alpha1.AllowDeletionAnnotation] = "true" })
	fleettest.Delete(t, fleet.Hub, pumps.DeepCopy())
	fleettest.ExpectGone(t, fleet.Hub, pumps)
	fleet.KillAndStart(t)
	fleet.Parts[two.Name].Start(t)
	for _, m := range []*fleettest.Cluster{one, two} {
		fleettest.ExpectGone(t, m, pumps)
		fleettest.ExpectGone(t, fleet.Hub, definitionWork(m.Name, pumps))
		fleettest.ExpectGone(t, fleet.Hub, work(m.Name, "Pump", ns, "hand"))
	}
	fleettest.ExpectGone(t, fleet.Hub, binding(ns, "Pump", "hand"))
	fleettest.ExpectGone(t, fleet.Hub, &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{
		Name: workv1alpha2.BindingName("CustomResourceDefinition", pumps.Name),
	}})
}
