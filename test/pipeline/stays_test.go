package pipeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestWhatStaysOnTheControlPlaneSaysSo by an event and in an explanation, and leaves once an administrator lets it.
func TestWhatStaysOnTheControlPlaneSaysSo(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	reader := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ns}, Data: map[string]string{"a": "b"}}
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy(ns, fleettest.Everywhere(), reader), reader)
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, metav1.NamespaceSystem, func(l *corev1.EventList) error {
		for _, e := range l.Items {
			if e.InvolvedObject.Name == ns && e.Reason == "StaysOnControlPlane" {
				return nil
			}
		}
		return errors.New("it has no such event")
	})
	explained := fleettest.Flagship(t, "explain", "configmap/"+ns, "-n", metav1.NamespaceSystem, "--kubeconfig", fleet.Hub.Kubeconfig)
	if !strings.Contains(explained.Stdout, "flagship.io/propagate=true") {
		t.Errorf("explain prints\n%s", explained.Stdout)
	}
	fleettest.Update(t, fleet.Hub, reader.DeepCopy(), func(c *corev1.ConfigMap) { c.Annotations = map[string]string{"flagship.io/propagate": "true"} })
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(name), reader.DeepCopy(), func(*corev1.ConfigMap) error { return nil })
	}
	fleettest.Update(t, fleet.Hub, reader.DeepCopy(), func(c *corev1.ConfigMap) { c.Annotations = nil })
	fleettest.Delete(t, fleet.Hub, reader)
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectGone(t, fleet.Member(name), reader)
	}
}

// TestClassesOfMembers: a Pod may name a PriorityClass and a RuntimeClass that only members have.
func TestClassesOfMembers(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	for _, name := range []string{"member1", "member2"} {
		fleettest.Create(t, fleet.Member(name), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: ns}, Value: 1000},
			&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: ns}, Handler: "sandbox"})
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: corev1.PodSpec{
		PriorityClassName: ns, RuntimeClassName: new(ns), Containers: []corev1.Container{{Name: "c", Image: "web"}},
	}}
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "web", fleettest.Everywhere(), pod), pod)
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(name), pod.DeepCopy(), func(p *corev1.Pod) error {
			if p.Spec.Priority == nil || *p.Spec.Priority != 1000 {
				return fmt.Errorf("its priority is %v", p.Spec.Priority)
			}
			return nil
		})
	}
}
