package v1alpha1_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

func TestDefaultResourceModels(t *testing.T) {
	models := clusterv1alpha1.DefaultResourceModels()
	if len(models) != 9 {
		t.Fatalf("got %d grades, want 9", len(models))
	}
	const gibibyte = 1 << 30
	cpus := []int64{0, 1, 2, 4, 8, 16, 32, 64, 128, math.MaxInt64}
	memory := []int64{0, 4 * gibibyte, 16 * gibibyte, 32 * gibibyte, 64 * gibibyte, 128 * gibibyte,
		256 * gibibyte, 512 * gibibyte, 1024 * gibibyte, math.MaxInt64}
	for grade, model := range models {
		for i, bounds := range [][]int64{cpus, memory} {
			r := model.Ranges[i]
			if model.Grade != uint(grade) || r.Min.Value() != bounds[grade] || r.Max.Value() != bounds[grade+1] {
				t.Errorf("grade %d of %s is %d from %s to %s", grade, r.Name, model.Grade, &r.Min, &r.Max)
			}
		}
	}
}

func TestSetDefaults(t *testing.T) {
	cluster := &clusterv1alpha1.Cluster{Spec: clusterv1alpha1.ClusterSpec{Zone: "z1"}}
	clusterv1alpha1.SetDefaults(cluster)
	if diff := cmp.Diff([]string{"z1"}, cluster.Spec.Zones); diff != "" || cluster.Spec.Zone != "" {
		t.Errorf("the deprecated zone %q did not become a zone: %s", cluster.Spec.Zone, diff)
	}
	if diff := cmp.Diff(clusterv1alpha1.DefaultResourceModels(), cluster.Spec.ResourceModels); diff != "" {
		t.Errorf("resource models differ (-want +got):\n%s", diff)
	}
	once := cluster.DeepCopy()
	clusterv1alpha1.SetDefaults(cluster)
	if diff := cmp.Diff(once, cluster); diff != "" {
		t.Errorf("a second time changes something:\n%s", diff)
	}
}

func TestNormalize(t *testing.T) {
	cluster := &clusterv1alpha1.Cluster{Spec: clusterv1alpha1.ClusterSpec{
		Zone:  "old",
		Zones: []string{"new"},
		ResourceModels: []clusterv1alpha1.ResourceModel{
			{Grade: 1, Ranges: []clusterv1alpha1.ResourceModelRange{modelRange("memory", "1Gi", "2Gi"), modelRange("cpu", "2", "4")}},
			{Grade: 0, Ranges: []clusterv1alpha1.ResourceModelRange{modelRange("cpu", "1", "2"), modelRange("memory", "0", "1Gi")}},
		},
	}}
	clusterv1alpha1.Normalize(cluster)
	unbounded := *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
	want := clusterv1alpha1.ClusterSpec{
		Zone:  "old",
		Zones: []string{"new"},
		ResourceModels: []clusterv1alpha1.ResourceModel{
			{Grade: 0, Ranges: []clusterv1alpha1.ResourceModelRange{modelRange("cpu", "0", "2"), modelRange("memory", "0", "1Gi")}},
			{Grade: 1, Ranges: []clusterv1alpha1.ResourceModelRange{
				{Name: "cpu", Min: resource.MustParse("2"), Max: unbounded}, {Name: "memory", Min: resource.MustParse("1Gi"), Max: unbounded}}},
		},
	}
	if diff := cmp.Diff(want, cluster.Spec); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	empty := &clusterv1alpha1.Cluster{}
	clusterv1alpha1.Normalize(empty)
	if len(empty.Spec.ResourceModels) != 0 {
		t.Error("cleared resource models came back")
	}
}

func modelRange(name corev1.ResourceName, least, above string) clusterv1alpha1.ResourceModelRange {
	return clusterv1alpha1.ResourceModelRange{Name: name, Min: resource.MustParse(least), Max: resource.MustParse(above)}
}
