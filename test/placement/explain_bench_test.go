package placement_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// BenchmarkExplain measures answers about a Deployment in 50 of 100 clusters, each a request to a control plane of its own, by an
// administrator. It has 50 policies, and FLAGSHIP_EXPLAIN_BINDINGS bindings, 10,000 without that.
func BenchmarkExplain(b *testing.B) {
	bindings := 10_000
	if text := os.Getenv("FLAGSHIP_EXPLAIN_BINDINGS"); text != "" {
		var err error
		if bindings, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	fleet := &fleettest.Fleet{Hub: fleettest.StartHub(b, "--cluster-monitor-grace-period=2h").Cluster}
	fleettest.Create(b, fleet.Hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	for i := range 100 {
		joinWith(b, fleet, fmt.Sprintf("m-%d", i), fmt.Sprint("region-", i%2), "a", 1000)
	}
	web, half := fleettest.Deployment("shop", "web", 1), inRegion("region-0")
	fleettest.Create(b, fleet.Hub, web, fleettest.Policy("shop", "web", policyv1alpha1.Placement{ClusterAffinity: &half}, web))
	for i := range 49 {
		fleettest.Create(b, fleet.Hub, fleettest.Policy("shop", fmt.Sprint("other-", i), fleettest.To("m-1"), fleettest.Deployment("shop", fmt.Sprint("other-", i), 1)))
	}
	one := fleettest.Policy("shop", "settings", fleettest.To("m-1"), fleettest.ConfigMap("shop", "any", nil))
	one.Spec.ResourceSelectors[0].Name = ""
	one.Spec.ResourceSelectors[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"settings": "yes"}}
	fleettest.Create(b, fleet.Hub, one)
	for i := range bindings - 1 {
		settings := fleettest.ConfigMap("shop", fmt.Sprint("settings-", i), nil)
		settings.Labels = map[string]string{"settings": "yes"}
		fleettest.Create(b, fleet.Hub, settings)
	}
	for i := range bindings - 1 {
		fleettest.ExpectEventually(b, fleet.Hub, binding("shop", "ConfigMap", fmt.Sprint("settings-", i)), placed("m-1"))
	}
	fleettest.ExpectEventually(b, fleet.Hub, binding("shop", "Deployment", "web"), func(found *workv1alpha2.ResourceBinding) error {
		if n := len(found.Spec.Clusters); n != 50 {
			return fmt.Errorf("it is in %d clusters, want 50", n)
		}
		return nil
	})
	var took []time.Duration
	for b.Loop() {
		q := &fleetv1alpha1.Explanation{Spec: fleetv1alpha1.ExplanationSpec{Kind: "Deployment", Namespace: "shop", Name: "web"}}
		start := time.Now()
		if err := fleet.Hub.Create(b.Context(), q); err != nil || len(q.Status.Steps) < 150 {
			b.Fatalf("%d steps: %v", len(q.Status.Steps), err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
}
