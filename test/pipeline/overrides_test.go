package pipeline_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// A change of an override policy, or of a label by which it selects, writes the Works that it touches, once, and no other.
func TestAnOverrideWritesWhatItTouches(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web, other := fleettest.Deployment(ns, "web", 1), fleettest.Deployment(ns, "other", 1)
	colour := func(cluster *policyv1alpha1.ClusterAffinity, value string) policyv1alpha1.RuleWithCluster {
		return policyv1alpha1.RuleWithCluster{TargetCluster: cluster, Overriders: policyv1alpha1.Overriders{
			LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"colour": value}}},
		}}
	}
	gold := &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{ns: "gold"}}}
	override := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "colours"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{
				colour(&policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}, "blue"), colour(gold, "gold"),
			},
		},
	}
	fleettest.Create(t, fleet.Hub, override, web, other, fleettest.Policy(ns, "all", fleettest.Everywhere(), web, other))
	coloured := func(want string) func(*appsv1.Deployment) error {
		return func(d *appsv1.Deployment) error { return equal(want, d.Labels["colour"]) }
	}
	fleettest.ExpectEventually(t, fleet.Member("member1"), web, coloured("blue"))
	for _, d := range []*appsv1.Deployment{web, other} {
		fleettest.ExpectEventually(t, fleet.Hub, d, ready(2))
	}

	before := generations(t, fleet.Hub, ns)
	expectWritten := func(what string, want ...string) {
		t.Helper()
		now := generations(t, fleet.Hub, ns)
		var written []string
		for _, key := range slices.Sorted(maps.Keys(now)) {
			for range now[key] - before[key] {
				written = append(written, key)
			}
		}
		if !slices.Equal(written, want) {
			t.Errorf("%s wrote %q, want %q", what, written, want)
		}
		before = now
	}
	one, two := key(work("member1", "Deployment", ns, "web")), key(work("member2", "Deployment", ns, "web"))

	fleettest.Update(t, fleet.Hub, override, func(o *policyv1alpha1.OverridePolicy) {
		o.Spec.OverrideRules[0] = colour(o.Spec.OverrideRules[0].TargetCluster, "red")
	})
	fleettest.ExpectEventually(t, fleet.Member("member1"), web, coloured("red"))
	expectWritten("a rule about member1", one)

	label := func(value string) {
		fleettest.Update(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member2"}}, func(c *clusterv1alpha1.Cluster) {
			if c.Labels == nil {
				c.Labels = map[string]string{}
			}
			c.Labels[ns] = value
		})
	}
	label("gold")
	fleettest.ExpectEventually(t, fleet.Member("member2"), web, coloured("gold"))
	expectWritten("a label of member2 that a rule selects by", two)
	label("silver")
	fleettest.ExpectEventually(t, fleet.Member("member2"), web, coloured(""))
	expectWritten("the end of that", two)
	label("") // which no policy selects by

	fleettest.Delete(t, fleet.Hub, override)
	fleettest.ExpectEventually(t, fleet.Member("member1"), web, coloured(""))
	expectWritten("the end of the policy", one)
}

// generations are those of the Works for objects of a namespace, by name: each write of a spec counts one.
func generations(t *testing.T, c *fleettest.Cluster, namespace string) map[string]int64 {
	t.Helper()
	var works workv1alpha1.WorkList
	if err := c.List(t.Context(), &works); err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for i := range works.Items {
		if w := &works.Items[i]; w.Annotations["resourcebinding.karmada.io/namespace"] == namespace {
			found[key(w)] = w.Generation
		}
	}
	if len(found) == 0 {
		t.Fatal(fmt.Errorf("no Work is for an object of %s", client.ObjectKey{Name: namespace}))
	}
	return found
}
