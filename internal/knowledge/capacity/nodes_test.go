package capacity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func resources(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// nodesOf are as many nodes with the same labels, taints and free amounts, named after prefix.
func nodesOf(n int, prefix string, labels map[string]string, taints []corev1.Taint, free corev1.ResourceList) []Node {
	out := make([]Node, n)
	for i := range out {
		name := prefix + strconv.Itoa(i)
		own := map[string]string{corev1.LabelHostname: name}
		for key, value := range labels {
			own[key] = value
		}
		out[i] = Node{Name: name, Labels: LabelsOf(own), Taints: TaintsOf(taints), Free: AmountsOf(free)}
	}
	return out
}

func required(terms ...corev1.NodeSelectorTerm) *workv1alpha2.NodeClaim {
	return &workv1alpha2.NodeClaim{HardNodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func expressions(all ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: all}
}

func is(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func TestReplicasFitWhereNodesSuit(t *testing.T) {
	gpuTaint := []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}, {Key: "slow", Effect: corev1.TaintEffectPreferNoSchedule}}
	// Four nodes of a pool without taints, two with GPUs and a taint, one that is full.
	few := slices.Concat(
		nodesOf(4, "plain-", map[string]string{"pool": "a", "gen": "5"}, nil, resources("cpu", "4", "memory", "8Gi", "pods", "100")),
		nodesOf(2, "gpu-", map[string]string{"pool": "g", "gen": "7"}, gpuTaint, resources("cpu", "16", "memory", "64Gi", "pods", "10", "example.com/gpu", "4")),
		nodesOf(1, "full-", map[string]string{"pool": "a"}, nil, resources("cpu", "4", "memory", "8Gi", "pods", "0")))
	// The same with more nodes than names are listed of.
	many := slices.Concat(few, nodesOf(60, "more-", map[string]string{"pool": "m", "gen": "6"}, nil, resources("cpu", "1", "memory", "1Gi", "pods", "100")))
	oneCPU := resources("cpu", "1", "memory", "1Gi")
	tolerates := []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	for name, tc := range map[string]struct {
		nodes    []Node
		requests corev1.ResourceList
		claim    *workv1alpha2.NodeClaim
		want     int64
	}{
		"no claim leaves out nodes with taints":         {few, oneCPU, nil, 16},
		"a toleration admits to nodes with the taint":   {few, oneCPU, &workv1alpha2.NodeClaim{Tolerations: tolerates}, 36},
		"the pods of a node count":                      {few, resources("cpu", "1m"), &workv1alpha2.NodeClaim{Tolerations: tolerates}, 420},
		"no request is one pod":                         {few, nil, nil, 400},
		"a request that no single node can hold":        {few, resources("cpu", "5"), nil, 0},
		"a remainder of a node is of no use":            {few, resources("cpu", "3"), nil, 4},
		"a resource that some nodes have":               {few, resources("example.com/gpu", "1"), &workv1alpha2.NodeClaim{Tolerations: tolerates}, 8},
		"a resource that no node has":                   {few, resources("example.com/fpga", "1"), nil, 0},
		"a node selector":                               {few, oneCPU, &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"pool": "a"}}, 16},
		"a selector of nodes with a taint":              {few, oneCPU, &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"pool": "g"}}, 0},
		"a selector and a toleration":                   {few, oneCPU, &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"pool": "g"}, Tolerations: tolerates}, 20},
		"a label that no node has":                      {few, oneCPU, &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"pool": "x"}}, 0},
		"one node by host name":                         {few, oneCPU, &workv1alpha2.NodeClaim{NodeSelector: map[string]string{corev1.LabelHostname: "plain-1"}}, 4},
		"In":                                            {few, oneCPU, required(expressions(is("pool", corev1.NodeSelectorOpIn, "x", "a"))), 16},
		"NotIn":                                         {few, oneCPU, required(expressions(is("pool", corev1.NodeSelectorOpNotIn, "a"))), 0},
		"Exists":                                        {few, oneCPU, required(expressions(is("gen", corev1.NodeSelectorOpExists))), 16},
		"DoesNotExist":                                  {few, oneCPU, required(expressions(is("gen", corev1.NodeSelectorOpDoesNotExist))), 0},
		"Gt":                                            {many, oneCPU, required(expressions(is("gen", corev1.NodeSelectorOpGt, "5"))), 60},
		"Lt":                                            {many, oneCPU, required(expressions(is("gen", corev1.NodeSelectorOpLt, "6"))), 16},
		"one of several terms":                          {few, oneCPU, required(expressions(is("pool", corev1.NodeSelectorOpIn, "x")), expressions(is("gen", corev1.NodeSelectorOpIn, "5"))), 16},
		"all requirements of a term":                    {few, oneCPU, required(expressions(is("pool", corev1.NodeSelectorOpIn, "a"), is("gen", corev1.NodeSelectorOpIn, "7"))), 0},
		"no term matches nothing":                       {few, oneCPU, required(), 0},
		"a term without requirements matches nothing":   {few, oneCPU, required(corev1.NodeSelectorTerm{}), 0},
		"a requirement that is invalid matches nothing": {few, oneCPU, required(expressions(is("gen", corev1.NodeSelectorOpGt, "many"))), 0},
		"one node by name": {few, oneCPU, required(corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{is(metav1.ObjectNameField, corev1.NodeSelectorOpIn, "plain-2")}}), 4},
		"all but one node by name": {few, oneCPU, required(corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{is(metav1.ObjectNameField, corev1.NodeSelectorOpNotIn, "plain-2")}}), 12},
		"names that are not listed count as met": {many, oneCPU, required(corev1.NodeSelectorTerm{
			MatchFields: []corev1.NodeSelectorRequirement{is(metav1.ObjectNameField, corev1.NodeSelectorOpIn, "plain-2")}}), 76},
		"so do values that are not listed":  {many, oneCPU, &workv1alpha2.NodeClaim{NodeSelector: map[string]string{corev1.LabelHostname: "plain-2", "pool": "a"}}, 16},
		"but not labels that are not there": {many, oneCPU, required(expressions(is(corev1.LabelHostname, corev1.NodeSelectorOpDoesNotExist))), 0},
	} {
		t.Run(name, func(t *testing.T) {
			demand := DemandOf(tc.requests).On(tc.claim)
			nodes := NodesOf(Summarize(tc.nodes))
			if got := nodes.fit(&demand, 1<<30); got != tc.want {
				t.Errorf("%d replicas fit, want %d", got, tc.want)
			}
			if admits := nodes.admits(&demand); !admits && tc.want > 0 {
				t.Error("replicas fit, but no node is admitted")
			}
		})
	}
}

