package unmarked

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// annotationsCount is the kind whose API server raises metadata.generation when an annotation changes. Those of all other kinds of
// Kubernetes, and of definitions, compare the spec alone.
var annotationsCount = schema.GroupKind{Group: "apps", Kind: "Deployment"}

// MayStay returns whether an object may stay without the annotations of apply: a managed Deployment that has none of them. A policy that
// leaves drift as it is needs LastAppliedAnnotation: without it a field that others changed cannot be distinguished from one that is newly desired.
func MayStay(self ownership.ControlPlane, drift string, live *unstructured.Unstructured) bool {
	if live.GroupVersionKind().GroupKind() != annotationsCount || !ssa.IsManaged(live) || self.ID == "" || drift != "" && drift != policyv1alpha1.DriftRepair {
		return false
	}
	for key := range live.GetAnnotations() {
		if ssa.IsMark("/metadata/annotations/"+key) && key != workv1alpha1.WorkNamespaceAnnotation && key != workv1alpha1.WorkNameAnnotation {
			return false
		}
	}
	return true
}

// originDomains are those of annotations that name the template, binding or policy that an object was made from, or the keys that it has
// from there. Apply reads none of them in a member. The names of the Work are not among them: they decide what is deleted.
var originDomains = []string{
	"resourcetemplate.karmada.io", "resourcebinding.karmada.io", "clusterresourcebinding.karmada.io",
	"propagationpolicy.karmada.io", "clusterpropagationpolicy.karmada.io",
}

func namesOrigin(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return workv1alpha1.IsOwnershipKey(key) && slices.Contains(originDomains, domain)
}

// Body is what to apply to exactly this version of an object: desired with the annotations that name the origin of live, and without others
// of that kind.
func Body(desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	body := keepOrigin(desired, live)
	body.SetUID(live.GetUID())
	body.SetResourceVersion(live.GetResourceVersion()) // the generation is that of this version
	return body
}

func keepOrigin(desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	annotations := map[string]string{}
	for _, from := range []struct {
		annotations map[string]string
		origin      bool
	}{{desired.GetAnnotations(), false}, {live.GetAnnotations(), true}} {
		for key, value := range from.annotations {
			if namesOrigin(key) == from.origin {
				annotations[key] = value
			}
		}
	}
	kept := desired.DeepCopy()
	if kept.SetAnnotations(annotations); len(annotations) == 0 {
		kept.SetAnnotations(nil) // which removes the field
	}
	return kept
}

// Compare is ssa.Compare for an object without LastAppliedAnnotation. It counts as applied if we own the fields of desired and no other ones. Recorded
// is whether this process applied the same as desired: then a difference is drift, and else it may be a change of the desired object.
func Compare(self ownership.ControlPlane, desired, live *unstructured.Unstructured, recorded bool) ssa.Difference {
	var d ssa.Difference
	desired = keepOrigin(desired, live)
	d.Altered, d.Unexplained = ssa.Alterations(self, desired, live)
	d.Drifted = slices.Sorted(maps.Keys(ssa.Unowned(self, desired, live)))
	fields := self.OurFields(live)
	d.Stale = fields == nil || !recorded && (len(d.Drifted) > 0 || d.Unexplained > 0 || hasSurplus(desired.Object, fields))
	return d
}

// KeepsGeneration returns whether an apply of a body leaves the generation of live as it is, by a dry run. An error means that live is not
// what the member has any more. A body that is refused does not: the usual apply has the error, too.
func KeepsGeneration(ctx context.Context, objects dynamic.ResourceInterface, self ownership.ControlPlane, body, live *unstructured.Unstructured) (bool, error) {
	raw, err := ssa.Encode(body)
	if err != nil {
		return false, err
	}
	preview, err := objects.Patch(ctx, body.GetName(), types.ApplyPatchType, raw, metav1.PatchOptions{
		FieldManager: self.Manager(), Force: new(true), DryRun: []string{metav1.DryRunAll},
	})
	if apierrors.IsConflict(err) {
		return false, fmt.Errorf("applying %s: %w", ssa.IdentityOf(body), err)
	}
	return err == nil && preview.GetGeneration() == live.GetGeneration(), nil
}
