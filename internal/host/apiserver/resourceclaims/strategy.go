package resourceclaims

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// rules are what differs between the kinds and endpoints in how objects are written. T is the pointer type of the
// kind. A rule that is nil has nothing to do.
type rules[T runtime.Object] struct {
	clusterWide bool
	// resets are fields that a write to this endpoint leaves as they are stored.
	resets         []string
	prepareCreate  func(object T)
	prepareUpdate  func(object, old T)
	validate       func(object T) field.ErrorList
	validateUpdate func(object, old T) field.ErrorList
}

// strategy has the rules in the form that upstream's registry requires.
type strategy[T runtime.Object] struct {
	runtime.ObjectTyper
	names.NameGenerator
	rules rules[T]
}

var _ rest.CreateUpdateResetFieldsStrategy = strategy[*v1alpha2.ResourceClaim]{}

// NamespaceScoped returns whether the kind is namespaced.
func (s strategy[T]) NamespaceScoped() bool { return !s.rules.clusterWide }

// AllowCreateOnUpdate is false: a PUT to a name that is not there is a mistake.
func (strategy[T]) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is true: a PUT without resourceVersion overwrites.
func (strategy[T]) AllowUnconditionalUpdate(context.Context) bool { return true }

// GetResetFields returns the fields that field ownership ignores.
func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	if len(s.rules.resets) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, name := range s.rules.resets {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(v1alpha2.GroupVersion.String()): set}
}

// PrepareForCreate drops what a new object may not bring along.
func (s strategy[T]) PrepareForCreate(_ context.Context, object runtime.Object) {
	if s.rules.prepareCreate != nil {
		s.rules.prepareCreate(object.(T))
	}
}

// PrepareForUpdate keeps what this endpoint does not write.
func (s strategy[T]) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if s.rules.prepareUpdate != nil {
		s.rules.prepareUpdate(object.(T), old.(T))
	}
}

// Canonicalize has nothing to do that decoding has not done.
func (strategy[T]) Canonicalize(runtime.Object) {}

// Validate checks a new object.
func (s strategy[T]) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	return s.rules.validate(object.(T))
}

// ValidateUpdate checks a changed object.
func (s strategy[T]) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return s.rules.validateUpdate(object.(T), old.(T))
}

// WarningsOnCreate warns of nothing.
func (strategy[T]) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

// WarningsOnUpdate warns of nothing.
func (strategy[T]) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

func claimRules() rules[*v1alpha2.ResourceClaim] {
	return rules[*v1alpha2.ResourceClaim]{
		resets:         []string{"status"},
		prepareCreate:  func(claim *v1alpha2.ResourceClaim) { claim.Status = v1alpha2.ResourceClaimStatus{} },
		prepareUpdate:  func(claim, old *v1alpha2.ResourceClaim) { claim.Status = old.Status },
		validate:       v1alpha2.ValidateClaim,
		validateUpdate: v1alpha2.ValidateClaimUpdate,
	}
}

// claimStatusRules reset only spec, as far as field ownership is concerned: that is what clients of this version
// have always seen.
func claimStatusRules() rules[*v1alpha2.ResourceClaim] {
	return rules[*v1alpha2.ResourceClaim]{
		resets: []string{"spec"},
		prepareUpdate: func(claim, old *v1alpha2.ResourceClaim) {
			claim.Spec = old.Spec
			metav1.ResetObjectMetaForStatus(&claim.ObjectMeta, &old.ObjectMeta)
		},
		validateUpdate: v1alpha2.ValidateClaimStatusUpdate,
	}
}

func classRules() rules[*v1alpha2.ResourceClass] {
	return rules[*v1alpha2.ResourceClass]{
		clusterWide:    true,
		validate:       v1alpha2.ValidateClass,
		validateUpdate: v1alpha2.ValidateClassUpdate,
	}
}

func templateRules() rules[*v1alpha2.ResourceClaimTemplate] {
	return rules[*v1alpha2.ResourceClaimTemplate]{
		validate:       v1alpha2.ValidateTemplate,
		validateUpdate: v1alpha2.ValidateTemplateUpdate,
	}
}

func schedulingRules() rules[*v1alpha2.PodSchedulingContext] {
	return rules[*v1alpha2.PodSchedulingContext]{
		resets: []string{"status"},
		prepareCreate: func(scheduling *v1alpha2.PodSchedulingContext) {
			scheduling.Status = v1alpha2.PodSchedulingContextStatus{}
		},
		prepareUpdate:  func(scheduling, old *v1alpha2.PodSchedulingContext) { scheduling.Status = old.Status },
		validate:       v1alpha2.ValidateSchedulingContext,
		validateUpdate: v1alpha2.ValidateSchedulingContextUpdate,
	}
}

func schedulingStatusRules() rules[*v1alpha2.PodSchedulingContext] {
	return rules[*v1alpha2.PodSchedulingContext]{
		resets: []string{"spec"},
		prepareUpdate: func(scheduling, old *v1alpha2.PodSchedulingContext) {
			scheduling.Spec = old.Spec
			metav1.ResetObjectMetaForStatus(&scheduling.ObjectMeta, &old.ObjectMeta)
		},
		validateUpdate: v1alpha2.ValidateSchedulingContextStatusUpdate,
	}
}