func component(replicas int32, claim *workv1alpha2.NodeClaim, requests ...string) workv1alpha2.Component {
	return workv1alpha2.Component{Replicas: replicas, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{
		NodeClaim: claim, ResourceRequest: resources(requests...),
	}}
}

func TestWholeSetsFitTogether(t *testing.T) {
	nodes := slices.Concat(
		nodesOf(2, "small-", map[string]string{"size": "s"}, nil, resources("cpu", "4", "pods", "100")),
		nodesOf(1, "large-", map[string]string{"size": "l"}, nil, resources("cpu", "10", "pods", "5")))
	large := &workv1alpha2.NodeClaim{NodeSelector: map[string]string{"size": "l"}}
	for name, tc := range map[string]struct {
		set  []workv1alpha2.Component
		want int64
	}{
		"all pods of a set":                    {[]workv1alpha2.Component{component(3, nil, "cpu", "2")}, 3},
		"components share nodes":               {[]workv1alpha2.Component{component(1, large, "cpu", "5"), component(2, nil, "cpu", "2")}, 2},
		"the one with fewer nodes goes first":  {[]workv1alpha2.Component{component(2, nil, "cpu", "4"), component(1, large, "cpu", "10")}, 1},
		"pods of a node":                       {[]workv1alpha2.Component{component(6, large, "cpu", "1")}, 0},
		"a component that fits nowhere":        {[]workv1alpha2.Component{component(1, nil, "cpu", "1"), component(1, large, "cpu", "11")}, 0},
		"a component without replicas is none": {[]workv1alpha2.Component{component(0, nil, "cpu", "99"), component(1, large, "cpu", "5")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			demand := DemandOfSet(tc.set)
			if got := NodesOf(Summarize(nodes)).fit(&demand, 1000); got != tc.want {
				t.Errorf("%d sets fit, want %d", got, tc.want)
			}
		})
	}
}

