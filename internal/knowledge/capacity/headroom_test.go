package capacity_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func cluster(allocatable, allocated, allocating corev1.ResourceList) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{}
	c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: allocatable, Allocated: allocated, Allocating: allocating}
	return c
}

// graded has grades 0: cpu 0, memory 0; 1: cpu 1, memory 4Gi; 2: cpu 2, memory 8Gi, with counts nodes each.
func graded(c *clusterv1alpha1.Cluster, counts ...int) *clusterv1alpha1.Cluster {
	mins := [][2]string{{"0", "0"}, {"1", "4Gi"}, {"2", "8Gi"}}
	for grade, n := range counts {
		c.Spec.ResourceModels = append(c.Spec.ResourceModels, clusterv1alpha1.ResourceModel{
			Grade: uint(grade),
			Ranges: []clusterv1alpha1.ResourceModelRange{
				{Name: corev1.ResourceCPU, Min: resource.MustParse(mins[grade][0])},
				{Name: corev1.ResourceMemory, Min: resource.MustParse(mins[grade][1])},
			},
		})
		c.Status.ResourceSummary.AllocatableModelings = append(c.Status.ResourceSummary.AllocatableModelings,
			clusterv1alpha1.AllocatableModeling{Grade: uint(grade), Count: n})
	}
	return c
}

func TestFit(t *testing.T) {
	plenty := list("cpu", "100", "memory", "400Gi", "pods", "1000")
	cases := map[string]struct {
		reason  string
		cluster *clusterv1alpha1.Cluster
		demand  capacity.Demand
		taken   capacity.Usage
		want    int32
	}{
		"NotReported": {
			reason:  "a cluster that has reported nothing has no capacity",
			cluster: &clusterv1alpha1.Cluster{}, want: 0,
		},
		"PodsOnly": {
			reason:  "110 - 10 - 5 pods, no requests",
			cluster: cluster(list("pods", "110"), list("pods", "10"), list("pods", "5")), want: 95,
		},
		"NoPodsLeft": {
			reason:  "no pod slot, nothing fits, however small",
			cluster: cluster(list("pods", "10", "cpu", "8"), list("pods", "10"), nil), want: 0,
		},
		"Scarcest": {
			reason:  "cpu 8-2-1=5 gives 10 of 500m; memory 16Gi-4Gi=12Gi gives 6 of 2Gi",
			cluster: cluster(list("pods", "110", "cpu", "8", "memory", "16Gi"), list("cpu", "2", "memory", "4Gi"), list("cpu", "1")),
			demand:  capacity.DemandOf(list("cpu", "500m", "memory", "2Gi")), want: 6,
		},
		"UnknownResource": {
			reason:  "a cluster without GPUs holds no replica that wants one",
			cluster: cluster(plenty, nil, nil), demand: capacity.DemandOf(list("nvidia.com/gpu", "1")), want: 0,
		},
		"Overcommitted": {
			reason:  "more taken than there is leaves none, not less than none",
			cluster: cluster(list("pods", "10", "cpu", "2"), list("cpu", "3"), nil), demand: capacity.DemandOf(list("cpu", "1")), want: 0,
		},
		"Reserved": {
			reason:  "cpu 8 less 3 reserved replicas of 1 is 5",
			cluster: cluster(list("pods", "110", "cpu", "8"), nil, nil), demand: capacity.DemandOf(list("cpu", "1")),
			taken: capacity.Usage{}.Plus(capacity.DemandOf(list("cpu", "1")), 3), want: 5,
		},
		"Models": {
			reason:  "grade 1 fits 1 replica per node, grade 2 fits 2: 3*1 + 2*2; the total of 100 cpu would say 66",
			cluster: graded(cluster(plenty, nil, nil), 5, 3, 2), demand: capacity.DemandOf(list("cpu", "1", "memory", "2Gi")), want: 7,
		},
		"ModelsTooSmall": {
			reason:  "no grade has 3 cpu on one node",
			cluster: graded(cluster(plenty, nil, nil), 5, 3, 2), demand: capacity.DemandOf(list("cpu", "3")), want: 0,
		},
		"ModelsPodsPerNode": {
			reason:  "a node of a grade is taken to hold 110 pods: 2 nodes of grade 2",
			cluster: graded(cluster(plenty, nil, nil), 0, 0, 2), demand: capacity.DemandOf(list("cpu", "1m")), want: 220,
		},
		"ModelsAndOtherResource": {
			reason:  "what the models do not describe is divided out of the total: 4 gpus",
			cluster: graded(cluster(list("cpu", "100", "memory", "400Gi", "pods", "1000", "gpu", "4"), nil, nil), 0, 0, 9),
			demand:  capacity.DemandOf(list("cpu", "1", "gpu", "1")), want: 4,
		},
		"ModelsReserved": {
			reason:  "7 by models less 2 reserved",
			cluster: graded(cluster(plenty, nil, nil), 5, 3, 2), demand: capacity.DemandOf(list("cpu", "1", "memory", "2Gi")),
			taken: capacity.Usage{}.Plus(capacity.DemandOf(list("cpu", "1")), 2), want: 5,
		},
		"Set": {
			reason:  "one set is 1*2 cpu + 3*1 cpu = 5 cpu and 4 pods: 100/5 = 20 sets by cpu, 1000/4 = 250 by pods",
			cluster: graded(cluster(plenty, nil, nil), 0, 0, 1),
			demand: capacity.DemandOfSet([]workv1alpha2.Component{
				{Name: "head", Replicas: 1, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: list("cpu", "2")}},
				{Name: "worker", Replicas: 3, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: list("cpu", "1")}},
			}), want: 20,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			headroom := capacity.HeadroomOf(tc.cluster)
			if got := headroom.Fit(&tc.demand, &tc.taken); got != tc.want {
				t.Errorf("%s: Fit = %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

func TestExceeds(t *testing.T) {
	before := cluster(list("pods", "10", "cpu", "8"), list("cpu", "4"), nil)
	for reason, tc := range map[string]struct {
		after *clusterv1alpha1.Cluster
		want  bool
	}{
		"the same":              {before, false},
		"less of everything":    {cluster(list("pods", "9", "cpu", "8"), list("cpu", "5"), nil), false},
		"more pods":             {cluster(list("pods", "11", "cpu", "8"), list("cpu", "4"), nil), true},
		"less taken":            {cluster(list("pods", "10", "cpu", "8"), list("cpu", "3"), nil), true},
		"a further resource":    {cluster(list("pods", "10", "cpu", "8", "gpu", "1"), list("cpu", "4"), nil), true},
		"nodes of a grade":      {graded(cluster(list("pods", "10", "cpu", "8"), list("cpu", "4"), nil), 1), true},
		"nothing reported":      {&clusterv1alpha1.Cluster{}, false},
		"one resource has gone": {cluster(list("pods", "10"), nil, nil), false},
	} {
		had, has := capacity.HeadroomOf(before), capacity.HeadroomOf(tc.after)
		if got := has.Exceeds(&had); got != tc.want {
			t.Errorf("%s: Exceeds is %v", reason, got)
		}
	}
	fewer, more := capacity.HeadroomOf(graded(cluster(nil, nil, nil), 1, 2)), capacity.HeadroomOf(graded(cluster(nil, nil, nil), 1, 3))
	if fewer.Exceeds(&more) || !more.Exceeds(&fewer) {
		t.Error("a node more of a grade is more, a node less is not")
	}
}
