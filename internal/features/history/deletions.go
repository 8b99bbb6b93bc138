package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/history/stored"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

const (
	// flushPeriod is how long deletions are gathered before they are stored together.
	flushPeriod = 2 * time.Second
	// lateness is how long after a deletion what was before it may still be delivered: each kind has a watch of its own.
	lateness = time.Second
	// expiryPeriod is how often deletions that are too old are removed.
	expiryPeriod = time.Minute
)

// deletion is a template that was deleted and is not stored yet.
type deletion struct {
	ref  hubstore.Ref
	uid  types.UID
	at   time.Time
	user string
	// asOf is the storage revision before the deletion; policiesAsOf is earlier if its policies were deleted just before.
	asOf, policiesAsOf uint64
}

// templateDeleted notes the deletion of a template that was propagated.
func (k *Keeper) templateDeleted(ctx context.Context, ref hubstore.Ref, last *metav1.PartialObjectMetadata) {
	version, err := strconv.ParseUint(last.ResourceVersion, 10, 64)
	if err != nil || version == 0 || k.Period() <= 0 {
		return
	}
	ref = ref.Canonical(k.Templates)
	propagated := policy.IsClaimed(last)
	if !propagated {
		binding, err := k.binding(ctx, ref)
		propagated = err == nil && binding != nil // the cache fails only while it is ending
	}
	d := deletion{
		ref: ref, uid: last.UID, at: k.Clock.Now(), user: k.Authors.Of(history.Change{UID: last.UID, Deletion: true}),
		asOf: version - 1, policiesAsOf: version - 1,
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.pending[ref]; p != nil {
		propagated, d.policiesAsOf = true, min(d.policiesAsOf, slices.Min(p.before))
		k.drop(ref)
	}
	switch {
	case !propagated || k.queue == nil:
	case k.leaving.Take(ref.Namespace):
		k.deletions = append(k.deletions, d)
	default:
		k.losses.Count(stored.LostDeletion, stored.TooMany, 1)
	}
}

// keepDeletions stores what was deleted, and deletes what is too old, until the context ends.
func (k *Keeper) keepDeletions(ctx context.Context, loop *controlloop.Loop) error {
	flush, expiry := k.Clock.NewTicker(flushPeriod), k.Clock.NewTicker(expiryPeriod)
	defer flush.Stop()
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-flush.C():
			loop.Turn(ctx, "keeping what was deleted", k.flush)
		case <-expiry.C():
			loop.Turn(ctx, "removing what was deleted long ago", func(ctx context.Context) error {
				return k.storage.Expire(ctx, k.Clock.Now().Add(-k.Period()))
			})
		}
	}
}

// flush stores the deletions that were noted.
func (k *Keeper) flush(ctx context.Context) error {
	noted := k.due()
	if len(noted) == 0 {
		return nil
	}
	byNamespace := map[string][]deletion{}
	for _, d := range noted {
		byNamespace[d.ref.Namespace] = append(byNamespace[d.ref.Namespace], d)
	}
	var all error
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		all = errors.Join(all, k.keep(ctx, namespace, byNamespace[namespace]))
	}
	return all
}

// due takes the deletions that are to be stored. That of a policy may have been noted after that of its template, and was before.
func (k *Keeper) due() (noted []deletion) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.deletions = slices.DeleteFunc(k.deletions, func(d deletion) bool {
		if k.Clock.Since(d.at) < lateness {
			return false
		}
		if p := k.pending[d.ref]; p != nil {
			d.policiesAsOf = min(d.policiesAsOf, slices.Min(p.before))
		}
		noted = append(noted, d)
		k.leaving.Give(d.ref.Namespace)
		return true
	})
	return noted
}

// keep stores the deletions of one namespace. What the storage does not have any more is left out.
func (k *Keeper) keep(ctx context.Context, namespace string, noted []deletion) error {
	var all []stored.Deleted
	var failed error
	for _, d := range noted {
		var was *stored.Deleted
		err := controlloop.CatchPanic(func() (err error) { // the others are kept
			was, err = k.before(ctx, d)
			return err
		})
		switch {
		case err != nil:
			k.losses.Count(stored.LostDeletion, stored.Failed, 1)
			failed = errors.Join(failed, err)
		case was != nil:
			all = append(all, *was)
		}
	}
	if len(all) == 0 {
		return failed
	}
	err := k.storage.Keep(ctx, namespace, all)
	if err != nil {
		k.losses.Count(stored.LostDeletion, stored.Failed, len(all))
	}
	return errors.Join(failed, err)
}

// before reads what an object was before its deletion, nil if there is nothing to keep.
func (k *Keeper) before(ctx context.Context, d deletion) (*stored.Deleted, error) {
	was, err := k.past(ctx, d.ref, d.asOf, d.policiesAsOf)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
		k.losses.Count(stored.LostDeletion, stored.Expired, 1)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading what %s was: %w", d.ref, err)
	}
	if was.binding == nil && !policy.IsClaimed(was.template) || was.template.GetUID() != d.uid {
		return nil, nil
	}
	kept := &stored.Deleted{
		Record: history.Record{Time: d.at, Author: history.Author{User: d.user}, Part: fleetv1alpha1.RevisionTemplate, State: was.state}, UID: d.uid,
	}
	if d.ref.Namespace != "" {
		// As of then: by now the name may belong to another tenant.
		then := &corev1.NamespaceList{}
		if err := k.listAt(ctx, then, strconv.FormatUint(d.asOf, 10), client.MatchingFields{metav1.ObjectNameField: d.ref.Namespace}); err != nil {
			return nil, err
		}
		if len(then.Items) == 1 {
			kept.NamespaceUID = then.Items[0].UID
		}
	}
	return kept, nil
}
