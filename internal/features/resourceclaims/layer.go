package resourceclaims

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Layer interprets claims, for a chain of interpreters.
type Layer struct {
	kinds map[schema.GroupVersionKind]*interpret.Operations
}

var _ interpret.Layer = (*Layer)(nil)

// NewLayer returns the layer.
func NewLayer() *Layer {
	l := &Layer{kinds: map[schema.GroupVersionKind]*interpret.Operations{
		claimKind(): {Health: healthOfClaim, Aggregate: Sum},
	}}
	for _, kind := range alternatives(claimKind()) {
		l.kinds[kind] = &interpret.Operations{Reflect: reflectClaim}
	}
	l.kinds[todaysKind()].Aggregate = SumToday
	return l
}

// Lookup implements [interpret.Layer].
func (l *Layer) Lookup(kind schema.GroupVersionKind) *interpret.Operations { return l.kinds[kind] }

func claimKind() schema.GroupVersionKind {
	return resourcev1alpha2.GroupVersion.WithKind(resourcev1alpha2.KindResourceClaim)
}

// LosesStatus implements conversion.Adviser: a claim without copies is not allocated.
func (Adviser) LosesStatus(kind schema.GroupVersionKind) bool {
	return kind == claimKind() || kind == todaysKind()
}

// healthOfClaim: a claim that waits for its first consumer is healthy; an immediate one waits for its driver.
func healthOfClaim(_ context.Context, obj *unstructured.Unstructured) (workv1alpha2.ResourceHealth, error) {
	var claim resourcev1alpha2.ResourceClaim
	if err := decode(obj, &claim); err != nil {
		return workv1alpha2.ResourceUnknown, err
	}
	if claim.Spec.AllocationMode == resourcev1alpha2.AllocationModeImmediate && claim.Status.Allocation == nil {
		return workv1alpha2.ResourceUnhealthy, nil
	}
	return workv1alpha2.ResourceHealthy, nil
}
