package objects

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// Terms are what becomes of an object that a Work does not list any more.
type Terms struct {
	// preserve: it stays, without our marks.
	Preserve bool
	// adopted: it is deleted even if it was there before us. Namespaces and definitions are not.
	adopted bool
	// Exclusive: the object and what depends on it must be gone before the Work is.
	Exclusive bool
}

// ConfirmPause is how long the watch may take to show a deletion before the member is read instead.
const ConfirmPause = 5 * time.Second

var (
	// errLeaving means that the deletion of an object is not complete.
	errLeaving = errors.New("it is being deleted, and its end is awaited")
	// errUnconfirmed means that the member has accepted a deletion, which alone does not prove that it happens.
	errUnconfirmed = errors.New("the cluster has accepted the deletion, which is not confirmed yet")
	// errStillThere means that the member has accepted a deletion several times, and has the object as before.
	errStillThere = errors.New("the cluster accepts the deletion, but still has the object")
)

// IsUnconfirmed returns whether an object was deleted, but is not known to be gone or on its way out yet.
func IsUnconfirmed(err error) bool { return errors.Is(err, errUnconfirmed) }

// termsOf are those of a Work. That what was taken over is deleted has to be set: preserveResourcesOnDeletion is false,
// not unset.
func TermsOf(work *workv1alpha1.Work) Terms {
	preserve := work.Spec.PreserveResourcesOnDeletion
	return Terms{
		Preserve: preserve != nil && *preserve, adopted: preserve != nil && !*preserve,
		Exclusive: work.Annotations[policyv1alpha1.HandoverAnnotation] == policyv1alpha1.HandoverExclusive,
	}
}

// Keep returns whether an object stays by the terms.
func (t Terms) Keep(live *unstructured.Unstructured) bool {
	return t.Preserve || ssa.IsAdopted(live) && (!t.adopted || keepsOnRemoval(live))
}

// remove deletes an object of a Work from a member, or, to preserve it, takes our marks off. An object that is not
// there, not ours, or another Work's is left as it is. The deletion is requested in the background: its end is not waited
// for, but until the watch or the member shows that it has begun, the error is one of IsUnconfirmed.
func (w *Writer) Remove(ctx context.Context, via Access, work types.NamespacedName, id ssa.Identity, terms Terms) error {
	t, err := w.targetToLeave(ctx, via, work, id)
	if err == nil {
		err = w.removeAt(ctx, t, id, terms)
	}
	if isUnserved(err) {
		// The member was upgraded: what is cached of it does not hold any more.
		via.Conn.Forget(id.Kind.GroupVersion())
		if t, err = w.targetToLeave(ctx, via, work, id); err == nil {
			err = w.removeAt(ctx, t, id, terms)
		}
	}
	if meta.IsNoMatchError(err) {
		return nil // where a kind is served in no version there are no objects of it
	}
	if err != nil && !IsBraked(err) {
		return fmt.Errorf("removing %s: %w", id, t.refused(err))
	}
	return err
}

// targetToLeave is where an object is that is to be removed, in whichever version the member serves its kind now.
func (w *Writer) targetToLeave(ctx context.Context, via Access, work types.NamespacedName, id ssa.Identity) (target, error) {
	named := &unstructured.Unstructured{}
	named.SetGroupVersionKind(id.Kind)
	named.SetNamespace(id.Namespace)
	named.SetName(id.Name)
	t, err := w.targetOf(ctx, via, work, named)
	if !meta.IsNoMatchError(err) {
		return t, err
	}
	present, err := via.Conn.AnyMapping(ctx, id.Kind.GroupKind())
	if err != nil {
		return target{}, err
	}
	named.SetGroupVersionKind(id.Kind.GroupKind().WithVersion(present.Resource.Version))
	return w.targetOf(ctx, via, work, named)
}

