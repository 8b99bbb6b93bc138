package service

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/expectations"
)

// Indexes in the cache.
const (
	// ownerIndex finds the Works of a MultiClusterService.
	ownerIndex = "service.owner"
	// sourceIndex finds the Works made from a record.
	sourceIndex = "service.source"
)

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	for name, extract := range map[string]client.IndexerFunc{
		ownerIndex: func(obj client.Object) []string {
			if owner := ownerOf(obj); owner.Name != "" {
				return []string{owner.String()}
			}
			return nil
		},
		sourceIndex: func(obj client.Object) []string {
			if isDispatched(obj) {
				return []string{sourceOf(obj).String()}
			}
			return nil
		},
	} {
		if err := indexer.IndexField(ctx, &workv1alpha1.Work{}, name, extract); err != nil {
			return fmt.Errorf("adding the index %s: %w", name, err)
		}
	}
	return nil
}

// worksOf lists everything this room made for a MultiClusterService. The Works are shared with the cache.
func worksOf(ctx context.Context, reader client.Reader, owner types.NamespacedName) ([]*workv1alpha1.Work, error) {
	return listWorks(ctx, reader, client.MatchingFields{ownerIndex: owner.String()})
}

func listWorks(ctx context.Context, reader client.Reader, options ...client.ListOption) ([]*workv1alpha1.Work, error) {
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

// workNamed reads a Work, nil if there is none. It is shared with the cache.
func workNamed(ctx context.Context, reader client.Reader, key types.NamespacedName) (*workv1alpha1.Work, error) {
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

// workIn is workNamed for a Work of a cluster.
func workIn(ctx context.Context, reader client.Reader, cluster, name string) (*workv1alpha1.Work, error) {
	return workNamed(ctx, reader, types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: name})
}

// errOvertaken means that somebody else changed a Work while it was written: it has to be looked at again.
var errOvertaken = errors.New("somebody else changed the Work meanwhile")

// ownWrites are the Works that one loop wrote and whose events its informer has not shown yet.
type ownWrites = expectations.Writes[*workv1alpha1.Work]

// recorded is write, with the event of the write expected. It returns whether there was anything to write.
func recorded(ctx context.Context, c client.Client, own *ownWrites, existing, desired *workv1alpha1.Work) (bool, error) {
	if existing != nil && (existing.DeletionTimestamp != nil || equality.Semantic.DeepEqual(existing, desired)) {
		return false, nil
	}
	key := client.ObjectKeyFromObject(desired)
	own.Begin(key)
	err := write(ctx, c, existing, desired)
	var written *workv1alpha1.Work
	if err == nil && desired.ResourceVersion != "" && (existing == nil || desired.ResourceVersion != existing.ResourceVersion) {
		written = desired
	}
	if own.Done(key, written) && err == nil {
		err = errOvertaken
	}
	return written != nil, err
}

// write creates a Work or sends what differs from existing. A Work that is going has to be gone first; its end is an
// event.
func write(ctx context.Context, c client.Client, existing, desired *workv1alpha1.Work) error {
	key := client.ObjectKeyFromObject(desired)
	if existing == nil {
		err := c.Create(ctx, desired)
		switch {
		case err == nil, apierrors.IsAlreadyExists(err): // the cache is a moment behind; its event follows
			return nil
		case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, "NamespaceTerminating"):
			return errNoExecutionSpace
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

func deleteAll(ctx context.Context, c client.Client, works []*workv1alpha1.Work) error {
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
