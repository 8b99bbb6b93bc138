package attacks_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestALongNameTravels: a name too long for the name of a binding with its kind was not propagated, without an error.
func TestALongNameTravels(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	long := fleettest.ConfigMap(ns, strings.Repeat("long-name.", 25)+"abc", map[string]string{"k": "1"})
	if len(long.Name) != 253 {
		t.Fatalf("the name has %d characters", len(long.Name))
	}
	fleettest.Create(t, fleet.Hub, long, fleettest.Policy(ns, "p", fleettest.To("member1"), long))
	guard(t, fleet.Members[0], long)
	reaches(t, fleet, long, "2", fleet.Members[0])
	fleettest.Delete(t, fleet.Hub, long)
	fleettest.ExpectGone(t, fleet.Members[0], long)
}

// TestNamesThatDifferInCaseAndColonsDoNotCollide: of ClusterRoles a:b, a.b and A.B only the first travelled.
func TestNamesThatDifferInCaseAndColonsDoNotCollide(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	var roles []client.Object
	for _, name := range []string{ns + ":b", ns + ".b", strings.ToUpper(ns) + ".B", ns + ":x_y@z"} {
		roles = append(roles, &rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
		})
	}
	fleettest.Create(t, fleet.Hub, roles...)
	fleettest.Create(t, fleet.Hub, fleettest.ClusterPolicy(ns, fleettest.To("member1"), roles...))
	for _, role := range roles {
		guard(t, fleet.Members[0], role)
	}
	// Each goes with its own template.
	fleettest.Delete(t, fleet.Hub, roles[0])
	fleettest.ExpectGone(t, fleet.Members[0], roles[0])
	fleettest.Update(t, fleet.Hub, roles[1].(*rbacv1.ClusterRole), func(r *rbacv1.ClusterRole) { r.Rules[0].Verbs = []string{"list"} })
	fleettest.ExpectEventually(t, fleet.Members[0], roles[1].(*rbacv1.ClusterRole), func(r *rbacv1.ClusterRole) error {
		if r.Rules[0].Verbs[0] != "list" {
			return errors.New("the change is not there yet")
		}
		return nil
	})
}

// TestAManifestOverTheLimitHasOneEvent: the write was repeated for ever, and the status misled.
func TestAManifestOverTheLimitHasOneEvent(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	large := fleettest.ConfigMap(ns, "large", map[string]string{"k": strings.Repeat("\x01", 780_000)})
	fleettest.Create(t, fleet.Hub, large, fleettest.Policy(ns, "p", fleettest.To("member1"), large))
	fleettest.ExpectEventually(t, fleet.Hub, bindingOf(ns, "ConfigMap", "large"), func(b *workv1alpha2.ResourceBinding) error {
		rendered := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.Rendered)
		if rendered == nil || rendered.Reason != workv1alpha2.ManifestTooLargeReason || !strings.Contains(rendered.Message, "1400000") {
			return fmt.Errorf("condition Rendered is %v", rendered)
		}
		if len(b.Status.AggregatedStatus) != 1 || !strings.Contains(b.Status.AggregatedStatus[0].AppliedMessage, workv1alpha2.ManifestTooLargeReason) {
			return fmt.Errorf("aggregatedStatus is %v", b.Status.AggregatedStatus)
		}
		return nil
	})
	fleettest.ExpectListed(t, fleet.Hub, &corev1.EventList{}, ns, func(list *corev1.EventList) error {
		for _, e := range list.Items {
			if e.InvolvedObject.Name == "large" && strings.Contains(e.Message, "1400000") {
				return nil
			}
		}
		return errors.New("no event of the template names the limit")
	})
	before := fleettest.CountRequests(t, fleet.Hub)
	small := fleettest.ConfigMap(ns, "small", nil)
	fleettest.Create(t, fleet.Hub, small, fleettest.Policy(ns, "small", fleettest.To("member1"), small))
	guard(t, fleet.Members[0], small)
	failed := 0 // Works of other tests are written meanwhile
	for request, n := range fleettest.CountRequests(t, fleet.Hub).Since(before).Writes().Of("works") {
		if tooLarge := request.Code == http.StatusRequestEntityTooLarge || request.Code == http.StatusInternalServerError ||
			request.Code == http.StatusBadRequest || request.Code == http.StatusUnprocessableEntity; tooLarge {
			failed += n
		}
	}
	if failed > 3 {
		t.Errorf("%d writes of Works failed: the large one is tried again and again", failed)
	}
	reaches(t, fleet, large, "small now", fleet.Members[0])
}