func TestSummaryStaysSmall(t *testing.T) {
	var different []Node
	for i := range 3000 {
		labels := map[string]string{"pool": strconv.Itoa(i % 7)}
		for j := range 20 {
			labels["key-"+strconv.Itoa(j)] = strconv.Itoa(i * (j + 1))
		}
		labels["flag-"+strconv.Itoa(i%500)] = ""
		different = append(different, nodesOf(1, strconv.Itoa(i), labels, nil, resources("cpu", strconv.Itoa(1+i%97), "memory", strconv.Itoa(i+1), "pods", "110"))...)
	}
	got := Summarize(different)
	buckets, counted := 0, int32(0)
	for _, set := range got.Nodes {
		for _, r := range set.Buckets {
			buckets, counted = buckets+1, counted+r.Count
		}
	}
	if len(got.Nodes) > maxSummarySets || buckets > maxSummaryBuckets {
		t.Errorf("%d sets and %d buckets", len(got.Nodes), buckets)
	}
	if counted+got.OmittedNodes != 3000 {
		t.Errorf("%d nodes counted, %d omitted", counted, got.OmittedNodes)
	}
	alike := Summarize(nodesOf(5000, "n", map[string]string{"pool": "a"}, nil, resources("cpu", "7910m", "memory", "30Gi", "pods", "110")))
	want := resources("cpu", "7900m", "memory", "30Gi", "pods", "110")
	if len(alike.Nodes) != 1 || len(alike.Nodes[0].Buckets) != 1 || alike.Nodes[0].Buckets[0].Count != 5000 {
		t.Fatalf("5,000 nodes that are alike are not one bucket: %v", alike)
	}
	for name, q := range want {
		if have := alike.Nodes[0].Buckets[0].Free[name]; have.Cmp(q) != 0 {
			t.Errorf("%s is rounded down to %s, want %s", name, have.String(), q.String())
		}
	}
	if !slices.Equal(alike.OmittedValues, []string{corev1.LabelHostname}) || !alike.OmittedNames {
		t.Errorf("the host names of 5,000 nodes are not omitted: %v", alike.OmittedValues)
	}
}

func TestAbsurdReportsAreBounded(t *testing.T) {
	huge := corev1.ResourceList{"cpu": resource.MustParse("1e2147483646"), "memory": resource.MustParse("-1"), "pods": resource.MustParse("9E")}
	nodes := NodesOf(&fleetv1alpha1.ClusterCapacity{Nodes: []fleetv1alpha1.NodeSet{
		{Buckets: []fleetv1alpha1.Bucket{{Count: 1<<31 - 1, Free: huge}, {Count: -5, Free: huge}}},
		{Buckets: slices.Repeat([]fleetv1alpha1.Bucket{{Count: 1<<31 - 1, Free: huge}}, 5000)},
	}})
	buckets := 0
	for _, set := range nodes.sets {
		buckets += len(set.buckets)
	}
	if buckets > maxBuckets {
		t.Errorf("%d buckets are read", buckets)
	}
	for _, demand := range []Demand{DemandOf(resources("cpu", "1m")).On(nil), DemandOf(resources("memory", "1")).On(nil), DemandOfSet([]workv1alpha2.Component{component(1<<31-1, nil, "cpu", "9E")})} {
		if got := nodes.fit(&demand, 1000); got < 0 || got > 1000 {
			t.Errorf("%d fit", got)
		}
	}
}

