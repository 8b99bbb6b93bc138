package attacks_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// managed is the condition of an object that a control plane has.
func managed[T client.Object](obj T) error {
	if obj.GetLabels()[workv1alpha1.ManagedLabel] != workv1alpha1.ManagedLabelValue {
		return errors.New("it is not managed")
	}
	return nil
}

// sameObject is the condition of an object that is the one it was, without marks.
func sameObject[T client.Object](before client.Object) func(T) error {
	return func(obj T) error {
		if obj.GetUID() != before.GetUID() {
			return fmt.Errorf("it was made anew: %s, before %s", obj.GetUID(), before.GetUID())
		}
		return released(obj)
	}
}

// A Deployment and its Secret are older than the control plane, and were taken over with Overwrite, the Secret as a
// dependency. Neither is deleted when the control plane does not apply it any more.
func TestWhatWasTakenOverIsReleased(t *testing.T) {
	fleet := shared.Start(t)
	m, ns := fleet.Member("member1"), fleet.Namespace(t)
	fleettest.ExpectEventually(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	legacy := func() (*appsv1.Deployment, *corev1.Secret) {
		d := fleettest.Deployment(ns, "legacy", 1)
		d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "legacy"}}}}
		return d, fleettest.Secret(ns, "legacy", map[string]string{"password": "old"})
	}
	theirs, secret := legacy()
	fleettest.Create(t, m, secret, theirs)

	template, templateSecret := legacy()
	policy := fleettest.Policy(ns, "legacy", fleettest.To("member1"), template)
	policy.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	policy.Spec.PropagateDeps = true
	fleettest.Create(t, fleet.Hub, templateSecret, template, policy)
	fleettest.ExpectEventually(t, m, theirs, managed[*appsv1.Deployment])
	fleettest.ExpectEventually(t, m, secret, managed[*corev1.Secret])

	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.PropagateDeps = false })
	fleettest.ExpectGone(t, fleet.Hub, workFor("member1", "Secret", ns, "legacy"))
	fleettest.ExpectEventually(t, m, secret, sameObject[*corev1.Secret](secret))

	fleettest.Delete(t, fleet.Hub, template)
	fleettest.ExpectGone(t, fleet.Hub, workFor("member1", "Deployment", ns, "legacy"))
	fleettest.ExpectEventually(t, m, theirs, sameObject[*appsv1.Deployment](theirs))
}

// A policy may ask for the deletion of what was taken over, in words.
func TestWhatWasTakenOverIsDeletedIfAPolicyRequiresIt(t *testing.T) {
	fleet := shared.Start(t)
	m, ns := fleet.Member("member1"), fleet.Namespace(t)
	fleettest.ExpectEventually(t, m, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	theirs := fleettest.ConfigMap(ns, "legacy", map[string]string{"a": "theirs"})
	fleettest.Create(t, m, theirs)
	template := fleettest.ConfigMap(ns, "legacy", map[string]string{"a": "ours"})
	policy := fleettest.Policy(ns, "legacy", fleettest.To("member1"), template)
	policy.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	policy.Spec.PreserveResourcesOnDeletion = ptr.To(false)
	fleettest.Create(t, fleet.Hub, template, policy)
	fleettest.ExpectEventually(t, m, theirs, managed[*corev1.ConfigMap])
	fleettest.Delete(t, fleet.Hub, template)
	fleettest.ExpectGone(t, m, theirs)
}