// isUnserved returns whether an error means that the resource is not served, not that one object does not exist.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// removeAt removes the object at a place.
func (w *Writer) removeAt(ctx context.Context, t target, id ssa.Identity, terms Terms) error {
	live, cached := t.Conn.Lookup(t.Resource, t.Object.Namespace, t.Object.Name)
	_, present := t.Conn.Head(t.Resource, t.Object.Namespace, t.Object.Name)
	if !present && t.Conn.HasSynced(t.Resource) {
		w.Results.Forget(t.Place)
		return nil // what we wrote is in the cache at once, and what is not managed is not ours
	}
	if cached && live.GetDeletionTimestamp() == nil {
		switch d := w.Results.Deletion(t.Place, live.GetUID()); {
		case d.Times == 0:
		case w.Clock.Since(d.Last) >= min(ConfirmPause<<min(d.Times-1, 4), backoff.Longest):
			live = nil // the watch may be behind
		case d.Times == 1 && terms.Exclusive:
			return Transient(errLeaving)
		case d.Times == 1:
			return Transient(errUnconfirmed)
		default:
			return errStillThere
		}
	}
	var err error
	for range rounds {
		if live == nil {
			if live, err = t.client.Get(ctx, t.Object.Name, metav1.GetOptions{}); err != nil {
				err = fmt.Errorf("reading %s: %w", id, err)
			}
		}
		if err == nil {
			err = w.part(ctx, t, live, terms)
		}
		switch {
		case IsBraked(err):
			return err
		case err == nil, apierrors.IsNotFound(err) && !isUnserved(err):
			w.Results.Forget(t.Place)
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsInvalid(err):
			return err
		}
		live, err = nil, nil // not the object it was: it is read again
	}
	return errors.New("it keeps changing")
}

// part deletes or releases an object, if it is ours.
func (w *Writer) part(ctx context.Context, t target, live *unstructured.Unstructured, terms Terms) error {
	if !ssa.Belongs(t.Conn.ControlPlane(), live, t.work) {
		return nil
	}
	if t.Hold.Delete {
		return errDispatchingHeld
	}
	spare := terms.Keep(live)
	if !spare && live.GetDeletionTimestamp() == nil {
		var err error
		if spare, err = w.spare(ctx, t.Conn, t.work, live); err != nil {
			return err
		}
	}
	if spare && terms.Exclusive && !terms.Preserve {
		return errors.New("it was in the cluster before and would stay, so that its end cannot be confirmed: with preserveResourcesOnDeletion false it is deleted")
	}
	if spare {
		return w.release(ctx, t, live)
	}
	err := w.destroy(ctx, t, live, terms)
	if apierrors.IsForbidden(err) && ssa.IsNamespace(live) {
		return w.release(ctx, t, live) // the owner of the member keeps the right to delete namespaces, and deletes it or not
	}
	return err
}

// spare returns whether an object that is to be deleted must be left instead, because of other objects in it or of its kind.
func (w *Writer) spare(ctx context.Context, conn *member.Conn, work types.NamespacedName, live *unstructured.Unstructured) (bool, error) {
	if ssa.IsNamespace(live) {
		return w.spareNamespace(ctx, conn, work, live.GetName())
	}
	return w.KindPolicy.Spare(ctx, conn, live)
}

func (w *Writer) destroy(ctx context.Context, t target, live *unstructured.Unstructured, terms Terms) error {
	policy, begun, requested := metav1.DeletePropagationBackground, error(nil), Transient(errUnconfirmed)
	if terms.Exclusive {
		policy, begun, requested = metav1.DeletePropagationForeground, Transient(errLeaving), Transient(errLeaving)
	}
	if live.GetDeletionTimestamp() != nil {
		return begun
	}
	if err := w.admitRemoval(ctx, t.Conn, t.work, live); err != nil {
		return err
	}
	w.Guard.Writes(t.Conn)
	uid, version := live.GetUID(), live.GetResourceVersion()
	only := &metav1.Preconditions{UID: &uid}
	if ssa.IsNamespace(live) {
		only.ResourceVersion = &version // others have not changed it meanwhile
	}
	times := w.Results.Deletes(t.Place, uid, w.Clock.Now()) // before the watch can show its end
	err := t.client.Delete(ctx, t.Object.Name, metav1.DeleteOptions{Preconditions: only, PropagationPolicy: &policy})
	w.metrics.Wrote("delete", err)
	switch {
	case err != nil:
		w.Results.Forget(t.Place)
		return err
	case times > 1:
		return errStillThere
	}
	return requested
}

// release takes our marks off an object and leaves it, with the mark by which this control plane takes it back.
func (w *Writer) release(ctx context.Context, t target, live *unstructured.Unstructured) error {
	patch, err := ssa.ReleasePatch(t.Conn.ControlPlane(), live)
	if err != nil {
		return err
	}
	w.Guard.Writes(t.Conn)
	_, err = t.client.Patch(ctx, t.Object.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: t.Conn.ControlPlane().Manager()})
	w.metrics.Wrote("release", err)
	return err
}
