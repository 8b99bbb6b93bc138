package profile_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

func leaving(c *clusterv1alpha1.Cluster) {
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

func apisUnknown(c *clusterv1alpha1.Cluster) {
	c.Status.APIEnablements, c.Status.Conditions = nil, nil
}

func widget(r *decision.Request) {
	r.Resource.APIVersion, r.Resource.Kind = "apps.example.io/v1", "Widget"
}

func fields(key string, operator corev1.NodeSelectorOperator, values ...string) policyv1alpha1.ClusterAffinity {
	return policyv1alpha1.ClusterAffinity{FieldSelector: &policyv1alpha1.FieldSelector{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}},
	}}
}

func TestFilters(t *testing.T) {
	everywhere := placement(duplicated)
	regions := fleet(member("a", in("p1", "east", "z1", "z2")), member("b", in("p2", "west", "z3")), member("c"))
	labels := fleet(member("a", labelled("env", "prod")), member("b", labelled("env", "test")), member("c"))
	mixed := fleet(member("a"), member("b", tainted("env", "test", corev1.TaintEffectNoSchedule)), member("c", tainted("down", "", corev1.TaintEffectNoExecute)))
	runAll(t, map[string]scenario{
		"Leaving":         {reason: "not into a cluster that leaves", fleet: fleet(member("a"), member("b", leaving)), request: configMap(everywhere), want: targets("a", 0)},
		"LeavingHeld":     {reason: "and out of it", fleet: fleet(member("a"), member("b", leaving)), request: configMap(everywhere, now("b", 0)), want: targets("a", 0)},
		"Evicting":        {reason: "not back into a cluster that is drained", fleet: fleet(member("a"), member("b")), request: configMap(everywhere, func(r *decision.Request) { r.Evicting = []string{"b"} }), want: targets("a", 0)},
		"KindUnknown":     {reason: "a cluster that has not said what it serves is no candidate", fleet: fleet(member("a"), member("b", apisUnknown)), request: configMap(everywhere), want: targets("a", 0)},
		"KindHeld":        {reason: "but keeps what it has", fleet: fleet(member("a"), member("b", apisUnknown)), request: configMap(everywhere, now("b", 0)), want: targets("a", 0, "b", 0)},
		"KindTravels":     {reason: "a kind whose CRD travels along need not be served yet", fleet: fleet(member("a")), request: configMap(everywhere, widget, func(r *decision.Request) { r.KindTravels = true }), want: targets("a", 0)},
		"Names":           {reason: "by name", fleet: labels, request: configMap(placement(duplicated, affinity(named("c", "a", "gone")))), want: targets("a", 0, "c", 0)},
		"ExcludeWins":     {reason: "exclude beats names", fleet: labels, request: configMap(placement(duplicated, affinity(policyv1alpha1.ClusterAffinity{ClusterNames: []string{"a", "b"}, ExcludeClusters: []string{"a"}}))), want: targets("b", 0)},
		"MatchLabels":     {reason: "by label", fleet: labels, request: configMap(placement(duplicated, affinity(policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}))), want: targets("a", 0)},
		"EmptySelector":   {reason: "an empty label selector selects all", fleet: labels, request: configMap(placement(duplicated, affinity(policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{}}))), want: targets("a", 0, "b", 0, "c", 0)},
		"Expressions":     {reason: "by expression: NotIn holds for a missing label", fleet: labels, request: configMap(placement(duplicated, affinity(policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"prod"}}}}}))), want: targets("b", 0, "c", 0)},
		"Region":          {reason: "by region", fleet: regions, request: configMap(placement(duplicated, affinity(fields("region", corev1.NodeSelectorOpIn, "west", "north")))), want: targets("b", 0)},
		"ProviderNotIn":   {reason: "a cluster without provider is not in the set", fleet: regions, request: configMap(placement(duplicated, affinity(fields("provider", corev1.NodeSelectorOpNotIn, "p1")))), want: targets("b", 0, "c", 0)},
		"ZoneIn":          {reason: "one zone of several is enough", fleet: regions, request: configMap(placement(duplicated, affinity(fields("zone", corev1.NodeSelectorOpIn, "z2", "z9")))), want: targets("a", 0)},
		"ZoneNotIn":       {reason: "one zone of several is too many", fleet: regions, request: configMap(placement(duplicated, affinity(fields("zone", corev1.NodeSelectorOpNotIn, "z2")))), want: targets("b", 0, "c", 0)},
		"Taints":          {reason: "both effects keep away", fleet: mixed, request: configMap(everywhere), want: targets("a", 0)},
		"TaintHeld":       {reason: "a taint does not drive out", fleet: mixed, request: configMap(everywhere, now("b", 0, "c", 0)), want: targets("a", 0, "b", 0, "c", 0)},
		"TolerateEqual":   {reason: "by key and value", fleet: mixed, request: configMap(placement(duplicated, tolerate(corev1.Toleration{Key: "env", Value: "test"}))), want: targets("a", 0, "b", 0)},
		"TolerateOther":   {reason: "another value is not tolerated", fleet: mixed, request: configMap(placement(duplicated, tolerate(corev1.Toleration{Key: "env", Value: "prod"}))), want: targets("a", 0)},
		"TolerateEffect":  {reason: "another effect is not tolerated", fleet: mixed, request: configMap(placement(duplicated, tolerate(corev1.Toleration{Key: "env", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}))), want: targets("a", 0)},
		"TolerateAll":     {reason: "Exists without key tolerates everything", fleet: mixed, request: configMap(placement(duplicated, tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists}))), want: targets("a", 0, "b", 0, "c", 0)},
		"TolerateUnknown": {reason: "an operator that is not supported tolerates nothing", fleet: mixed, request: configMap(placement(duplicated, tolerate(corev1.Toleration{Key: "env", Operator: "Gt", Value: "1"}))), want: targets("a", 0)},
		"PreferNoSchedule": {
			reason: "PreferNoSchedule keeps nothing away", fleet: fleet(member("a", tainted("x", "", corev1.TaintEffectPreferNoSchedule))), request: configMap(everywhere), want: targets("a", 0),
		},
		"AffinityPeers": {
			reason: "follows its companions", fleet: mixed, want: targets("a", 0),
			request: configMap(placement(duplicated, tolerate(corev1.Toleration{Operator: corev1.TolerationOpExists})), func(r *decision.Request) {
				r.AffinityPeers = &decision.Peers{Group: "app=x", Clusters: map[string]struct{}{"a": {}}}
			}),
		},
		"FirstOfItsGroup": {
			reason: "the first of a group goes where it likes, also if the others were in a cluster that is gone", fleet: mixed, want: targets("a", 0),
			request: configMap(everywhere, func(r *decision.Request) {
				r.AffinityPeers = &decision.Peers{Group: "app=x", Clusters: map[string]struct{}{"gone": {}}}
			}),
		},
		"AntiAffinityPeers": {
			reason: "keeps away from its anti-affinity group", fleet: labels, want: targets("b", 0, "c", 0),
			request: configMap(everywhere, func(r *decision.Request) {
				r.AntiAffinityPeers = &decision.Peers{Group: "app=x", Clusters: map[string]struct{}{"a": {}}}
			}),
		},
	})
}

