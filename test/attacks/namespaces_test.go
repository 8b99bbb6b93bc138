package attacks_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// namespaceToDelete is a namespace on the hub that the test deletes itself, with a ConfigMap in both members.
func namespaceToDelete(t *testing.T, fleet *fleettest.Fleet, preserve *bool) (*corev1.Namespace, *corev1.ConfigMap) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet.Namespace(t)}}
	settings := fleettest.ConfigMap(ns.Name, "settings", map[string]string{"a": "1"})
	policy := fleettest.Policy(ns.Name, "settings", fleettest.Everywhere(), settings)
	policy.Spec.PreserveResourcesOnDeletion = preserve
	fleettest.Create(t, fleet.Hub, settings, policy)
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	}
	return ns, settings
}

// released is the condition of an object without the marks of a control plane.
func released[T client.Object](obj T) error {
	if obj.GetDeletionTimestamp() != nil {
		return errors.New("it is being deleted")
	}
	if obj.GetLabels()[workv1alpha1.ManagedLabel] != "" {
		return errors.New("it is managed")
	}
	for key := range obj.GetAnnotations() {
		// That it was there before us is still so when it is taken back.
		if workv1alpha1.IsOwnershipKey(key) && (key != workv1alpha1.AdoptedAnnotation || obj.GetLabels()[workv1alpha1.ReleasedByLabel] == "") {
			return fmt.Errorf("it has the annotation %s", key)
		}
	}
	return nil
}

// Deleting a namespace on the hub takes what came from the hub out of the members, and nothing that their owners made.
func TestANamespaceGoesOnlyWithWhatCameFromTheHub(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	first, second := fleet.Member("member1"), fleet.Member("member2")
	ns, settings := namespaceToDelete(t, fleet, nil)
	owners := fleettest.ConfigMap(ns.Name, "made-by-the-owner", map[string]string{"a": "b"})
	fleettest.Create(t, first, owners)

	fleettest.Delete(t, fleet.Hub, ns)
	fleettest.ExpectGone(t, second, ns) // it held nothing else there
	fleettest.ExpectGone(t, first, settings)
	fleettest.ExpectEventually(t, first, ns, released[*corev1.Namespace])
	fleettest.ExpectEventually(t, first, owners, fleettest.Exists)
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, metav1.NamespaceDefault, func(list *corev1.EventList) error {
		for _, e := range list.Items {
			if e.Reason == events.NamespaceReleased && e.InvolvedObject.Name == "member1" && strings.Contains(e.Message, ns.Name) && strings.Contains(e.Message, owners.Name) {
				return nil
			}
		}
		return errors.New("no event says that the namespace stays, and why")
	})
	fleettest.ExpectGone(t, fleet.Hub, workFor("member1", "Namespace", "", ns.Name))
}

// What a policy preserves stays, and so does the namespace in which it lives.
func TestWhatIsPreservedKeepsItsNamespace(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns, settings := namespaceToDelete(t, fleet, ptr.To(true))
	fleettest.Delete(t, fleet.Hub, ns)
	fleettest.ExpectGone(t, fleet.Hub, ns)
	for _, m := range fleet.Members {
		fleettest.ExpectGone(t, fleet.Hub, workFor(m.Name, "Namespace", "", ns.Name))
		fleettest.ExpectEventually(t, m, settings, released[*corev1.ConfigMap])
		fleettest.ExpectEventually(t, m, ns, released[*corev1.Namespace])
	}
}

// A claim that a StatefulSet made has no owner, and data.
func TestAVolumeKeepsItsNamespace(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	m := fleet.Member("member1")
	ns, _ := namespaceToDelete(t, fleet, nil)
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "data-db-0"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	fleettest.Create(t, m, pvc)
	fleettest.Delete(t, fleet.Hub, ns)
	fleettest.ExpectGone(t, fleet.Member("member2"), ns)
	fleettest.ExpectEventually(t, m, ns, released[*corev1.Namespace])
	if err := m.Get(t.Context(), client.ObjectKeyFromObject(pvc), pvc); err != nil || pvc.DeletionTimestamp != nil {
		t.Errorf("the claim: %v, deleted at %v", err, pvc.DeletionTimestamp)
	}
}
