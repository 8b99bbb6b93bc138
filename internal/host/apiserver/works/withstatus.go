package works

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// withStatusStrategy governs writes of an object and its status in one. There is no request for it: such a write stores what a
// request to the main resource and one to the subresource schedule, both open to everybody with the right, would store one after
// the other. It has the admission of the first.
type withStatusStrategy struct{ specStrategy }

// GetResetFields returns none: such a write changes all fields.
func (s withStatusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resets()
}

// PrepareForCreate fills in what the schema defaults.
func (s withStatusStrategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	s.prepare(object)
}

// PrepareForUpdate counts changes of the spec.
func (s withStatusStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	s.countGeneration(object, old)
	s.keepStatus(object, old)
}

// Validate checks a new object.
func (s withStatusStrategy) Validate(ctx context.Context, object runtime.Object) field.ErrorList {
	return append(s.specStrategy.Validate(ctx, object), statusStrategy(s).ValidateUpdate(ctx, object, nil)...)
}

// ValidateUpdate checks what changed of an object, and its status.
func (s withStatusStrategy) ValidateUpdate(ctx context.Context, object, old runtime.Object) field.ErrorList {
	return append(s.specStrategy.ValidateUpdate(ctx, object, old), statusStrategy(s).ValidateUpdate(ctx, object, old)...)
}
