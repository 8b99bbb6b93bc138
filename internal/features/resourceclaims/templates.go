package resourceclaims

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// Templates is the store for aggregate, which writes the status of templates. A claim's allocation can be set and removed, but not
// changed.
type Templates struct{ *hubstore.Store }

// UpdateStatus is that of the store. A claim whose new status cannot follow its old one directly goes through the state
// between any two: not allocated and not reserved.
func (t Templates) UpdateStatus(ctx context.Context, before, after *unstructured.Unstructured) (bool, error) {
	if !needsPause(before, after) {
		return t.Store.UpdateStatus(ctx, before, after)
	}
	between := &unstructured.Unstructured{Object: maps.Clone(before.Object)}
	delete(between.Object, "status")
	if wrote, err := t.Store.UpdateStatus(ctx, before, between); err != nil {
		return wrote, err
	}
	return t.Store.UpdateStatus(ctx, between, after)
}

// needsPause returns whether an API server would take the second status after none, but not after the first.
func needsPause(before, after *unstructured.Unstructured) bool {
	if before.GroupVersionKind() == todaysKind() {
		had, _, _ := unstructured.NestedMap(before.Object, "status", "allocation")
		has, _, _ := unstructured.NestedMap(after.Object, "status", "allocation")
		return had != nil && has != nil && !equality.Semantic.DeepEqual(had, has)
	}
	if before.GroupVersionKind() != claimKind() || before.Object["status"] == nil {
		return false
	}
	var old, wanted resourcev1alpha2.ResourceClaim
	if decode(before, &old) != nil || decode(after, &wanted) != nil {
		return false
	}
	return len(statusFaults(wanted.Status, old.Status)) > 0 &&
		len(statusFaults(wanted.Status, resourcev1alpha2.ResourceClaimStatus{})) == 0
}