func TestMoreNodesAreMoreCapacity(t *testing.T) {
	summary := func(count int, cpu string, labels ...string) *Nodes {
		own := map[string]string{}
		for _, key := range labels {
			own[key] = ""
		}
		c := Summarize(nodesOf(40, "other-", nil, nil, resources("cpu", "1", "pods", "9")))
		c.Nodes = append(c.Nodes, Summarize(nodesOf(count, "n", own, nil, resources("cpu", cpu, "pods", "9"))).Nodes...)
		return NodesOf(c)
	}
	for name, tc := range map[string]struct {
		now  *Nodes
		more bool
	}{
		"the same":         {summary(2, "4"), false},
		"less free":        {summary(2, "3"), false},
		"a node less":      {summary(1, "4"), false},
		"more free":        {summary(2, "5"), true},
		"a node more":      {summary(3, "4"), true},
		"another label":    {summary(2, "4", "pool"), true},
		"nothing is there": {NodesOf(&fleetv1alpha1.ClusterCapacity{}), false},
	} {
		before, now := Headroom{nodes: summary(2, "4")}, Headroom{nodes: tc.now}
		if got := now.Exceeds(&before); got != tc.more {
			t.Errorf("%s: Exceeds is %v", name, got)
		}
	}
	known, unknown := Headroom{nodes: summary(1, "1")}, Headroom{}
	if known.Exceeds(&unknown) || !unknown.Exceeds(&known) {
		t.Error("what becomes known of nodes lessens what fits, what is not known any more adds to it")
	}
}

// bruteForce is how many units fit by placing each pod of each unit on the first node that holds it, node by node.
func bruteForce(nodes []Node, d *Demand, limit int64) int64 {
	suits := func(n *Node, p *piece) bool {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{}}, Spec: corev1.NodeSpec{Taints: n.Taints}}
		for _, l := range n.Labels {
			node.Labels[l.Value().key] = l.Value().value
		}
		return p.claim.allows(node)
	}
	free := make([]Amounts, len(nodes))
	for i := range nodes {
		free[i] = nodes[i].Free
	}
	for unit := range limit {
		for i := range d.pieces {
			p := &d.pieces[i]
			for range p.replicas {
				at := -1
				for j := range nodes {
					if suits(&nodes[j], p) && perNode(p.items, free[j]) > 0 {
						at = j
						break
					}
				}
				if at < 0 {
					return unit
				}
				free[at] = free[at].Less(append(slices.Clone(p.items), amount{corev1.ResourcePods, 1}))
			}
		}
	}
	return limit
}

func FuzzFitNeverExceedsTheNodes(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, size uint8) {
		r := rand.New(rand.NewPCG(seed, 7))
		nodes := randomNodes(r, 1+int(size)%50)
		demand := DemandOf(resources("cpu", fmt.Sprintf("%dm", 1+r.IntN(2000)), "memory", strconv.Itoa(1+r.IntN(1000)))).On(randomClaim(r))
		const limit = 100
		exactly := bruteForce(nodes, &demand, limit)
		got := NodesOf(Summarize(nodes)).fit(&demand, limit)
		if got > exactly {
			t.Fatalf("%d replicas fit, the nodes hold %d", got, exactly)
		}
		if len(nodes) <= details(1)[0].values && got != exactly {
			t.Fatalf("%d replicas fit, the nodes hold %d: nothing is rounded for so few", got, exactly)
		}
	})
}

func randomNodes(r *rand.Rand, n int) []Node {
	var out []Node
	for i := range n {
		labels, taints := map[string]string{"zone": strconv.Itoa(r.IntN(3))}, []corev1.Taint(nil)
		if r.IntN(2) == 0 {
			labels["gen"] = strconv.Itoa(r.IntN(4))
		}
		if r.IntN(3) == 0 {
			taints = append(taints, corev1.Taint{Key: "only", Value: strconv.Itoa(r.IntN(2)), Effect: []corev1.TaintEffect{
				corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}[r.IntN(3)]})
		}
		free := resources("cpu", fmt.Sprintf("%dm", r.IntN(5000)), "memory", strconv.Itoa(r.IntN(3000)), "pods", strconv.Itoa(r.IntN(6)))
		node := nodesOf(1, "n"+strconv.Itoa(i)+"-", labels, taints, free)
		out = append(out, node...)
	}
	return out
}

