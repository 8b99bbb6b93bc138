package crds

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
)

// Instances counts the objects of a kind in each cluster that Works put there, in whatever version.
func (c *Carrier) Instances(ctx context.Context, group, kind string) (map[string]int, error) {
	works, err := hubclient.ListWorks(ctx, c.deps.Works)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for _, work := range works {
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		if n := instancesIn(work, runtimeschema.GroupKind{Group: group, Kind: kind}); ok && n > 0 {
			counts[cluster] += n
		}
	}
	return counts, nil
}

// instancesIn counts what the Work's member reported, or what it will have if it has not reported yet.
func instancesIn(work *workv1alpha1.Work, kind runtimeschema.GroupKind) int {
	n := 0
	for _, s := range work.Status.ManifestStatuses {
		if s.Identifier.Group == kind.Group && s.Identifier.Kind == kind.Kind {
			n++
		}
	}
	if len(work.Status.ManifestStatuses) > 0 {
		return n
	}
	for _, m := range work.Spec.Workload.Manifests {
		var of metav1.TypeMeta
		if json.Unmarshal(m.Raw, &of) == nil && of.GroupVersionKind().GroupKind() == kind {
			n++
		}
	}
	return n
}
