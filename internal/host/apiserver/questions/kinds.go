package questions

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

// May returns whether the author of a question may get an object.
type May = func(explain.Right) bool

// Answers answer the questions of an author, who may get what may returns. They are functions since what they read is built after the
// server. Nil answers none of a kind.
type Answers struct {
	Explain  func(ctx context.Context, spec fleetv1alpha1.ExplanationSpec, author user.Info, may May) (fleetv1alpha1.ExplanationStatus, error)
	History  func(ctx context.Context, spec fleetv1alpha1.HistorySpec, may May) (fleetv1alpha1.HistoryStatus, error)
	Undelete func(ctx context.Context, spec fleetv1alpha1.UndeletionSpec, may May) (fleetv1alpha1.UndeletionStatus, error)
	Timeline func(ctx context.Context, spec fleetv1alpha1.TimelineSpec, may May) (fleetv1alpha1.TimelineStatus, error)
}

// kind is one kind that is answered.
type kind struct {
	kind, plural, singular string
	empty                  func() runtime.Object
	// answer returns the object with its answer; the object itself is not changed. Nil if this server answers none.
	answer func(ctx context.Context, question runtime.Object, author user.Info, may May) (runtime.Object, error)
}

// kinds are those that are served.
func (a Answers) kinds() []kind {
	explanation := kind{
		kind: fleetv1alpha1.KindExplanation, plural: fleetv1alpha1.ResourcePluralExplanation, singular: "explanation",
		empty: func() runtime.Object { return &fleetv1alpha1.Explanation{} },
	}
	if a.Explain != nil {
		explanation.answer = func(ctx context.Context, question runtime.Object, author user.Info, may May) (runtime.Object, error) {
			answered := question.DeepCopyObject().(*fleetv1alpha1.Explanation)
			answered.ManagedFields = nil // they are of stored objects
			var err error
			answered.Status, err = a.Explain(ctx, answered.Spec, author, may)
			return answered, err
		}
	}
	history := kind{
		kind: fleetv1alpha1.KindHistory, plural: fleetv1alpha1.ResourcePluralHistory, singular: "history",
		empty: func() runtime.Object { return &fleetv1alpha1.History{} },
	}
	if a.History != nil {
		history.answer = func(ctx context.Context, question runtime.Object, _ user.Info, may May) (runtime.Object, error) {
			answered := question.DeepCopyObject().(*fleetv1alpha1.History)
			answered.ManagedFields = nil
			var err error
			answered.Status, err = a.History(ctx, answered.Spec, may)
			return answered, err
		}
	}
	undeletion := kind{
		kind: fleetv1alpha1.KindUndeletion, plural: fleetv1alpha1.ResourcePluralUndeletion, singular: "undeletion",
		empty: func() runtime.Object { return &fleetv1alpha1.Undeletion{} },
	}
	if a.Undelete != nil {
		undeletion.answer = func(ctx context.Context, question runtime.Object, _ user.Info, may May) (runtime.Object, error) {
			answered := question.DeepCopyObject().(*fleetv1alpha1.Undeletion)
			answered.ManagedFields = nil
			var err error
			answered.Status, err = a.Undelete(ctx, answered.Spec, may)
			return answered, err
		}
	}
	timeline := kind{
		kind: fleetv1alpha1.KindTimeline, plural: fleetv1alpha1.ResourcePluralTimeline, singular: "timeline",
		empty: func() runtime.Object { return &fleetv1alpha1.Timeline{} },
	}
	if a.Timeline != nil {
		timeline.answer = func(ctx context.Context, question runtime.Object, _ user.Info, may May) (runtime.Object, error) {
			answered := question.DeepCopyObject().(*fleetv1alpha1.Timeline)
			answered.ManagedFields = nil
			var err error
			answered.Status, err = a.Timeline(ctx, answered.Spec, may)
			return answered, err
		}
	}
	return []kind{explanation, history, undeletion, timeline}
}
