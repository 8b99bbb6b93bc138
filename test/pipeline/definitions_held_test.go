package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A member has another definition of the same name, which a policy lets us overwrite: what that would break is still held
// back, each with what it is about.
func TestWhatIsHeldBackIsNamed(t *testing.T) {
	fleet := shared.Start(t)
	one := fleet.Member("member1")
	tests := map[string]struct {
		kind   string
		theirs func(*definition)
		words  []string
		// may be allowed; what the member's API server refuses cannot be.
		may bool
	}{
		"scope": {
			kind: "Anchor", theirs: func(d *definition) { d.Spec.Scope = apiextensionsv1.ClusterScoped },
			words: []string{"impossible changes", `spec.scope changes from "Cluster" to "Namespaced"`},
		},
		"kind": {
			kind: "Buoy", theirs: func(d *definition) { d.Spec.Names.Kind, d.Spec.Names.ListKind = "Float", "FloatList" },
			words: []string{"impossible changes", `spec.names.kind changes from "Float" to "Buoy"`},
		},
		"a version that is stored": {
			kind: "Cleat", theirs: func(d *definition) {
				d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", false, teeth), version("v1beta1", true, teeth)}
			},
			words: []string{"impossible changes", "v1beta1 is dropped, but objects may be stored in it (status.storedVersions)"},
		},
		"a version that is served": {
			kind: "Davit", theirs: func(d *definition) { d.Spec.Versions = append(d.Spec.Versions, version("v1beta1", false, teeth)) },
			words: []string{"breaking changes: v1beta1 is dropped while it is served. Set the annotation " + workv1alpha1.AllowBreakingAnnotation}, may: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ours := define(tc.kind, version("v1", true, teeth))
			theirs := ours.DeepCopy()
			tc.theirs(theirs)
			fleettest.Create(t, one, theirs)
			fleettest.ExpectEventually(t, one, theirs, established)
			policy := fleettest.ClusterPolicy(ours.Spec.Names.Plural, fleettest.To("member1"), named(ours))
			policy.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
			fleettest.Create(t, fleet.Hub, policy)
			defined(t, fleet.Hub, ours)
			fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member1", ours), isHeld(append(tc.words, "held back from cluster member1")...))
			fleettest.ExpectEventually(t, fleet.Hub, ours, definitionIs(workv1alpha1.DefinitionEstablishedInMembers, "False", "member1"))
			if !tc.may {
				return
			}
			fleettest.Update(t, fleet.Hub, ours, func(d *definition) { d.Annotations = map[string]string{workv1alpha1.AllowBreakingAnnotation: "true"} })
			fleettest.ExpectEventually(t, one, theirs, func(d *definition) error {
				if len(d.Spec.Versions) != 1 {
					return fmt.Errorf("it has %d versions", len(d.Spec.Versions))
				}
				return nil
			})
			fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member1", ours), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
		})
	}
}

// In one member another definition has the name of the resource, so the definition is there and not established: objects wait
// there and say for what, and nowhere else.
func TestObjectsWaitWhereTheirDefinitionIsNotEstablished(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	one, two := fleet.Member("member1"), fleet.Member("member2")
	sprouts := define("Sprout", version("v1", true, teeth))
	squatter := define("Shoot", version("v1", true, teeth))
	squatter.Spec.Group, squatter.Name = sprouts.Spec.Group, "shoots."+sprouts.Spec.Group
	squatter.Spec.Names.ShortNames = []string{"sprouts"}
	fleettest.Create(t, two, squatter)
	fleettest.ExpectEventually(t, two, squatter, established)

	defined(t, fleet.Hub, sprouts)
	fleettest.ExpectEventually(t, fleet.Hub, sprouts, established)
	bean := instance(sprouts, "v1", ns, "bean", map[string]any{"metal": "none"})
	fleettest.Create(t, fleet.Hub, withDependencies(fleettest.Policy(ns, "bean", fleettest.Everywhere(), bean)), bean.DeepCopy())
	fleettest.ExpectEventually(t, one, bean, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, work("member2", "Sprout", ns, "bean"), func(w *workv1alpha1.Work) error {
		if err := workIs(workv1alpha1.WorkApplied, metav1.ConditionFalse, "")(w); err != nil {
			return err
		}
		return says(w.Status.Conditions, workv1alpha1.WorkApplied, "Waiting for definition "+sprouts.Name+" to be established in cluster member2")
	})
	fleettest.ExpectEventually(t, fleet.Hub, sprouts, definitionIs(workv1alpha1.DefinitionEstablishedInMembers, "False", "member2"))
	fleettest.ExpectEventually(t, fleet.Hub, definitionWork("member2", sprouts), func(w *workv1alpha1.Work) error {
		if len(w.Status.ManifestStatuses) != 1 || w.Status.ManifestStatuses[0].Health == workv1alpha1.ResourceHealthy {
			return errors.New("a definition that is not established counts as healthy")
		}
		return nil
	})

	fleettest.Delete(t, two, squatter.DeepCopy()) // nothing has to be changed on the hub
	fleettest.ExpectEventually(t, two, bean, fleettest.Exists)
	fleettest.ExpectEventually(t, fleet.Hub, sprouts, definitionIs(workv1alpha1.DefinitionEstablishedInMembers, "True", "all 2 clusters"))
}
