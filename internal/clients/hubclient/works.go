package hubclient

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// ListWorks lists Works, which are shared with the cache.
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

// GetWork reads a Work, which is shared with the cache; nil if there is none.
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

// HasWork returns what returns whether there is a Work, by a cache. If that cannot be read, there is.
func HasWork(ctx context.Context, reader client.Reader) func(types.NamespacedName) bool {
	return func(key types.NamespacedName) bool {
		work, err := GetWork(ctx, reader, key)
		return work != nil || err != nil
	}
}

// WithdrawRemoval has the objects of a Work stay whose removal waits; a new Work can take the name when this one is gone. Of other Works it
// changes nothing.
func WithdrawRemoval(ctx context.Context, c client.Client, work *workv1alpha1.Work, opts ...client.PatchOption) error {
	if !workv1alpha1.MayWithdraw(work) || workv1alpha1.IsWithdrawn(work) {
		return nil
	}
	before, withdrawn := work.DeepCopy(), work.DeepCopy()
	before.UID = "" // so that the patch has it, and changes no later Work of the name
	withdrawn.AddAnnotations(map[string]string{workv1alpha1.RemovalWithdrawnAnnotation: "true"})
	_, err := Patch(ctx, c, before, withdrawn, opts...)
	return client.IgnoreNotFound(err)
}

// DeleteWorks deletes those Works that are not being deleted yet.
func DeleteWorks(ctx context.Context, c client.Client, works ...*workv1alpha1.Work) error {
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
