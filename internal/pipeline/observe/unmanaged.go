package observe

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// unmanagedPause is how often objects are read that no watch shows.
const unmanagedPause = time.Minute

// reportedPause is how long what apply reports takes to be in the cache.
const reportedPause = time.Second

// readUnmanaged reads the objects of a Work that is only observed and that are not managed, and returns when to read them again, 0 for never.
// Apply has read them with the rights of the account that the Work is written with; without that, and of another control plane's objects,
// nothing is reported.
func (w *Works) readUnmanaged(ctx context.Context, conn *member.Conn, work *workv1alpha1.Work, objects []observed) time.Duration {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	switch {
	case work.Annotations[policyv1alpha1.DriftAnnotation] != policyv1alpha1.DriftObserveOnly:
		return 0
	case applied == nil || applied.ObservedGeneration != work.Generation:
		return reportedPause
	case applied.Status != metav1.ConditionTrue:
		return unmanagedPause
	}
	var again time.Duration
	for i := range objects {
		s := &objects[i]
		if s.object != nil || s.resource.Resource == "" {
			continue
		}
		again = unmanagedPause
		live, err := conn.Dynamic().Resource(s.resource).Namespace(s.id.Namespace).Get(ctx, s.id.Name, metav1.GetOptions{})
		if err == nil && conn.ControlPlane().Other(live) == "" {
			s.object = live // an error is reported by apply
		}
	}
	return again
}
