package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A member that dies after it got the definition gets the objects when it is back, and the other member does not wait.
func TestAMemberKilledBetweenTheDefinitionAndItsInstances(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	rods := define("Rod", version("v1", true, teeth))
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy("rods", fleettest.Everywhere(), named(rods)))
	defined(t, fleet.Hub, rods)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, rods, established)
		fleettest.ExpectEventually(t, fleet.Hub, definitionWork(m.Name, rods), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
	}
	fleet.KillMember(t, "member2")
	steel := instance(rods, "v1", ns, "steel", map[string]any{"metal": "steel"})
	fleettest.Create(t, fleet.Hub, withDependencies(fleettest.Policy(ns, "steel", fleettest.Everywhere(), steel)), steel.DeepCopy())
	fleettest.ExpectEventually(t, fleet.Member("member1"), steel, fleettest.Exists)
	fleet.StartMember(t, "member2")
	fleettest.ExpectEventually(t, fleet.Member("member2"), steel, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, work("member2", "Rod", ns, "steel"), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
	expectBack(t, fleet, "member2")
}

// A control plane that is killed twice while definitions and their objects go out to three members ends where one ends
// that was never killed: everything is everywhere, and was made once. It takes 45 s beside other tests, for the starts of a control plane.
func TestARolloutOutlivesTwoRestarts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	const kinds = 6
	fleet := fleettest.StartApart(t, 3)
	ns := fleet.Namespace(t)
	definitions, objects := make([]*definition, kinds), make([]*unstructured.Unstructured, kinds)
	for i := range kinds {
		definitions[i] = define(fmt.Sprintf("Part%d", i), version("v1", true, teeth))
		defined(t, fleet.Hub, definitions[i])
		fleettest.ExpectEventually(t, fleet.Hub, definitions[i], established)
		objects[i] = instance(definitions[i], "v1", ns, "one", map[string]any{"teeth": int64(i)})
		fleettest.Create(t, fleet.Hub, withDependencies(fleettest.Policy(ns, fmt.Sprint("part", i), fleettest.Everywhere(), objects[i])), objects[i].DeepCopy())
		if i == kinds/2 {
			fleettest.ExpectEventually(t, fleet.Members[0], definitions[0], fleettest.Exists)
			fleet.KillAndStart(t)
		}
	}
	fleet.KillAndStart(t)
	for _, m := range fleet.Members {
		for i := range kinds {
			fleettest.ExpectEventually(t, m, definitions[i], established)
			fleettest.ExpectEventually(t, m, objects[i], func(u *unstructured.Unstructured) error {
				if u.GetGeneration() != 1 {
					return errors.New("it was written more than once")
				}
				return nil
			})
		}
	}
	for _, d := range definitions {
		fleettest.ExpectEventually(t, fleet.Hub, d, definitionIs(workv1alpha1.DefinitionEstablishedInMembers, "True", "all 3 clusters"))
	}
}
