package render

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

// sideBySide is how many Works of one binding are written at once.
const sideBySide = 16

// errMissed means that others changed a Work while it was written: the binding has to be reconciled again.
var errMissed = errors.New("the Work was changed by others at the same moment")

// ensureAll brings the Works of all targets up to date. Each is on its own: one that fails does not hold the others.
func (r *Reconciler) ensureAll(ctx context.Context, requests []compose.Request) error {
	var group errgroup.Group
	var mu sync.Mutex
	var faults []error
	group.SetLimit(sideBySide)
	for _, q := range requests {
		group.Go(func() error {
			// A panic in a goroutine of a reconcile ends the process otherwise.
			if err := controlloop.CatchPanic(func() error { return r.ensure(ctx, q) }); err != nil {
				mu.Lock()
				faults = append(faults, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // The functions above return no error: all errors are collected, not only the first.
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	// What concerns no single cluster is the same for all of them.
	faults = slices.CompactFunc(faults, func(a, b error) bool { return a.Error() == b.Error() })
	return errors.Join(faults...)
}

// ensure brings the Work of one target up to date.
func (r *Reconciler) ensure(ctx context.Context, q compose.Request) error {
	key, existing, err := r.place(ctx, q)
	if err != nil {
		return err
	}
	cluster := &clusterv1alpha1.Cluster{}
	err = r.client.Get(ctx, client.ObjectKey{Name: q.Target.Name}, cluster, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		// The Cluster enqueues the binding when it is created; until then there is no namespace for a Work.
		return nil
	case err != nil:
		return fmt.Errorf("reading cluster %s: %w", q.Target.Name, err)
	case cluster.DeletionTimestamp != nil:
		return nil
	case existing != nil && !compose.Belongs(existing, q.Binding) && !compose.MayTake(existing):
		// Even if it is being deleted: its deletion does not enqueue this binding.
		return fmt.Errorf("the Work %s belongs to %q, not to this binding", key, workv1alpha2.BoundTo(existing))
	case existing != nil && existing.DeletionTimestamp != nil:
		// A new Work can take the name when this one is gone; its deletion enqueues the binding.
		return hubclient.WithdrawRemoval(ctx, r.client, existing, fieldManager)
	}
	q.Name, q.Existing, q.Cluster = key.Name, existing, cluster
	q.Target.Replicas = compose.KeptReplicas(q)
	desired, err := r.composer.Compose(ctx, q)
	if err != nil {
		return err
	}
	if desired.Annotations[workv1alpha1.AppliedOverridesAnnotation] != "" || desired.Annotations[workv1alpha1.AppliedClusterOverridesAnnotation] != "" {
		r.deps.Events.Publish(overridden(q.Binding, q.Target.Name))
	}
	if existing != nil && compose.Same(existing, desired) {
		return nil
	}
	if r.deps.MayStore != nil {
		if err := r.deps.MayStore(q.Binding.GetNamespace(), existing, desired); err != nil {
			return &compose.RefusedError{Reason: workv1alpha2.NamespaceLimitReason, Cause: err}
		}
	}
	if existing == nil {
		return r.write(key, func() (*workv1alpha1.Work, error) { return desired, r.client.Create(ctx, desired, fieldManager) })
	}
	wanted := desired.DeepCopy() // the answer takes its place
	err = r.write(key, func() (*workv1alpha1.Work, error) {
		patch := hubclient.Patch
		if !slices.Equal(existing.Finalizers, desired.Finalizers) { // it would replace the whole list, which must not have changed
			patch = hubclient.PatchLocked
		}
		_, err := patch(ctx, r.client, existing, desired, fieldManager)
		return desired, err
	})
	if err == nil && !compose.Same(desired, wanted) {
		return errMissed // the event of a change before the write, which is not in it, counts as known
	}
	return err
}

// place finds the Work of a target, or where to put it. Where the Work of another object has the name, as that of a
// ClusterRole a.b has that of a:b, there is an alternative; a Work that took it keeps it.
func (r *Reconciler) place(ctx context.Context, q compose.Request) (types.NamespacedName, *workv1alpha1.Work, error) {
	spec := q.Binding.BindingSpec()
	key := types.NamespacedName{Namespace: workv1alpha1.ExecutionNamespace(q.Target.Name), Name: compose.WorkName(spec)}
	existing, err := r.work(ctx, key)
	if err != nil || existing != nil && (compose.Belongs(existing, q.Binding) || compose.Carries(existing, spec)) {
		return key, existing, err
	}
	other := types.NamespacedName{Namespace: key.Namespace, Name: compose.AlternativeWorkName(spec)}
	alternative, err := r.work(ctx, other)
	if err != nil || existing != nil || alternative != nil && compose.Belongs(alternative, q.Binding) {
		return other, alternative, err
	}
	return key, nil, nil
}

// write makes one write to one Work and records it.
func (r *Reconciler) write(key types.NamespacedName, send func() (*workv1alpha1.Work, error)) error {
	r.writes.Begin(key)
	written, err := send()
	if err != nil {
		r.writes.Done(key, nil)
		if apierrors.IsNotFound(err) { // it was created and deleted between two lists of the watch
			r.writes.Forget(key)
		}
		err = fmt.Errorf("writing the Work %s: %w", key, err)
		if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
			return &compose.RefusedError{Cluster: clusterOf(key), Reason: workv1alpha2.WorkRefusedReason, Cause: err}
		}
		return err
	}
	if r.writes.Done(key, written) {
		return errMissed
	}
	return nil
}

// work reads a Work; nil if there is none.
func (r *Reconciler) work(ctx context.Context, key types.NamespacedName) (*workv1alpha1.Work, error) {
	cached := &workv1alpha1.Work{}
	err := r.client.Get(ctx, key, cached, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		cached, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Work %s: %w", key, err)
	}
	return r.writes.Latest(key, cached), nil
}

// worksOf lists the Works of a binding: those in the cache, and those that it does not show yet.
func (r *Reconciler) worksOf(ctx context.Context, binding string) ([]*workv1alpha1.Work, error) {
	works, err := hubclient.ListWorks(ctx, r.client, client.MatchingFields{workOwnerIndex: binding})
	if err != nil {
		return nil, err
	}
	known := make(map[types.NamespacedName]bool, len(works))
	for i, work := range works {
		key := client.ObjectKeyFromObject(work)
		known[key] = true
		works[i] = r.writes.Latest(key, work)
	}
	for _, work := range r.writes.Pending(func(w *workv1alpha1.Work) bool { return workv1alpha2.BoundTo(w) == binding }) {
		if !known[client.ObjectKeyFromObject(work)] {
			works = append(works, work)
		}
	}
	return works, nil
}

// deleteAll deletes Works that are not being deleted yet, and removes the reference to the binding from those with a namespace.
func (r *Reconciler) deleteAll(ctx context.Context, works []*workv1alpha1.Work) error {
	var faults []error
	for _, work := range works {
		key := client.ObjectKeyFromObject(work)
		leaves, err := r.inRemoval(ctx, work)
		if err == nil && !leaves {
			err = r.end(ctx, work)
		}
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			r.writes.Forget(key)
		case err != nil:
			faults = append(faults, fmt.Errorf("deleting the Work %s: %w", key, err))
		}
	}
	return errors.Join(faults...)
}

// inRemoval returns whether a Work is being deleted, or its cluster is. All Works of such a cluster are deleted with it, after
// it has been written to them what happens to their objects.
func (r *Reconciler) inRemoval(ctx context.Context, work *workv1alpha1.Work) (bool, error) {
	name, ok := workv1alpha1.ClusterOfExecutionNamespace(work.Namespace)
	if !ok || work.DeletionTimestamp != nil {
		return work.DeletionTimestamp != nil, nil
	}
	cluster := &clusterv1alpha1.Cluster{}
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, cluster, client.UnsafeDisableDeepCopy)
	return err == nil && cluster.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

// end deletes a Work, or removes the reference to the binding from one with a namespace. The uid protects a new Work of the same name.
func (r *Reconciler) end(ctx context.Context, work *workv1alpha1.Work) error {
	if !compose.CarriesNamespace(work) {
		return r.client.Delete(ctx, work.DeepCopy(), client.Preconditions{UID: &work.UID})
	}
	return r.mark(ctx, work, workv1alpha2.Unbind)
}

// mark changes labels and annotations of a Work, and not of a new one of the same name.
func (r *Reconciler) mark(ctx context.Context, work *workv1alpha1.Work, edit func(*workv1alpha1.Work)) error {
	before, after := work.DeepCopy(), work.DeepCopy()
	before.UID = "" // so that the patch has it
	edit(after)
	_, err := hubclient.Patch(ctx, r.client, before, after, fieldManager)
	return err
}

// markLastCopies writes on the Works that are about to be deleted that the template stays and goes to no cluster. A template that moves is not
// marked: its old copies stay until the new ones are healthy, or for as long as its policy says.
func (r *Reconciler) markLastCopies(ctx context.Context, p compose.Plan, orphans []*workv1alpha1.Work) error {
	if len(p.Targets) > 0 {
		return nil
	}
	var faults []error
	for _, work := range orphans {
		leaves, err := r.inRemoval(ctx, work)
		if err == nil && !leaves && !p.Purging[clusterOf(client.ObjectKeyFromObject(work))] && !compose.CarriesNamespace(work) {
			err = r.mark(ctx, work, func(w *workv1alpha1.Work) {
				w.AddAnnotations(map[string]string{workv1alpha1.LastCopyAnnotation: "true"})
			})
		}
		faults = append(faults, client.IgnoreNotFound(err))
	}
	return errors.Join(faults...)
}

// releaseBinding removes the finalizer of a binding.
func (r *Reconciler) releaseBinding(ctx context.Context, binding workv1alpha2.Binding) error {
	return hubclient.RemoveFinalizer(ctx, r.client, binding.(client.Object), binding.Finalizer(), fieldManager)
}
