package drifted

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// maxFields is how many fields of an object are compared for the episodes, which keep some and count the others.
const maxFields = 256

func isSecret(obj *unstructured.Unstructured) bool {
	return obj.GetKind() == "Secret" && obj.GetAPIVersion() == "v1"
}

// fieldsOf returns the fields at paths, with who changed them in the member by its metadata. Without an answer the managers are not known,
// which is no reason to leave the fields: the cache has no owners but ourselves.
func fieldsOf(ctx context.Context, self ownership.ControlPlane, member metadata.ResourceInterface, wanted, live *unstructured.Unstructured, paths []string) []fleetv1alpha1.DriftedField {
	paths = paths[:min(len(paths), maxFields)]
	var changes map[string]ssa.Change
	if head, err := member.Get(ctx, live.GetName(), metav1.GetOptions{}); err == nil {
		changes = ssa.ChangedBy(self, wanted, head.ManagedFields, paths)
	}
	desired, has, secret := ValuesAt(wanted, paths), ValuesAt(live, paths), isSecret(wanted)
	fields := make([]fleetv1alpha1.DriftedField, 0, len(paths))
	for _, path := range paths {
		value, want := desired[path]
		found, exists := has[path]
		fields = append(fields, drift.Bounded(fleetv1alpha1.DriftedField{
			Path: path, Wanted: drift.Text(value, want, secret), Found: drift.Text(found, exists, secret),
			Manager: changes[path].Manager, Time: changes[path].Time,
		}))
	}
	return fields
}

// areKnown returns whether fields are those at paths, with the values that they have and an outcome.
func areKnown(fields []fleetv1alpha1.DriftedField, wanted, live *unstructured.Unstructured, paths []string, outcome fleetv1alpha1.DriftOutcome) bool {
	if len(fields) != min(len(paths), drift.MaxFields) {
		return false
	}
	desired, has, secret := ValuesAt(wanted, paths), ValuesAt(live, paths), isSecret(wanted)
	for i, field := range fields {
		value, want := desired[paths[i]]
		found, exists := has[paths[i]]
		if field.Outcome != outcome || drift.Bounded(fleetv1alpha1.DriftedField{Path: paths[i]}).Path != field.Path ||
			field.Wanted != drift.Text(value, want, secret) || field.Found != drift.Text(found, exists, secret) {
			return false
		}
	}
	return true
}

// Left returns fields that are left to other managers. Wanted has the fields still.
func Left(conflicts []ssa.Conflict, wanted, live *unstructured.Unstructured) []fleetv1alpha1.DriftedField {
	secret := isSecret(wanted)
	fields := make([]fleetv1alpha1.DriftedField, 0, len(conflicts))
	for _, c := range conflicts {
		at, want := ssa.Locate(ssa.Spot{Value: wanted.Object}, c.Field)
		path := at.Path()
		if !want {
			path = c.Field
		}
		there, exists := ssa.Locate(ssa.Spot{Value: live.Object}, c.Field)
		fields = append(fields, drift.Bounded(fleetv1alpha1.DriftedField{
			Path: path, Wanted: drift.Text(at.Value, want, secret), Found: drift.Text(there.Value, exists, secret),
			Manager: c.Manager, Outcome: fleetv1alpha1.DriftLeft,
		}))
	}
	return fields
}
