package clusters

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// table is how "kubectl get clusters" shows them. Columns of priority 1 need "-o wide".
type table struct{}

// ConvertToTable makes a row of each cluster.
func (table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return native.Table(object, options, columns(), func(object runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		cluster, ok := object.(*clusterv1alpha1.Cluster)
		if !ok {
			return nil, fmt.Errorf("a %T is not a Cluster", object)
		}
		spec := cluster.Spec
		return []any{
			name, cluster.Status.KubernetesVersion, string(spec.SyncMode), readiness(cluster), age,
			strings.Join(spec.Zones, ","), spec.Region, spec.Provider, spec.APIEndpoint, spec.ProxyURL,
		}, nil
	})
}

func columns() []metav1.TableColumnDefinition {
	text := func(name, description string, priority int32) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: priority}
	}
	name := text("Name", "Name of the cluster.", 0)
	name.Format = "name"
	return []metav1.TableColumnDefinition{
		name,
		text("Version", "Kubernetes version of the cluster.", 0),
		text("Mode", "Which side dials the other.", 0),
		text("Ready", "Whether the cluster's API server reports that it is ready.", 0),
		text("Age", "Time since the cluster was registered.", 0),
		text("Zones", "Zones the cluster's nodes are in.", 1),
		text("Region", "Region the cluster is in.", 1),
		text("Provider", "Who runs the cluster.", 1),
		text("API-Endpoint", "Address of the cluster's API server.", 1),
		text("Proxy-URL", "Proxy through which the cluster is reached.", 1),
	}
}

func readiness(cluster *clusterv1alpha1.Cluster) string {
	for _, condition := range cluster.Status.Conditions {
		if condition.Type == clusterv1alpha1.ClusterConditionReady {
			return string(condition.Status)
		}
	}
	return string(metav1.ConditionUnknown)
}
