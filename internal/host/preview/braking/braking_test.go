package braking_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/preview/braking"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

var now = time.Unix(1_800_000_000, 0)

// work is a Work of a cluster with manifests, each with a kind, a name and replicas in namespace shop, or a Namespace.
func work(cluster, name string, manifests ...string) *workv1alpha1.Work {
	w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: name}}
	for _, raw := range manifests {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}})
	}
	return w
}

func deployment(name string, replicas int) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":%q},"spec":{"replicas":%d}}`, name, replicas)
}

func object(apiVersion, kind, namespace, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q},"spec":{%s}}`, apiVersion, kind, namespace, name, spec)
}

func cluster(name string, edits ...func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	for _, e := range edits {
		e(c)
	}
	return c
}

func condition(kind, reason string) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: "of a test"})
	}
}

func annotation(key, value string) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) { c.Annotations[key] = value }
}

func gone(w *workv1alpha1.Work) controlloop.Change { return controlloop.Change{Before: w} }

// TestBrakes: a brake engages at more than half of at least four objects.
func TestBrakes(t *testing.T) {
	w := make([]*workv1alpha1.Work, 8)
	for i := range w {
		w[i] = work("m1", fmt.Sprint("w", i), deployment(fmt.Sprint("d", i), 3))
	}
	smaller := work("m1", "w0", deployment("d0", 1))
	kept := work("m1", "w0", deployment("d0", 3))
	kept.Spec.PreserveResourcesOnDeletion = new(true)
	space := work("m1", "space", object("v1", "Namespace", "", "shop", ""))
	definition := work("m1", "definition", object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "as.b.c", `"group":"b.c","names":{"kind":"A","plural":"as"}`))
	custom := make([]*workv1alpha1.Work, 4)
	for i := range custom {
		custom[i] = work("m1", fmt.Sprint("c", i), object("b.c/v1", "A", "shop", fmt.Sprint("a", i), ""))
	}
	elsewhere := work("m2", "other", deployment("d", 1))
	both := work("m1", "both", deployment("a", 1), deployment("b", 1))
	half := work("m1", "both", deployment("a", 1))
	record := work("m1", "record", deployment("a", 1), deployment("b", 1), deployment("c", 1), deployment("d", 1))
	record.Labels = map[string]string{workv1alpha1.EventsRecordLabel: "true"}
	m1, m2 := cluster("m1"), cluster("m2")
	all := []*clusterv1alpha1.Cluster{m1, m2}
	until := now.Add(time.Hour).UTC().Format(time.RFC3339)
	for name, tc := range map[string]struct {
		clusters []*clusterv1alpha1.Cluster
		works    []*workv1alpha1.Work
		changes  []controlloop.Change
		want     string
	}{
		"nothing is removed":                   {all, w, nil, ""},
		"half of it":                           {all, w[:2], []controlloop.Change{gone(w[2]), gone(w[3])}, ""},
		"more than half":                       {all, w[:1], []controlloop.Change{gone(w[1]), gone(w[2]), gone(w[3])}, "m1 BrakeEngaged MemberShareExceeded 3/4"},
		"fewer objects than the minimum":       {all, nil, []controlloop.Change{gone(w[0]), gone(w[1]), gone(w[2])}, ""},
		"what stays in the member":             {all, w[1:2], []controlloop.Change{gone(kept), gone(w[2]), gone(w[3])}, ""},
		"a shrinkage counts once":              {all, []*workv1alpha1.Work{smaller, w[1]}, []controlloop.Change{{Before: w[0], After: smaller}, gone(w[2]), gone(w[3])}, "m1 BrakeEngaged MemberShareExceeded 3/4"},
		"growth does not":                      {all, []*workv1alpha1.Work{w[0], w[1]}, []controlloop.Change{{Before: smaller, After: w[0]}, gone(w[2]), gone(w[3])}, ""},
		"what a Work holds no more":            {all, []*workv1alpha1.Work{half, w[1]}, []controlloop.Change{{Before: both, After: half}, gone(w[2]), gone(w[3])}, "m1 BrakeEngaged MemberShareExceeded 3/4"},
		"a namespace counts with what it has":  {all, w[:4], []controlloop.Change{gone(space)}, "m1 BrakeEngaged MemberShareExceeded 5/5"},
		"a definition with the objects of it":  {all, append(custom[:4:4], w[0]), []controlloop.Change{gone(definition)}, "m1 BrakeEngaged MemberShareExceeded 5/6"},
		"an engaged brake holds one":           {[]*clusterv1alpha1.Cluster{cluster("m1", condition("BrakeEngaged", "MemberShareExceeded")), m2}, w[1:], []controlloop.Change{gone(w[0])}, "m1 BrakeEngaged  0/0"},
		"a released one none":                  {[]*clusterv1alpha1.Cluster{cluster("m1", annotation(clusterv1alpha1.BrakeReleasedUntilAnnotation, until)), m2}, w[:1], []controlloop.Change{gone(w[1]), gone(w[2]), gone(w[3])}, ""},
		"a Cluster that goes is not braked":    {[]*clusterv1alpha1.Cluster{m2}, []*workv1alpha1.Work{elsewhere}, []controlloop.Change{{Before: m1}, gone(w[0]), gone(w[1]), gone(w[2]), gone(w[3])}, ""},
		"records are no objects":               {all, w[:1], []controlloop.Change{gone(record), gone(w[1])}, ""},
		"nothing is written to a cluster":      {[]*clusterv1alpha1.Cluster{cluster("m1", condition("DispatchingHeld", "ControlPlaneRestored"))}, w[:1], []controlloop.Change{{Before: w[0], After: smaller}}, "m1 DispatchingHeld ControlPlaneRestored 0/0"},
		"without a change there it is no news": {[]*clusterv1alpha1.Cluster{cluster("m1", condition("DispatchingHeld", "ControlPlaneRestored"))}, w[:1], []controlloop.Change{{After: elsewhere}}, ""},
		"evictions that the change has wait": {all, nil, []controlloop.Change{{Before: m1, After: cluster("m1", condition("EvictionHeld", "ZoneDisrupted"))}},
			"m1 EvictionHeld ZoneDisrupted 0/0"},
	} {
		t.Run(name, func(t *testing.T) {
			state := braking.State{
				Config: brake.Config{Share: 0.5, Minimum: 4}, Clock: clocktesting.NewFakePassiveClock(now), Clusters: tc.clusters, Works: tc.works, Changes: tc.changes,
			}
			var got []string
			for _, b := range state.Brakes() {
				got = append(got, fmt.Sprintf("%s %s %s %d/%d", b.Cluster, b.Condition, b.Reason, b.Touched, b.Objects))
				if b.Message == "" {
					t.Errorf("%s has no message", b.Cluster)
				}
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("brakes are %q, want %q", text, tc.want)
			}
		})
	}
}

// TestTheFleetHasAnAccount: removals of less than the minimum in each cluster count together.
func TestTheFleetHasAnAccount(t *testing.T) {
	state := braking.State{
		Config: brake.Config{Share: 0.5, Minimum: 4}, Clock: clocktesting.NewFakePassiveClock(now), Clusters: []*clusterv1alpha1.Cluster{cluster("m1"), cluster("m2")},
		Works: []*workv1alpha1.Work{work("m1", "stays", deployment("a", 1))},
		Changes: []controlloop.Change{
			gone(work("m1", "a", deployment("b", 1))), gone(work("m2", "a", deployment("b", 1))), gone(work("m2", "b", deployment("c", 1))),
		},
	}
	got := state.Brakes()
	if len(got) != 2 || got[0].Reason != clusterv1alpha1.FleetShareExceededReason || got[0].Touched != 3 || got[0].Objects != 4 {
		t.Errorf("brakes are %+v", got)
	}
}

// TestLastCopiesCountBelowTheMinimum: what one change takes from its last cluster is held in a small member as well.
func TestLastCopiesCountBelowTheMinimum(t *testing.T) {
	var unselected, deleted []controlloop.Change
	for i := range brake.MinLastCopies {
		name := fmt.Sprint("d", i)
		w := work("m1", name, deployment(name, 1))
		w.Annotations = map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotation: "shop", workv1alpha2.ResourceBindingNameAnnotation: name}
		unselected = append(unselected, gone(w))
		deleted = append(deleted, gone(w), controlloop.Change{Before: &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}})
	}
	for name, tc := range map[string]struct {
		changes []controlloop.Change
		want    int
	}{
		"of templates that stay":    {unselected, 1},
		"of fewer":                  {unselected[1:], 0},
		"of templates that go also": {deleted, 0},
	} {
		state := braking.State{Clock: clocktesting.NewFakePassiveClock(now), Clusters: []*clusterv1alpha1.Cluster{cluster("m1")}, Changes: tc.changes}
		if got := state.Brakes(); len(got) != tc.want {
			t.Errorf("%s: brakes are %+v, want %d", name, got, tc.want)
		}
	}
}
