package endpointslices

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/expectations"
)

func AppliedResult(w *workv1alpha1.Work) string {
	if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); c != nil {
		return string(c.Status) + c.Message
	}
	return ""
}

// IsApplied says that a member has a Work as it is now.
func IsApplied(w *workv1alpha1.Work) bool {
	c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
	return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == w.Generation
}

// AddExecutionFinalizer makes a Work one that has to be taken back from its cluster before it may go.
func AddExecutionFinalizer(work *workv1alpha1.Work) {
	if !slices.Contains(work.Finalizers, workv1alpha1.ExecutionFinalizer) {
		work.Finalizers = append(work.Finalizers, workv1alpha1.ExecutionFinalizer)
	}
}

// RetryDelay is when to look again after something was not ready that makes no event when it is.
const RetryDelay = 300 * time.Millisecond

// ErrNoExecutionNamespace means that a cluster is too new to have Works.
var ErrNoExecutionNamespace = errors.New("the execution namespace does not exist yet")

// sliceNameAnnotation has the name of a slice that is too long for the label.
const sliceNameAnnotation = networkingv1alpha1.EndpointSliceWorkNameLabel

// WorkFor is an existing Work to be changed, or a new one.
func WorkFor(existing *workv1alpha1.Work, namespace, name string) *workv1alpha1.Work {
	if existing != nil {
		return existing.DeepCopy()
	}
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// SetManifest makes raw the one manifest, unless the Work has it in other words. Records are suspended, others are not, whatever
// somebody else made of it.
func SetManifest(work *workv1alpha1.Work, raw []byte, record bool) {
	work.Spec.PreserveResourcesOnDeletion = nil
	switch suspended := work.Spec.SuspendDispatching != nil && *work.Spec.SuspendDispatching; {
	case record && !suspended:
		work.Spec.SuspendDispatching = new(true)
	case !record && suspended:
		work.Spec.SuspendDispatching = nil
	}
	manifest := workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}}
	if present := work.Spec.Workload.Manifests; len(present) == 1 && workv1alpha1.SameRaw(&present[0].RawExtension, &manifest.RawExtension) {
		return
	}
	work.Spec.Workload.Manifests = []workv1alpha1.Manifest{manifest}
}

// Changed says whether more than the status changed.
func Changed(before, after *workv1alpha1.Work) bool {
	return before.Generation != after.Generation || before.UID != after.UID ||
		!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations)
}

// SetSlice says whose slice a Work has.
func SetSlice(work *workv1alpha1.Work, owner map[string]string, slice types.NamespacedName) {
	work.Labels = labels.Merge(labels.Merge(work.Labels, owner), map[string]string{
		networkingv1alpha1.EndpointSliceWorkNamespaceLabel: slice.Namespace,
		networkingv1alpha1.EndpointSliceWorkManagedByLabel: networkingv1alpha1.KindMultiClusterService,
	})
	if len(slice.Name) <= validation.LabelValueMaxLength {
		work.Labels[networkingv1alpha1.EndpointSliceWorkNameLabel] = slice.Name
	} else {
		work.Annotations = labels.Merge(work.Annotations, map[string]string{sliceNameAnnotation: slice.Name})
	}
}

// SliceOf is the provider's slice that a Work is about.
func SliceOf(work metav1.Object) types.NamespacedName {
	name := work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNameLabel]
	if name == "" {
		name = work.GetAnnotations()[sliceNameAnnotation]
	}
	return types.NamespacedName{Namespace: work.GetLabels()[networkingv1alpha1.EndpointSliceWorkNamespaceLabel], Name: name}
}

func ListWorks(ctx context.Context, reader client.Reader, options ...client.ListOption) ([]*workv1alpha1.Work, error) {
	var list workv1alpha1.WorkList
	if err := reader.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing Works: %w", err)
	}
	works := make([]*workv1alpha1.Work, len(list.Items))
	for i := range list.Items {
		works[i] = &list.Items[i]
	}
	return works, nil
}

// GetWork reads a Work, nil if there is none. It is shared with the cache.
func GetWork(ctx context.Context, reader client.Reader, key types.NamespacedName) (*workv1alpha1.Work, error) {
	work := &workv1alpha1.Work{}
	err := reader.Get(ctx, key, work, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Work %s: %w", key, err)
	}
	return work, nil
}

// GetWorkOf is workNamed for a Work of a cluster.
func GetWorkOf(ctx context.Context, reader client.Reader, cluster, name string) (*workv1alpha1.Work, error) {
	return GetWork(ctx, reader, types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: name})
}

// ErrChangedMeanwhile means that somebody else changed a Work while it was written: it has to be looked at again.
var ErrChangedMeanwhile = errors.New("somebody else changed the Work meanwhile")

// OwnWrites are the Works that one loop wrote and whose events its informer has not shown yet.
type OwnWrites = expectations.Writes[*workv1alpha1.Work]

// WriteOwn is write, with the event of the write expected. It returns whether there was anything to write.
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

// Write creates a Work or sends what differs from existing. A Work that is going has to be gone first; its end is an
// event.
func Write(ctx context.Context, c client.Client, existing, desired *workv1alpha1.Work) error {
	key := client.ObjectKeyFromObject(desired)
	if existing == nil {
		err := c.Create(ctx, desired)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err): // the cache is a moment behind; its event follows
			return nil
		case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, "NamespaceTerminating"):
			return ErrNoExecutionNamespace
		}
		return fmt.Errorf("creating Work %s: %w", key, err)
	}
	if existing.DeletionTimestamp != nil {
		return nil
	}
	if _, err := hubclient.Patch(ctx, c, existing, desired); client.IgnoreNotFound(err) != nil {
		return err
	}
	return nil
}

func DeleteAll(ctx context.Context, c client.Client, works []*workv1alpha1.Work) error {
	var failures []error
	for _, w := range works {
		if w.DeletionTimestamp != nil {
			continue
		}
		err := c.Delete(ctx, w.DeepCopy(), client.Preconditions{UID: new(w.UID)})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			failures = append(failures, fmt.Errorf("deleting Work %s/%s: %w", w.Namespace, w.Name, err))
		}
	}
	return errors.Join(failures...)
}
