package hubclient_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

func TestClusterChanged(t *testing.T) {
	tests := map[string]struct {
		change func(*clusterv1alpha1.Cluster)
		want   bool
	}{
		"nodes":      {func(c *clusterv1alpha1.Cluster) { c.Status.NodeSummary = &clusterv1alpha1.NodeSummary{TotalNum: 3} }, false},
		"served":     {func(c *clusterv1alpha1.Cluster) { c.Status.APIEnablements = make([]clusterv1alpha1.APIEnablement, 1) }, false},
		"conditions": {func(c *clusterv1alpha1.Cluster) { c.Status.Conditions = []metav1.Condition{clusterv1alpha1.Ready()} }, true},
		"actions":    {func(c *clusterv1alpha1.Cluster) { c.Status.RemedyActions = []string{"TrafficControl"} }, true},
		"taints":     {func(c *clusterv1alpha1.Cluster) { c.Spec.Taints = []corev1.Taint{{Key: "a"}} }, true},
		"labels":     {func(c *clusterv1alpha1.Cluster) { c.Labels = map[string]string{"a": "b"} }, true},
		"generation": {func(c *clusterv1alpha1.Cluster) { c.Generation++ }, true},
	}
	for name, test := range tests {
		after := &clusterv1alpha1.Cluster{}
		test.change(after)
		if got := hubclient.ClusterChanged().Update(event.UpdateEvent{ObjectOld: &clusterv1alpha1.Cluster{}, ObjectNew: after}); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
