package preview

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// Placed is where an object is.
type Placed struct {
	// Clusters have its replicas, 0 for kinds without replicas.
	Clusters map[string]int32
	// Policy is NAMESPACE/NAME of a PropagationPolicy or NAME of a ClusterPropagationPolicy; "" if it belongs to none.
	Policy string
	// Message is why it has no place, or not all of it.
	Message string
}

// Placed returns where a template is now.
func (r *Run) Placed(ctx context.Context, kind, namespace, name string) (Placed, error) {
	placed := Placed{Clusters: map[string]int32{}}
	for _, known := range r.Templates.Kinds() {
		if known.GroupVersionKind.Kind != kind {
			continue
		}
		for _, meta := range r.Templates.List(known.GroupVersionKind, namespace, labels.Everything()) {
			if claim := policy.ClaimOn(meta).Policy; meta.Name == name && meta.Namespace == namespace && claim.Name != "" {
				placed.Policy = claim.Name
				if claim.Namespace != "" {
					placed.Policy = claim.Namespace + "/" + claim.Name
				}
			}
		}
	}
	bound, err := hubclient.Bindings(ctx, r.Hub)
	if err != nil {
		return placed, err
	}
	for _, binding := range bound {
		if ref := hubstore.TemplateOf(binding.BindingSpec()); ref.GroupVersionKind.Kind == kind && ref.Namespace == namespace && ref.Name == name {
			placed.Clusters, placed.Message = targetsOf(binding), unplaced(binding).Message
		}
	}
	return placed, nil
}
