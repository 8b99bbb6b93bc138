package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// DefinitionsName is the name of Definitions in the admission chain.
const DefinitionsName = "FlagshipDefinitions"

// Definitions refuses to delete a CustomResourceDefinition of whose kind members have objects. If these are being deleted, the deletion
// of the definition waits for them.
type Definitions struct {
	instances Instances
	patience  time.Duration
}

// Instances counts the objects of a kind by cluster. Wanted is true if one of them still belongs there, which is read from the storage.
type Instances func(ctx context.Context, group, kind string) (counts map[string]int, wanted bool, err error)

// DefaultPatience is how long the deletion of a definition waits for objects of its kind; clients wait for an answer for a minute.
const DefaultPatience = 30 * time.Second

var _ admission.ValidationInterface = &Definitions{}

// NewDefinitions makes the plugin. Patience is how long a deletion waits.
func NewDefinitions(instances Instances, patience time.Duration) *Definitions {
	return &Definitions{instances: instances, patience: patience}
}

// Handles implements admission.Interface.
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
	counts, err := d.await(ctx, definition.Spec.Group, definition.Spec.Names.Kind)
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

// await waits for objects of a kind that are being deleted, and returns those that are left.
func (d *Definitions) await(ctx context.Context, group, kind string) (counts map[string]int, err error) {
	ended := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, d.patience, true, func(ctx context.Context) (bool, error) {
		var wanted bool
		if counts, wanted, err = d.instances(ctx, group, kind); err != nil {
			return false, err
		}
		return len(counts) == 0 || wanted, nil
	})
	if err == nil && (ctx.Err() != nil || !wait.Interrupted(ended)) { // with the request, and not with patience
		err = ended
	}
	return counts, err
}
