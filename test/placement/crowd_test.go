package placement_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// crowd is how many objects a namespace is crowded with. Thousands are a matter of the benchmark.
const crowd = 200

func crowding(namespace string) *policyv1alpha1.PropagationPolicy {
	policy := fleettest.Policy(namespace, "settings", fleettest.To("east-1"))
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap"}}
	return policy
}

// A policy that selects hundreds of objects of one namespace leaves another namespace its turn, and what changes about one
// of them is written about that one alone.
func TestACrowdedNamespace(t *testing.T) {
	fleet, crowded := start(t)
	other := fleet.Namespace(t)
	lone := fleettest.ConfigMap(other, "settings", nil)
	fleettest.Create(t, fleet.Hub, lone)
	for i := range crowd {
		fleettest.Create(t, fleet.Hub, fleettest.ConfigMap(crowded, fmt.Sprintf("settings-%03d", i), nil))
	}
	late := crowding(other)
	fleettest.Create(t, fleet.Hub, crowding(crowded), late)
	placedAt := order(t, fleet, crowded, other)
	before, came := 0, version(t, late.ResourceVersion)
	for key, when := range placedAt {
		if key.Namespace == crowded && came < when && when < placedAt[types.NamespacedName{Namespace: other, Name: "settings-configmap"}] {
			before++
		}
	}
	t.Logf("%d of %d were placed between the policy of the other namespace and its object", before, crowd)
	// On a busy machine many are placed before the policy arrives. Without turns it is all of them.
	if before > crowd*3/4 {
		t.Errorf("%d of the crowd of %d were placed first, want a few dozen: what the workers had in hand, and one by one", before, crowd)
	}
	expectOnlyOneIsTouched(t, fleet, crowded)
}

// order waits until the crowd and the lone object are placed, and returns when each was, as versions of the storage. It
// watches, since what is listed may have been written again after the decision.
func order(t *testing.T, fleet *fleettest.Fleet, crowded, other string) map[types.NamespacedName]uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	defer cancel()
	placedAt := map[types.NamespacedName]uint64{}
	for ctx.Err() == nil { // a server may end any watch; the next one begins with what there is
		changes, err := fleet.Hub.Watch(ctx, &workv1alpha2.ResourceBindingList{})
		if err != nil {
			t.Fatal(err)
		}
		for change := range changes.ResultChan() {
			b, ok := change.Object.(*workv1alpha2.ResourceBinding)
			if !ok || b.Namespace != crowded && b.Namespace != other || scheduled(b) != nil {
				continue
			}
			key := client.ObjectKeyFromObject(b)
			if _, known := placedAt[key]; !known {
				placedAt[key] = version(t, b.ResourceVersion)
			}
			if len(placedAt) == crowd+1 {
				changes.Stop()
				return placedAt
			}
		}
	}
	t.Fatalf("%d of %d are placed", len(placedAt), crowd+1)
	return nil
}

func version(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func expectOnlyOneIsTouched(t *testing.T, fleet *fleettest.Fleet, namespace string) {
	t.Helper()
	complete := func(list *workv1alpha2.ResourceBindingList) error {
		for i := range list.Items {
			if len(list.Items[i].Status.Conditions) < 2 { // Scheduled and FullyApplied: nothing more will come
				return fmt.Errorf("%s has conditions %v", list.Items[i].Name, list.Items[i].Status.Conditions)
			}
		}
		return nil
	}
	var before, after workv1alpha2.ResourceBindingList
	fleettest.ExpectListed(t, fleet.Hub, &before, namespace, complete)
	counted := fleettest.CountRequests(t, fleet.Hub)
	one := fleettest.ConfigMap(namespace, "settings-007", nil)
	fleettest.Update(t, fleet.Hub, one, func(c *corev1.ConfigMap) { c.Data = map[string]string{"colour": "blue"} })
	fleettest.ExpectEventually(t, fleet.Hub, binding(namespace, "ConfigMap", one.Name), func(b *workv1alpha2.ResourceBinding) error {
		if b.Spec.Resource.ResourceVersion != one.ResourceVersion {
			return fmt.Errorf("it is about version %s, want %s", b.Spec.Resource.ResourceVersion, one.ResourceVersion)
		}
		return scheduled(b)
	})
	written := kept(fleettest.CountRequests(t, fleet.Hub).Since(counted).Writes())
	t.Logf("one object of %d changed:\n%s", crowd, written)
	// Bindings of other tests may still be going, in namespaces that are emptied.
	if n := written.Accepted().Of("configmaps", "resourcebindings").Total(); n > crowd/10 {
		t.Errorf("%d writes to templates and bindings, want those about one:\n%s", n, written)
	}
	if err := fleet.Hub.List(t.Context(), &after, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for i := range before.Items {
		versions[before.Items[i].Name] = before.Items[i].ResourceVersion
	}
	for i := range after.Items {
		if b := &after.Items[i]; b.Spec.Resource.Name != one.Name && versions[b.Name] != b.ResourceVersion {
			t.Errorf("binding %s was written", b.Name)
		}
	}
}
