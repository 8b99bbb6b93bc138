package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestRepeatedKeys: an object with items of one key in a list runs the same in a member where that is possible. Where it is not, nothing is applied, and the
// condition and explain name the list.
func TestRepeatedKeys(t *testing.T) {
	fleet := shared.Start(t)
	ns, member := fleet.Namespace(t), fleet.Member("member1")
	deployment := func(name string, env ...corev1.EnvVar) *appsv1.Deployment {
		d := fleettest.Deployment(ns, name, 0)
		pod := &d.Spec.Template.Spec
		pod.Containers[0].Name, pod.Containers[0].Env = "c", env
		pod.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"a"}}, {IP: "10.0.0.1", Hostnames: []string{"b"}}}
		pod.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "reg"}, {Name: "reg"}}
		return d
	}
	one, two := corev1.EnvVar{Name: "BASE", Value: "/opt/one"}, corev1.EnvVar{Name: "BASE", Value: "/opt/two"}
	home := corev1.EnvVar{Name: "HOME_DIR", Value: "$(BASE)/home"}
	same, other := deployment("same", one, two, home), deployment("other", one, home, two)
	fleettest.Create(t, fleet.Hub, same, other, fleettest.Policy(ns, "all", fleettest.To("member1"), same, other))
	fleettest.ExpectEventually(t, member, same.DeepCopy(), func(d *appsv1.Deployment) error {
		pod := d.Spec.Template.Spec
		if len(pod.HostAliases) != 1 {
			return fmt.Errorf("the addresses are %+v", pod.HostAliases)
		}
		return errors.Join(equal(fmt.Sprint([]corev1.EnvVar{two, home}), fmt.Sprint(pod.Containers[0].Env)), equal("[a b]", fmt.Sprint(pod.HostAliases[0].Hostnames)))
	})
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "same"), bindingIs(workv1alpha2.FullyApplied, metav1.ConditionTrue, ""))

	const named = `.spec.template.spec.containers[name="c"].env has more than one item [name="BASE"]`
	refused := func(w *workv1alpha1.Work) error {
		err := workIs(workv1alpha1.WorkApplied, metav1.ConditionFalse, "")(w)
		if err == nil && !strings.Contains(fmt.Sprint(w.Status.Conditions), named) {
			err = fmt.Errorf("the conditions are %+v", w.Status.Conditions)
		}
		return err
	}
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "Deployment", ns, "other"), refused)
	fleettest.ExpectEventually(t, fleet.Hub, binding(ns, "Deployment", "other"), bindingIs(workv1alpha2.FullyApplied, metav1.ConditionFalse, ""))
	fleettest.ExpectGone(t, member, other.DeepCopy())
	if out := command(t, fleet.Hub.Kubeconfig, "explain", "deployment/other", "-n", ns); !strings.Contains(out, named) {
		t.Errorf("explain does not name the list:\n%s", out)
	}

	// A copy that exists stays as it is until the template has another form.
	fleettest.Update(t, fleet.Hub, same, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = other.Spec.Template.Spec.Containers[0].Env
	})
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "Deployment", ns, "same"), refused)
	fleettest.ExpectEventually(t, member, same.DeepCopy(), func(d *appsv1.Deployment) error {
		return equal(fmt.Sprint([]corev1.EnvVar{two, home}), fmt.Sprint(d.Spec.Template.Spec.Containers[0].Env))
	})
	fleettest.Update(t, fleet.Hub, same, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{one, home} })
	fleettest.ExpectEventually(t, member, same.DeepCopy(), func(d *appsv1.Deployment) error {
		return equal(fmt.Sprint([]corev1.EnvVar{one, home}), fmt.Sprint(d.Spec.Template.Spec.Containers[0].Env))
	})
}
