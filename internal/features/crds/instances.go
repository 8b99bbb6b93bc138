package crds

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// Instances counts the objects of a kind in each cluster that Works put there, in whatever version. Wanted is true if the template of one
// of them is on the control plane: without, they are being deleted. A template that the cache has is read from the API server, since its
// deletion may have been requested a moment before.
func (c *Carrier) Instances(ctx context.Context, group, kind string) (counts map[string]int, wanted bool, err error) {
	works, err := hubclient.ListWorks(ctx, c.deps.Works)
	if err != nil {
		return nil, false, err
	}
	counts = map[string]int{}
	for _, work := range works {
		cluster, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
		if !ok {
			continue
		}
		for _, ref := range instancesIn(work, runtimeschema.GroupKind{Group: group, Kind: kind}) {
			counts[cluster]++
			if !wanted {
				if wanted, err = c.wanted(ctx, ref); err != nil {
					return nil, false, err
				}
			}
		}
	}
	return counts, wanted, nil
}

// wanted returns whether a template exists and is not being deleted.
func (c *Carrier) wanted(ctx context.Context, ref hubstore.Ref) (bool, error) {
	if cached, exists := c.deps.Templates.Meta(ref); !exists || cached.DeletionTimestamp != nil {
		return false, nil
	}
	template, err := c.deps.Templates.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && template.GetDeletionTimestamp() == nil, err
}

// instancesIn lists what the Work's member reported, or what it will have if it has not reported yet.
func instancesIn(work *workv1alpha1.Work, kind runtimeschema.GroupKind) []hubstore.Ref {
	var refs []hubstore.Ref
	for _, s := range work.Status.ManifestStatuses {
		if s.Identifier.Group == kind.Group && s.Identifier.Kind == kind.Kind {
			refs = append(refs, hubstore.Ref{GroupVersionKind: kind.WithVersion(s.Identifier.Version), Namespace: s.Identifier.Namespace, Name: s.Identifier.Name})
		}
	}
	if len(work.Status.ManifestStatuses) > 0 {
		return refs
	}
	for _, m := range work.Spec.Workload.Manifests {
		var of metav1.PartialObjectMetadata
		if json.Unmarshal(m.Raw, &of) == nil && of.GroupVersionKind().GroupKind() == kind {
			refs = append(refs, hubstore.Ref{GroupVersionKind: of.GroupVersionKind(), Namespace: of.Namespace, Name: of.Name})
		}
	}
	return refs
}
