package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// DefinitionsName is the name of Definitions in the admission chain.
const DefinitionsName = "FlagshipDefinitions"

// Definitions refuses to delete a CustomResourceDefinition of whose kind members have objects.
type Definitions struct {
	instances func(ctx context.Context, group, kind string) (map[string]int, error)
}

var _ admission.ValidationInterface = &Definitions{}

// NewDefinitions makes the plugin. Instances counts the objects of a kind by cluster, from memory. It is a function because the loops of
// the control plane have the counts, which start after the API server.
func NewDefinitions(instances func(ctx context.Context, group, kind string) (map[string]int, error)) *Definitions {
	return &Definitions{instances: instances}
}

// Handles says that deletions are of interest.
func (d *Definitions) Handles(operation admission.Operation) bool {
	return operation == admission.Delete
}

// Validate refuses the deletion of a definition that is in use.
func (d *Definitions) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	definition, ok := a.GetOldObject().(*apiextensions.CustomResourceDefinition)
	if !ok || a.GetSubresource() != "" || definition.DeletionTimestamp != nil ||
		definition.Annotations[workv1alpha1.AllowDeletionAnnotation] == "true" {
		return nil
	}
	counts, err := d.instances(ctx, definition.Spec.Group, definition.Spec.Names.Kind)
	if err != nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("it is not known yet whether members have objects of %s: %v", definition.Name, err))
	}
	if len(counts) == 0 {
		return nil
	}
	list := make([]string, 0, len(counts))
	for _, cluster := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%d in %s", counts[cluster], cluster))
	}
	return admission.NewForbidden(a, fmt.Errorf("members have objects of its kind, which would be deleted with it: %s. Delete these objects first, or set the annotation %s=true on the definition",
		strings.Join(list, ", "), workv1alpha1.AllowDeletionAnnotation))
}
