package profile_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

func TestObstaclesAreAllFiltersWithTheirChanges(t *testing.T) {
	tainted := func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = []corev1.Taint{
			{Key: "env", Value: "test", Effect: corev1.TaintEffectNoSchedule}, {Key: "fine", Effect: corev1.TaintEffectNoExecute},
			{Key: "gone", Effect: corev1.TaintEffectNoExecute},
		}
	}
	snapshot := fleet(member("a"), member("b", tainted))
	request := deployment(2, placement(duplicated, tolerate(corev1.Toleration{Key: "fine", Operator: corev1.TolerationOpExists}), spread("label rack", 1, 0), affinity(policyv1alpha1.ClusterAffinity{
		ClusterNames: []string{"a"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}},
	})))
	request.Placement.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByLabel: "rack", MinGroups: 1}}
	d := profile.Schedule(request, snapshot)
	obstacles, err := profile.Default().Obstacles(&request, snapshot, d.Attempts[0].Term)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range obstacles(decision.Candidate{Cluster: snapshot.Get("b")}) {
		got = append(got, o.Filter+": "+o.Reason.String()+": "+strings.Join(o.Changes, ", "))
	}
	want := []string{
		"ClusterAffinity: does not match clusterAffinity.labelSelector: label the cluster tier=front, add b to clusterAffinity.clusterNames",
		"TaintToleration: has taint env=test:NoSchedule: tolerate env=test:NoSchedule, tolerate gone:NoExecute",
		"SpreadConstraint: has no label rack: give the cluster a label rack",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestObstaclesAgreeWithTheDecision: a cluster has obstacles if and only if the decision drops it, and the first is the one it names.
func TestObstaclesAgreeWithTheDecision(t *testing.T) {
	snapshot := benchFleet(60)
	for name, p := range benchPlacements() {
		request := deployment(20, p)
		d := profile.Schedule(request, snapshot)
		for n := range d.Attempts {
			a := &d.Attempts[n]
			obstacles, err := profile.Default().Obstacles(&request, snapshot, a.Term)
			if err != nil {
				t.Fatal(err)
			}
			for i := range a.Candidates {
				found := obstacles(decision.Candidate{Cluster: a.Candidates[i].Cluster})
				if dropped := a.DroppedBy(i); (dropped != "") != (len(found) > 0) || dropped != "" && found[0].Filter != dropped {
					t.Fatalf("%s: %s is dropped by %q, obstacles %v", name, a.Candidates[i].Cluster.Name, dropped, found)
				}
			}
		}
	}
}

// TestChangesLetTheClusterIn: a cluster to which all changes are made passes every filter that named some, on random clusters and
// placements.
func TestChangesLetTheClusterIn(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	applied := 0
	for range 3000 {
		p, c := narrowPlacement(random), narrowMember(random)
		unhelped := map[string]bool{}
		for _, o := range obstaclesOf(t, p, c) {
			unhelped[o.Filter] = len(o.Changes) == 0
			for _, change := range o.Changes {
				applied++
				if !makeChange(change, p, c) {
					t.Fatalf("the change %q is not one that this test can make", change)
				}
			}
		}
		for _, o := range obstaclesOf(t, p, c) {
			if !unhelped[o.Filter] {
				t.Fatalf("after the changes %s still drops the cluster: %s\nplacement %+v\ncluster %+v", o.Filter, o.Reason, p, c.Spec)
			}
		}
	}
	if applied < 1000 {
		t.Errorf("%d changes were made, too few to show anything", applied)
	}
}

func obstaclesOf(t *testing.T, p *policyv1alpha1.Placement, c *clusterv1alpha1.Cluster) []profile.Obstacle {
	t.Helper()
	snapshot, request := fleet(c), deployment(1, p)
	d := profile.Schedule(request, snapshot)
	obstacles, err := profile.Default().Obstacles(&request, snapshot, d.Attempts[0].Term)
	if err != nil {
		t.Fatal(err)
	}
	return obstacles(decision.Candidate{Cluster: snapshot.Get(c.Name)})
}

func narrowMember(r *rand.Rand) *clusterv1alpha1.Cluster {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	c := member("m1", in(pick("", "acme"), pick("", "east", "west"), pick("a", "b")))
	if r.IntN(3) == 0 {
		c.Spec.Zones = nil
	}
	c.Labels = map[string]string{}
	for _, key := range []string{"tier", "old", "rack"} {
		if value := pick("", "front", "back"); value != "" {
			c.Labels[key] = value
		}
	}
	for _, key := range []string{"env", "dedicated", "gone"} {
		if r.IntN(3) == 0 {
			tainted(key, pick("", "x"), corev1.TaintEffect(pick("NoSchedule", "NoExecute")))(c)
		}
	}
	if r.IntN(4) == 0 {
		c.Status.APIEnablements = c.Status.APIEnablements[1:]
	}
	return c
}

func narrowPlacement(r *rand.Rand) *policyv1alpha1.Placement {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }
	var a policyv1alpha1.ClusterAffinity
	if r.IntN(3) == 0 {
		a.ClusterNames = []string{pick("m1", "m2")}
	}
	if r.IntN(3) == 0 {
		a.ExcludeClusters = []string{pick("m1", "m2")}
	}
	if r.IntN(2) == 0 {
		operator := metav1.LabelSelectorOperator(pick("In", "NotIn", "Exists", "DoesNotExist"))
		e := metav1.LabelSelectorRequirement{Key: "old", Operator: operator}
		if operator == metav1.LabelSelectorOpIn || operator == metav1.LabelSelectorOpNotIn {
			e.Values = []string{"front"}
		}
		a.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}, MatchExpressions: []metav1.LabelSelectorRequirement{e}}
	}
	if r.IntN(2) == 0 {
		a.FieldSelector = fields(pick("provider", "region", "zone"), corev1.NodeSelectorOperator(pick("In", "NotIn")), pick("acme", "east", "a")).FieldSelector
	}
	p := placement(duplicated, affinity(a))
	if r.IntN(2) == 0 {
		tolerate(corev1.Toleration{Key: "env", Operator: corev1.TolerationOpExists})(p)
	}
	if r.IntN(2) == 0 {
		p.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadFieldValue(pick("provider", "region", "zone")), MinGroups: 1}}
	} else if r.IntN(2) == 0 {
		p.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByLabel: "rack", MinGroups: 1}}
	}
	return p
}

