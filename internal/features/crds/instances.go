package crds

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Instances counts the objects of a kind in each cluster that Works put there, in whatever version.
func (c *Carrier) Instances(ctx context.Context, group, kind string) (map[string]int, error) {
	var works workv1alpha1.WorkList
	if err := c.deps.Works.List(ctx, &works, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Works: %w", err)
	}
	counts := map[string]int{}
	for i := range works.Items {
		work := &works.Items[i]
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