func randomClaim(r *rand.Rand) *workv1alpha2.NodeClaim {
	claim := &workv1alpha2.NodeClaim{}
	if r.IntN(2) == 0 {
		claim.Tolerations = []corev1.Toleration{{Key: "only", Operator: corev1.TolerationOpEqual, Value: strconv.Itoa(r.IntN(2))}}
	}
	if r.IntN(4) == 0 {
		claim.NodeSelector = map[string]string{"zone": strconv.Itoa(r.IntN(3))}
	}
	for range r.IntN(3) {
		operators := []corev1.NodeSelectorRequirement{
			is("zone", corev1.NodeSelectorOpIn, "0", "2"), is("gen", corev1.NodeSelectorOpNotIn, "1"), is("gen", corev1.NodeSelectorOpExists),
			is("gen", corev1.NodeSelectorOpDoesNotExist), is("gen", corev1.NodeSelectorOpGt, "1"), is("gen", corev1.NodeSelectorOpLt, "2"),
		}
		if claim.HardNodeAffinity == nil {
			claim.HardNodeAffinity = &corev1.NodeSelector{}
		}
		claim.HardNodeAffinity.NodeSelectorTerms = append(claim.HardNodeAffinity.NodeSelectorTerms, expressions(operators[r.IntN(6)], operators[r.IntN(6)]))
	}
	return claim
}

// TestWholeSetsNeverExceedTheNodes: a set that fits can be placed pod by pod, since placing is how it is found to fit. What is compared
// here is that each component alone has as many pods as brute force places.
func TestWholeSetsNeverExceedTheNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		nodes := randomNodes(r, 1+r.IntN(12))
		set := []workv1alpha2.Component{
			component(1+r.Int32N(3), randomClaim(r), "cpu", fmt.Sprintf("%dm", 1+r.IntN(1500))),
			component(1+r.Int32N(3), randomClaim(r), "memory", strconv.Itoa(1+r.IntN(800))),
		}
		demand := DemandOfSet(set)
		got := NodesOf(Summarize(nodes)).fit(&demand, 50)
		for i := range demand.pieces {
			alone := Demand{pieces: []piece{demand.pieces[i]}}
			if most := bruteForce(nodes, &alone, 50); got > most {
				t.Fatalf("%d sets fit, but component %d alone has nodes for %d", got, i, most)
			}
		}
	}
}

func BenchmarkNodes(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var nodes []Node
	for i := range 5000 {
		labels := map[string]string{
			corev1.LabelTopologyZone: strconv.Itoa(i % 3), "pool": strconv.Itoa(i % 5), corev1.LabelInstanceTypeStable: strconv.Itoa(i % 4),
			corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "id": strconv.Itoa(i),
		}
		free := resources("cpu", fmt.Sprintf("%dm", r.IntN(16000)), "memory", strconv.Itoa(r.IntN(64<<30)), "pods", strconv.Itoa(r.IntN(110)))
		nodes = append(nodes, nodesOf(1, "n"+strconv.Itoa(i)+"-", labels, nil, free)...)
	}
	summary := Summarize(nodes)
	buckets := 0
	for _, set := range summary.Nodes {
		buckets += len(set.Buckets)
	}
	b.Run("Summarize", func(b *testing.B) {
		for b.Loop() {
			Summarize(nodes)
		}
		b.ReportMetric(float64(buckets), "buckets")
		b.ReportMetric(float64(summary.OmittedNodes), "omitted")
	})
	read := NodesOf(summary)
	for name, demand := range map[string]Demand{
		"Fit": DemandOf(resources("cpu", "500m")).On(nil),
		"FitSelected": DemandOf(resources("cpu", "500m", "memory", "1Gi")).On(&workv1alpha2.NodeClaim{
			NodeSelector: map[string]string{"pool": "1", corev1.LabelTopologyZone: "2"}}),
		"FitSets": DemandOfSet([]workv1alpha2.Component{component(1, nil, "cpu", "2"), component(4, nil, "cpu", "1", "memory", "2Gi")}),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				read.fit(&demand, 1<<30)
			}
		})
	}
}
