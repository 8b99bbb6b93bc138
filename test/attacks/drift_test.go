package attacks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func value(key, want string) func(*corev1.ConfigMap) error {
	return func(c *corev1.ConfigMap) error {
		if c.Data[key] != want {
			return fmt.Errorf("%s is %q", key, c.Data[key])
		}
		return nil
	}
}

// Whoever may write in a member can use the name of the control plane's field manager: no owner changes then, only values.
func TestDriftUnderTheNameOfTheControlPlaneIsRepaired(t *testing.T) {
	fleet := shared.Start(t)
	m, ns := fleet.Member("member1"), fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours", "b": "ours"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	live := fleettest.ExpectEventually(t, m, settings, fleettest.Exists)
	manager := ""
	for _, entry := range live.ManagedFields {
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			manager = entry.Manager
		}
	}
	if manager == "" {
		t.Fatalf("it has not been applied: %v", live.ManagedFields)
	}
	forged := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "settings", Labels: live.Labels, Annotations: live.Annotations},
		Data:       map[string]string{"a": "forged", "b": "ours"},
	}
	//nolint:staticcheck // The other apply needs generated types.
	if err := m.Patch(t.Context(), forged, client.Apply, client.FieldOwner(manager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, m, settings, value("a", "ours"))
}

// TestWhatWasDeletedMeanwhileIsReported: an object that others deleted while no control plane ran is created again after the start, and is in
// the report. It takes a minute beside other tests, for the starts of a control plane and a member.
func TestWhatWasDeletedMeanwhileIsReported(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	member := fleettest.StartMember(t, "east", "--bare")
	hub.Join(t, "east", member.Kubeconfig)
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	settings, calm := fleettest.ConfigMap("shop", "settings", nil), fleettest.ConfigMap("shop", "calm", nil)
	fleettest.Create(t, hub.Cluster, settings, calm, fleettest.Policy("shop", "all", fleettest.To("east"), settings, calm))
	first := fleettest.ExpectEventually(t, member.Cluster, settings.DeepCopy(), fleettest.Exists)
	for _, name := range []string{"settings", "calm"} {
		fleettest.ExpectEventually(t, hub.Cluster, workFor("east", "ConfigMap", "shop", name), func(w *workv1alpha1.Work) error {
			return fleettest.ConditionTrue(w.Status.Conditions, workv1alpha1.WorkApplied)
		})
	}
	hub.Kill()
	fleettest.Delete(t, member.Cluster, first)
	hub.Start(t)
	fleettest.ExpectEventually(t, member.Cluster, settings.DeepCopy(), func(c *corev1.ConfigMap) error {
		if c.UID == first.UID {
			return fmt.Errorf("it is there still")
		}
		return nil
	})
	q, last := &fleetv1alpha1.DriftReport{}, error(nil)
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		q = &fleetv1alpha1.DriftReport{Spec: fleetv1alpha1.DriftReportSpec{Namespace: "shop"}}
		last = hub.Create(ctx, q)
		return last == nil && len(q.Status.Objects) > 0, nil
	}); err != nil {
		t.Fatalf("the report is %+v: %v", q.Status, last)
	}
	if o := q.Status.Objects; len(o) != 1 || o[0].Object.Name != "settings" || len(o[0].Fields) != 1 || o[0].Fields[0].Outcome != fleetv1alpha1.DriftCreatedAgain || o[0].Fields[0].Time == nil {
		t.Errorf("the report is %+v", o)
	}
}

// Of an object with more fields than can be recorded it is not known which ones were ours. None is taken from others by
// force.
func TestFieldsOfOthersInALargeObjectAreLeftToThem(t *testing.T) {
	fleet := shared.Start(t)
	m, ns := fleet.Member("member1"), fleet.Namespace(t)
	data := map[string]string{"ours": "1"}
	for i := range 9000 {
		data[fmt.Sprintf("key-%d", i)] = "v"
	}
	large := fleettest.ConfigMap(ns, "large", data)
	fleettest.Create(t, fleet.Hub, large, fleettest.Policy(ns, "large", fleettest.To("member1"), large))
	fleettest.ExpectEventually(t, m, large, fleettest.Exists)
	theirs := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "large"},
		Data:       map[string]string{"key-7": "theirs"},
	}
	//nolint:staticcheck // The other apply needs generated types.
	if err := m.Patch(t.Context(), theirs, client.Apply, client.FieldOwner("other-manager"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	fleettest.ExpectEventually(t, fleet.Hub, workFor("member1", "ConfigMap", ns, "large"), complains("key-7", "other-manager"))
	// The rest is applied.
	fleettest.Update(t, fleet.Hub, large, func(c *corev1.ConfigMap) { c.Data["ours"] = "2" })
	fleettest.ExpectEventually(t, m, fleettest.ConfigMap(ns, "large", nil), value("ours", "2"))
	fleettest.ExpectEventually(t, m, fleettest.ConfigMap(ns, "large", nil), value("key-7", "theirs"))
}
