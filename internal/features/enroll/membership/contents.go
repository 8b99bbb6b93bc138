package membership

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Contents is how many objects of a kind the Works of a cluster hold in one namespace, and what the removal of the cluster
// does to them.
type Contents struct {
	// Namespace is that of the objects in the cluster; empty for cluster-scoped kinds.
	Namespace string `json:"namespace,omitempty"`
	// APIVersion and Kind are those of the objects.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Objects is their number.
	Objects int `json:"objects"`
	// Kept means that the objects stay in the cluster. Objects that were there before the control plane stay in any case.
	Kept bool `json:"kept"`
}

// ContentsOf counts the objects of a cluster's Works by namespace, kind and what the Cluster's annotation orders.
func ContentsOf(ctx context.Context, c client.Reader, cluster *clusterv1alpha1.Cluster) ([]Contents, error) {
	works, err := hubclient.ListWorks(ctx, c, client.InNamespace(workv1alpha1.ExecutionNamespace(cluster.Name)))
	if err != nil {
		return nil, err
	}
	counts := map[Contents]int{}
	for _, work := range works {
		if workv1alpha1.IsRecord(work) {
			continue // kept for the control plane itself; the cluster has no such object
		}
		preserved := work.Spec.PreserveResourcesOnDeletion != nil && *work.Spec.PreserveResourcesOnDeletion
		for _, manifest := range work.Spec.Workload.Manifests {
			var object metav1.PartialObjectMetadata
			if json.Unmarshal(manifest.Raw, &object) != nil {
				continue // never applied, since it is no object
			}
			counts[Contents{
				Namespace: object.Namespace, APIVersion: object.APIVersion, Kind: object.Kind,
				Kept: preserved || !clusterv1alpha1.DeletesObjects(cluster),
			}]++
		}
	}
	contents := make([]Contents, 0, len(counts))
	for c, n := range counts {
		c.Objects = n
		contents = append(contents, c)
	}
	slices.SortFunc(contents, func(a, b Contents) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Objects, b.Objects))
	})
	return contents, nil
}

// Count adds up the objects that stay and those that are deleted.
func Count(contents []Contents) (kept, deleted int) {
	for _, c := range contents {
		if c.Kept {
			kept += c.Objects
		} else {
			deleted += c.Objects
		}
	}
	return kept, deleted
}

// PreserveWorks orders in every Work of a namespace that its objects stay when it is deleted.
func PreserveWorks(ctx context.Context, c client.Client, namespace string) error {
	works, err := hubclient.ListWorks(ctx, c, client.InNamespace(namespace))
	failures := []error{err}
	for _, work := range works {
		preserving := work.DeepCopy()
		preserving.Spec.PreserveResourcesOnDeletion = new(true)
		_, err := hubclient.Patch(ctx, c, work, preserving, client.FieldOwner(memberaccount.FieldManager))
		failures = append(failures, client.IgnoreNotFound(err))
	}
	return errors.Join(failures...)
}