// makeChange applies one change, and returns false if it is none.
func makeChange(change string, p *policyv1alpha1.Placement, c *clusterv1alpha1.Cluster) bool {
	words := strings.Fields(change)
	last := words[len(words)-1]
	set := func(field, value string) {
		switch field {
		case "provider":
			c.Spec.Provider = value
		case "region":
			c.Spec.Region = value
		default:
			c.Spec.Zones = append(c.Spec.Zones, value)
		}
	}
	switch {
	case words[0] == "tolerate":
		taint, effect, _ := strings.Cut(last, ":")
		key, value, _ := strings.Cut(taint, "=")
		tolerate(corev1.Toleration{Key: key, Operator: corev1.TolerationOpEqual, Value: value, Effect: corev1.TaintEffect(effect)})(p)
	case strings.HasPrefix(change, "label the cluster "):
		key, value, _ := strings.Cut(last, "=")
		labelled(key, value)(c)
	case strings.HasPrefix(change, "remove the label "):
		delete(c.Labels, words[3])
	case words[0] == "remove":
		p.ClusterAffinity.ExcludeClusters = nil
	case words[0] == "add":
		p.ClusterAffinity.ClusterNames = append(p.ClusterAffinity.ClusterNames, words[1])
	case words[0] == "set":
		set(words[2], last)
	case strings.HasPrefix(change, "give the cluster a label "):
		labelled(last, "given")(c)
	case strings.HasPrefix(change, "give the cluster a "): // unless a change before has given it one
		if last == "provider" && c.Spec.Provider == "" || last == "region" && c.Spec.Region == "" || last == "zone" && len(c.Spec.Zones) == 0 {
			set(last, "given")
		}
	case words[0] == "serve":
		c.Status.APIEnablements = member("").Status.APIEnablements
	default:
		return false
	}
	return true
}
