package questions

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

// May returns whether the author of a question may get an object.
type May = func(explain.Right) bool

// Answers answer the questions of an author, who may get what may returns. They are functions since what they read is built after the
// server. Nil answers none of a kind.
type Answers struct {
	Explain  func(ctx context.Context, spec fleetv1alpha1.ExplanationSpec, author user.Info, may May) (fleetv1alpha1.ExplanationStatus, error)
	Drift    func(ctx context.Context, spec fleetv1alpha1.DriftReportSpec, author user.Info, may May) (fleetv1alpha1.DriftReportStatus, error)
	Preview  func(ctx context.Context, spec fleetv1alpha1.PreviewSpec, author user.Info, may May) (fleetv1alpha1.PreviewStatus, error)
	History  func(ctx context.Context, spec fleetv1alpha1.HistorySpec, may May) (fleetv1alpha1.HistoryStatus, error)
	Undelete func(ctx context.Context, spec fleetv1alpha1.UndeletionSpec, may May) (fleetv1alpha1.UndeletionStatus, error)
	Timeline func(ctx context.Context, spec fleetv1alpha1.TimelineSpec, may May) (fleetv1alpha1.TimelineStatus, error)
}

// kind is one kind that is answered.
type kind struct {
	kind, plural, singular string
	empty                  func() runtime.Object
	// each is how many a tenant may ask at a time, and all how many are answered; zero for the numbers of most.
	each, all int
	// answer returns the object with its answer; the object itself is not changed. Nil if this server answers none.
	answer func(ctx context.Context, question runtime.Object, author user.Info, may May) (runtime.Object, error)
}

// question is an object that is answered.
type question interface {
	runtime.Object
	metav1.Object
}

// answered has the objects of a kind answered, each in a copy, unless this server answers none.
func answered[T question](k kind, answers bool, answer func(ctx context.Context, q T, author user.Info, may May) error) kind {
	if k.all == 0 {
		k.each, k.all = bounds.QuestionsOfEach, bounds.QuestionsOfAll
	}
	if !answers {
		return k
	}
	k.answer = func(ctx context.Context, asked runtime.Object, author user.Info, may May) (runtime.Object, error) {
		q := asked.DeepCopyObject().(T)
		q.SetManagedFields(nil) // they are of stored objects
		return q, answer(ctx, q, author, may)
	}
	return k
}

// kinds are those that are served.
func (a Answers) kinds() []kind {
	return []kind{
		answered(kind{
			kind: fleetv1alpha1.KindExplanation, plural: fleetv1alpha1.ResourcePluralExplanation, singular: "explanation",
			empty: func() runtime.Object { return &fleetv1alpha1.Explanation{} },
		}, a.Explain != nil, func(ctx context.Context, q *fleetv1alpha1.Explanation, author user.Info, may May) (err error) {
			q.Status, err = a.Explain(ctx, q.Spec, author, may)
			return err
		}),
		answered(kind{
			kind: fleetv1alpha1.KindDriftReport, plural: fleetv1alpha1.ResourcePluralDriftReport, singular: "driftreport",
			empty: func() runtime.Object { return &fleetv1alpha1.DriftReport{} },
		}, a.Drift != nil, func(ctx context.Context, q *fleetv1alpha1.DriftReport, author user.Info, may May) (err error) {
			q.Status, err = a.Drift(ctx, q.Spec, author, may)
			return err
		}),
		answered(kind{
			kind: fleetv1alpha1.KindPreview, plural: fleetv1alpha1.ResourcePluralPreview, singular: "preview",
			empty: func() runtime.Object { return &fleetv1alpha1.Preview{} }, each: bounds.PreviewsOfEach, all: bounds.PreviewsOfAll,
		}, a.Preview != nil, func(ctx context.Context, q *fleetv1alpha1.Preview, author user.Info, may May) (err error) {
			q.Status, err = a.Preview(ctx, q.Spec, author, may)
			q.Spec.Apply = nil // there may be Secrets among them, and answers are logged
			return err
		}),
		answered(kind{
			kind: fleetv1alpha1.KindHistory, plural: fleetv1alpha1.ResourcePluralHistory, singular: "history",
			empty: func() runtime.Object { return &fleetv1alpha1.History{} },
		}, a.History != nil, func(ctx context.Context, q *fleetv1alpha1.History, _ user.Info, may May) (err error) {
			q.Status, err = a.History(ctx, q.Spec, may)
			return err
		}),
		answered(kind{
			kind: fleetv1alpha1.KindUndeletion, plural: fleetv1alpha1.ResourcePluralUndeletion, singular: "undeletion",
			empty: func() runtime.Object { return &fleetv1alpha1.Undeletion{} },
		}, a.Undelete != nil, func(ctx context.Context, q *fleetv1alpha1.Undeletion, _ user.Info, may May) (err error) {
			q.Status, err = a.Undelete(ctx, q.Spec, may)
			return err
		}),
		answered(kind{
			kind: fleetv1alpha1.KindTimeline, plural: fleetv1alpha1.ResourcePluralTimeline, singular: "timeline",
			empty: func() runtime.Object { return &fleetv1alpha1.Timeline{} },
		}, a.Timeline != nil, func(ctx context.Context, q *fleetv1alpha1.Timeline, _ user.Info, may May) (err error) {
			q.Status, err = a.Timeline(ctx, q.Spec, may)
			return err
		}),
	}
}