func TestMessages(t *testing.T) {
	var twelve []*clusterv1alpha1.Cluster
	for i := range 12 {
		c := member(fmt.Sprintf("m%02d", i+1))
		switch {
		case i < 7:
		case i < 10:
			c.Status.APIEnablements[0] = clusterv1alpha1.APIEnablement{GroupVersion: "apps.example.io/v1", Resources: []clusterv1alpha1.APIResource{{Kind: "Widget"}}}
			tainted("env", "test", corev1.TaintEffectNoSchedule)(c)
		}
		twelve = append(twelve, c)
	}
	noFit := workv1alpha2.BindingReasonNoClusterFit
	runAll(t, map[string]scenario{
		"Grouped": {
			reason: "counts by reason, the most frequent first, then the names",
			fleet:  fleet(twelve...), failure: noFit,
			request: configMap(placement(duplicated, affinity(policyv1alpha1.ClusterAffinity{ExcludeClusters: []string{"m11", "m12"}})), widget),
			message: "0/12 clusters fit: 7 lack apps.example.io/v1 Widget, 3 have taint env=test:NoSchedule, 2 excluded by clusterAffinity.exclude " +
				"(in this order: m01, m02, m03, m04, m05 and 2 more; m08, m09, m10; m11, m12)",
		},
		"One": {
			reason: "one reason needs no order, one cluster the singular",
			fleet:  fleet(member("a", tainted("k", "v", corev1.TaintEffectNoExecute))), failure: noFit, request: configMap(placement(duplicated)),
			message: "0/1 clusters fit: 1 has taint k=v:NoExecute (a)",
		},
		"NoClusters": {
			reason: "a fleet without clusters", fleet: fleet(), failure: noFit, request: configMap(placement(duplicated)),
			message: "0/0 clusters fit: no cluster has joined",
		},
		"Terms": {
			reason: "every term is accounted for", fleet: fleet(member("a")), failure: noFit,
			request: configMap(placement(duplicated, term("first", named("b")), term("second", fields("region", corev1.NodeSelectorOpIn, "x")))),
			message: "clusterAffinities[first]: 0/1 clusters fit: 1 is not in clusterAffinities[first].clusterNames (a); " +
				"clusterAffinities[second]: 0/1 clusters fit: 1 does not match clusterAffinities[second].fieldSelector (a)",
		},
		"BadSelector": {
			reason: "a selector that cannot be read is said to be so", fleet: fleet(member("a")), failure: workv1alpha2.BindingReasonSchedulerError,
			request: configMap(placement(duplicated, affinity(fields("color", corev1.NodeSelectorOpIn, "red")))),
			message: `reading clusterAffinity.fieldSelector: key "color" is none of provider, region, zone`,
		},
	})
}

