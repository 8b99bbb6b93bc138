package profile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

// member is a cluster that serves apps/v1 Deployment and v1 ConfigMap, has no taint and capacity for 100 replicas of one CPU.
func member(name string, edits ...func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1alpha1.ClusterConditionCompleteAPIEnablements, Status: metav1.ConditionTrue}}
	c.Status.APIEnablements = []clusterv1alpha1.APIEnablement{
		{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
		{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}},
	}
	available(100)(c)
	for _, edit := range edits {
		edit(c)
	}
	return c
}

// available leaves space for n replicas of one CPU.
func available(n int64) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Status.ResourceSummary = &clusterv1alpha1.ResourceSummary{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("1100"),
		}}
	}
}

func in(provider, region string, zones ...string) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Spec.Provider, c.Spec.Region, c.Spec.Zones = provider, region, zones
	}
}

func labelled(key, value string) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) { metav1.SetMetaDataLabel(&c.ObjectMeta, key, value) }
}

func tainted(key, value string, effect corev1.TaintEffect) func(*clusterv1alpha1.Cluster) {
	return func(c *clusterv1alpha1.Cluster) {
		c.Spec.Taints = append(c.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
}

func fleet(clusters ...*clusterv1alpha1.Cluster) *decision.Snapshot {
	return decision.NewSnapshot(clusters)
}

// eachAvailable is a fleet m1, m2, … with that many available replicas each.
func eachAvailable(free ...int64) *decision.Snapshot {
	var clusters []*clusterv1alpha1.Cluster
	for i, n := range free {
		clusters = append(clusters, member("m"+string(rune('1'+i)), available(n)))
	}
	return fleet(clusters...)
}

func targets(pairs ...any) []workv1alpha2.TargetCluster {
	out := []workv1alpha2.TargetCluster{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, workv1alpha2.TargetCluster{Name: pairs[i].(string), Replicas: int32(pairs[i+1].(int))})
	}
	return out
}

var oneCPU = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}

// deployment is a request for replicas of one CPU each.
func deployment(replicas int32, p *policyv1alpha1.Placement, edits ...func(*decision.Request)) decision.Request {
	req := decision.Request{
		Resource:  workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment"},
		Placement: p, Replicas: replicas, Requirements: oneCPU,
	}
	for _, edit := range edits {
		edit(&req)
	}
	return req
}

func configMap(p *policyv1alpha1.Placement, edits ...func(*decision.Request)) decision.Request {
	req := decision.Request{Resource: workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap"}, Placement: p}
	for _, edit := range edits {
		edit(&req)
	}
	return req
}

func now(pairs ...any) func(*decision.Request) {
	return func(r *decision.Request) { r.Current = targets(pairs...) }
}

func fresh(r *decision.Request)   { r.Fresh = true }
func partial(r *decision.Request) { r.Partial = true }

func spreadStatic(r *decision.Request) { r.SpreadStatic = true }

func placement(edits ...func(*policyv1alpha1.Placement)) *policyv1alpha1.Placement {
	p := &policyv1alpha1.Placement{}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func strategy(s policyv1alpha1.ReplicaSchedulingStrategy) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) { p.ReplicaScheduling = &s }
}

var (
	duplicated = strategy(policyv1alpha1.ReplicaSchedulingStrategy{ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDuplicated})
	dynamic    = strategy(policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference:          &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas},
	})
	aggregated = strategy(policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated,
	})
)

// static divides by weights, each for one cluster by name; without any, equally.
func static(pairs ...any) func(*policyv1alpha1.Placement) {
	s := policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}
	for i := 0; i < len(pairs); i += 2 {
		if s.WeightPreference == nil {
			s.WeightPreference = &policyv1alpha1.ClusterPreferences{}
		}
		s.WeightPreference.StaticWeightList = append(s.WeightPreference.StaticWeightList, policyv1alpha1.StaticClusterWeight{
			TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{pairs[i].(string)}}, Weight: int64(pairs[i+1].(int)),
		})
	}
	return strategy(s)
}

func spread(field policyv1alpha1.SpreadFieldValue, least, most int) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) {
		p.SpreadConstraints = append(p.SpreadConstraints, policyv1alpha1.SpreadConstraint{SpreadByField: field, MinGroups: least, MaxGroups: most})
	}
}

func spreadByLabel(key string, least, most int) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) {
		p.SpreadConstraints = append(p.SpreadConstraints, policyv1alpha1.SpreadConstraint{SpreadByLabel: key, MinGroups: least, MaxGroups: most})
	}
}

const (
	byCluster  = policyv1alpha1.SpreadByFieldCluster
	byRegion   = policyv1alpha1.SpreadByFieldRegion
	byZone     = policyv1alpha1.SpreadByFieldZone
	byProvider = policyv1alpha1.SpreadByFieldProvider
)

func named(names ...string) policyv1alpha1.ClusterAffinity {
	return policyv1alpha1.ClusterAffinity{ClusterNames: names}
}

func affinity(a policyv1alpha1.ClusterAffinity) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) { p.ClusterAffinity = &a }
}

func term(name string, a policyv1alpha1.ClusterAffinity, overflow ...policyv1alpha1.OverflowAffinityTerm) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) {
		p.ClusterAffinities = append(p.ClusterAffinities, policyv1alpha1.ClusterAffinityTerm{AffinityName: name, ClusterAffinity: a, OverflowAffinities: overflow})
	}
}

func overflow(name string, a policyv1alpha1.ClusterAffinity) policyv1alpha1.OverflowAffinityTerm {
	return policyv1alpha1.OverflowAffinityTerm{AffinityName: name, ClusterAffinity: a}
}

func tolerate(t corev1.Toleration) func(*policyv1alpha1.Placement) {
	return func(p *policyv1alpha1.Placement) { p.ClusterTolerations = append(p.ClusterTolerations, t) }
}

// scenario is a request, a fleet and the answer worked out by hand.
type scenario struct {
	reason  string
	fleet   *decision.Snapshot
	request decision.Request
	want    []workv1alpha2.TargetCluster
	// failure and message are set instead of want when nothing can be placed.
	failure string
	message string
}

func (s scenario) run(t *testing.T) {
	t.Helper()
	d := profile.Schedule(s.request, s.fleet)
	if s.failure != "" {
		if d.Failure == nil {
			t.Fatalf("%s: placed in %v, want failure %s", s.reason, d.Targets, s.failure)
		}
		if d.Failure.Reason != s.failure || s.message != "" && d.Failure.Message != s.message {
			t.Errorf("%s:\n got %s: %s\nwant %s: %s", s.reason, d.Failure.Reason, d.Failure.Message, s.failure, s.message)
		}
		return
	}
	if d.Failure != nil {
		t.Fatalf("%s: %s: %s", s.reason, d.Failure.Reason, d.Failure.Message)
	}
	if diff := cmp.Diff(s.want, d.Targets); diff != "" {
		t.Errorf("%s: -want +got\n%s", s.reason, diff)
	}
}

func runAll(t *testing.T, scenarios map[string]scenario) {
	t.Helper()
	for name, s := range scenarios {
		t.Run(name, s.run)
	}
}
