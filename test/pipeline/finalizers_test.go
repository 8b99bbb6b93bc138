package pipeline_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestAFinalizerForMembers holds a copy until its operator there is done, and not the template.
func TestAFinalizerForMembers(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	const finalizer = "example.org/cleanup"
	database := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "database", Annotations: map[string]string{"flagship.io/member-finalizers": finalizer}}}
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "database", fleettest.Everywhere(), database), database)
	held := func(c *corev1.ConfigMap) error {
		if len(c.Finalizers) != 1 || c.Finalizers[0] != finalizer {
			return fmt.Errorf("its finalizers are %v", c.Finalizers)
		}
		return nil
	}
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(name), database.DeepCopy(), held)
	}
	fleettest.Delete(t, fleet.Hub, database)
	fleettest.ExpectGone(t, fleet.Hub, database)
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(name), database.DeepCopy(), func(c *corev1.ConfigMap) error {
			if c.DeletionTimestamp == nil {
				return errors.New("it is not being deleted")
			}
			return held(c)
		})
		fleettest.Update(t, fleet.Member(name), database.DeepCopy(), func(c *corev1.ConfigMap) { c.Finalizers = nil })
		fleettest.ExpectGone(t, fleet.Member(name), database)
		fleettest.ExpectGone(t, fleet.Hub, work(name, "ConfigMap", ns, "database"))
	}
}
