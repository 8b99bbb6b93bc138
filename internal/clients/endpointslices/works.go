package endpointslices

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/expectations"
)

// sliceNameAnnotation has the name of a slice that is too long for the label.
const sliceNameAnnotation = networkingv1alpha1.EndpointSliceWorkNameLabel

// WorkKey is the key of a Work of a cluster.
func WorkKey(cluster, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: name}
}

// SetManifest makes raw the only manifest of a Work. Records are suspended, other Works are not; what others changed of that is
// reverted.
func SetManifest(work *workv1alpha1.Work, raw []byte, record bool) {
	work.Spec.PreserveResourcesOnDeletion = nil
	suspended := work.Spec.SuspendDispatching != nil && *work.Spec.SuspendDispatching
	switch {
	case record && !suspended:
		work.Spec.SuspendDispatching = new(true)
	case !record && suspended:
		work.Spec.SuspendDispatching = nil
	}
	work.SetManifest(raw)
}

// SetSlice labels a Work with the slice that it has, the API kind that it belongs to, and the labels of its owner.
func SetSlice(work *workv1alpha1.Work, kind string, owner map[string]string, slice types.NamespacedName) {
	work.AddLabels(owner, map[string]string{
		networkingv1alpha1.EndpointSliceWorkNamespaceLabel: slice.Namespace,
		networkingv1alpha1.EndpointSliceWorkManagedByLabel: kind,
	})
	if len(slice.Name) <= validation.LabelValueMaxLength {
		work.Labels[networkingv1alpha1.EndpointSliceWorkNameLabel] = slice.Name
	} else {
		work.AddAnnotations(map[string]string{sliceNameAnnotation: slice.Name})
	}
}

// SliceOf returns which slice of its member a Work has.
func SliceOf(work metav1.Object) types.NamespacedName {
	name := work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNameLabel]
	if name == "" {
		name = work.GetAnnotations()[sliceNameAnnotation]
	}
	return types.NamespacedName{Namespace: work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNamespaceLabel], Name: name}
}

// Changed returns whether more than the status of a Work changed.
func Changed(before, after *workv1alpha1.Work) bool {
	return before.Generation != after.Generation || before.UID != after.UID ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations)
}

// AppliedResult returns status and message of the condition Applied; it is empty before the first attempt.
func AppliedResult(w *workv1alpha1.Work) string {
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); c != nil {
		return string(c.Status) + c.Message
	}
	return ""
}

// ErrChangedMeanwhile means that others changed a Work while it was written: its reconcile has to be repeated.
var ErrChangedMeanwhile = errors.New("the Work was changed by others meanwhile")

// OwnWrites are the Works that one loop wrote and whose events its informer has not shown yet.
type OwnWrites = expectations.Writes[*workv1alpha1.Work]

// WriteOwn is Write for a loop that ignores the events of its own writes. It returns whether anything was written.
func WriteOwn(ctx context.Context, c client.Client, own *OwnWrites, existing, desired *workv1alpha1.Work) (bool, error) {
	if existing != nil && (existing.DeletionTimestamp != nil || equality.Semantic.DeepEqual(existing, desired)) {
		return false, nil
	}
	key := client.ObjectKeyFromObject(desired)
	own.Begin(key)
	err := Write(ctx, c, existing, desired)
	var written *workv1alpha1.Work
	if err == nil && desired.ResourceVersion != "" && (existing == nil || desired.ResourceVersion != existing.ResourceVersion) {
		written = desired
	}
	if own.Done(key, written) && err == nil {
		err = ErrChangedMeanwhile
	}
	return written != nil, err
}

// Write creates a Work or sends what differs from the existing one. A Work that is being deleted has to be gone first; that it is gone
// is an event. So is the execution namespace of a new cluster, before which the cluster cannot have Works; see AddLoop. The error is a
// bounds.TooMuchError for a record of a cluster that has too many.
func Write(ctx context.Context, c client.Client, existing, desired *workv1alpha1.Work) error {
	switch {
	case existing == nil:
		err := c.Create(ctx, desired)
		if client.IgnoreNotFound(client.IgnoreAlreadyExists(err)) != nil && !apierrors.HasStatusCause(err, "NamespaceTerminating") {
			return fmt.Errorf("creating Work %s: %w", client.ObjectKeyFromObject(desired), bounds.OfRecord(err))
		}
		return nil
	case existing.DeletionTimestamp != nil:
		return nil
	}
	_, err := hubclient.Patch(ctx, c, existing, desired)
	return bounds.OfRecord(client.IgnoreNotFound(err))
}