func TestAffinityTerms(t *testing.T) {
	p := placement(aggregated, term("first", named("m1")), term("second", named("m2")), term("third", named("m3")))
	cases := map[string]struct {
		reason   string
		fleet    *decision.Snapshot
		request  decision.Request
		want     []workv1alpha2.TargetCluster
		affinity string
	}{
		"First":      {"the first that fits", eachAvailable(5, 5, 5), deployment(5, p), targets("m1", 5), "first"},
		"Second":     {"the next if the first is too small", eachAvailable(4, 5, 5), deployment(5, p), targets("m2", 5), "second"},
		"Stays":      {"does not return by itself", eachAvailable(5, 0, 5), deployment(5, p, now("m2", 5), observing("second")), targets("m2", 5), "second"},
		"Forward":    {"goes on from where it is", eachAvailable(9, 0, 9), deployment(6, p, now("m2", 5), observing("second")), targets("m3", 6), "third"},
		"WrapsRound": {"and tries earlier ones before it fails", eachAvailable(9, 0, 0), deployment(6, p, now("m2", 5), observing("second")), targets("m1", 6), "first"},
		"Failback":   {"returns if it may", eachAvailable(5, 0, 5), deployment(5, p, now("m2", 5), observing("second"), func(r *decision.Request) { r.Failback = true }), targets("m1", 5), "first"},
		"Fresh":      {"a fresh decision starts at the first", eachAvailable(5, 0, 5), deployment(5, p, now("m2", 5), observing("second"), fresh), targets("m1", 5), "first"},
		"Unknown":    {"a name that is gone starts at the first", eachAvailable(5, 0, 5), deployment(5, p, now("m2", 5), observing("old")), targets("m1", 5), "first"},
		"PartialMost": {
			"a full placement in a later term beats a partial one in an earlier; without any the one that places most wins",
			eachAvailable(2, 4, 3), deployment(5, p, partial), targets("m2", 4), "second",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := profile.Schedule(tc.request, tc.fleet)
			if d.Failure != nil {
				t.Fatalf("%s: %s", tc.reason, d.Failure.Message)
			}
			if diff := cmp.Diff(tc.want, d.Targets); diff != "" || d.Affinity != tc.affinity {
				t.Errorf("%s: affinity %q, want %q; -want +got\n%s", tc.reason, d.Affinity, tc.affinity, diff)
			}
		})
	}
}

func observing(name string) func(*decision.Request) {
	return func(r *decision.Request) { r.ObservedAffinity = name }
}

func TestDecisionAccountsForEveryCluster(t *testing.T) {
	d := profile.Schedule(
		deployment(5, placement(dynamic, affinity(policyv1alpha1.ClusterAffinity{ExcludeClusters: []string{"m3"}}), spread(byCluster, 1, 1)), now("m2", 1)),
		fleet(member("m1", available(9)), member("m2", available(9)), member("m3"), member("m4", tainted("k", "", corev1.TaintEffectNoSchedule))),
	)
	if len(d.Attempts) != 1 || len(d.Attempts[0].Candidates) != 4 {
		t.Fatalf("want one attempt with four candidates, got %+v", d.Attempts)
	}
	type row struct {
		Cluster, Filter, Reason string
		Chosen                  bool
		Available, Replicas     int32
		Locality                int64
	}
	var got []row
	a := &d.Attempts[0]
	for i, v := range a.Candidates {
		r := row{Cluster: v.Cluster.Name, Filter: a.DroppedBy(i), Chosen: v.Chosen, Available: v.Allocatable, Replicas: v.Replicas, Locality: a.Scores(i)["ClusterLocality"]}
		if v.Reason != nil {
			r.Reason = v.Reason.String()
		}
		got = append(got, r)
	}
	want := []row{
		{Cluster: "m1", Available: 9},
		{Cluster: "m2", Available: 9, Chosen: true, Replicas: 5, Locality: 100},
		{Cluster: "m3", Filter: "ClusterAffinity", Reason: "excluded by clusterAffinity.exclude"},
		{Cluster: "m4", Filter: "TaintToleration", Reason: "has taint k:NoSchedule"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestSnapshotIsNotChangedByItsSuccessor(t *testing.T) {
	first := fleet(member("a"), member("b"))
	second := first.With(decision.Change{Present: []*clusterv1alpha1.Cluster{member("b", in("p", "east")), member("aa")}, Gone: []string{"a"}})
	if first.Len() != 2 || first.Get("a") == nil || first.Get("b").Region != "" || first.Get("aa") != nil {
		t.Errorf("the first snapshot has changed")
	}
	if second.Len() != 2 || second.Get("a") != nil || second.Get("b").Region != "east" || second.Get("aa") == nil {
		t.Errorf("the second snapshot is wrong")
	}
	d := profile.Schedule(configMap(placement(duplicated)), second)
	if diff := cmp.Diff(targets("aa", 0, "b", 0), d.Targets); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
