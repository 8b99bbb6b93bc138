package stored

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// Owner is the template of a revision as the metadata of the ControllerRevision has it, with the namespace of that, which a cluster-scoped
// template does not have. Others may write it: the content proves the uid, and names the template.
type Owner struct {
	Object fleetv1alpha1.ObjectIdentity
	UID    types.UID
}

// Change is a revision with the one before it.
type Change struct {
	Owner Owner
	// Before is nil if it cannot be read.
	Before *history.Record
	After  history.Record
}

// place is a ControllerRevision of which only the metadata was read.
type place struct {
	namespace, name string
	number          int64
	created         time.Time
}

// changed is a place with the one before it.
type changed struct {
	owner         Owner
	before, after place
}

// Since lists the changes of a namespace, or of all, that were stored since a time, the newest first, at most limit of them, and returns
// whether there are more. Wanted decides by the owner which are read at all. Two contents are in memory at a time, whatever is kept.
func (k *Storage) Since(ctx context.Context, namespace string, from time.Time, limit int, wanted func(Owner) bool, visit func(Change)) (more bool, err error) {
	key, err := k.key(ctx, false)
	if err != nil {
		return false, err
	}
	all, more, err := k.changedSince(ctx, namespace, from, limit, wanted)
	if err != nil {
		return false, err
	}
	read := map[string]*history.Record{} // what was read for the change before: of two changes of one object, one revision is in both
	for _, c := range all {
		kept := map[string]*history.Record{}
		for _, at := range []place{c.after, c.before} {
			id := at.namespace + "/" + at.name
			record, known := read[id]
			if !known {
				if record, err = k.read(ctx, key, c.owner.UID, at); err != nil {
					return false, err
				}
			}
			kept[id] = record
		}
		read = kept
		if after := kept[c.after.namespace+"/"+c.after.name]; after != nil {
			visit(Change{Owner: c.owner, Before: kept[c.before.namespace+"/"+c.before.name], After: *after})
		}
	}
	return more, nil
}

// read reads a revision, nil if it is gone or was not written by the control plane for its owner.
func (k *Storage) read(ctx context.Context, key *history.Key, owner types.UID, at place) (*history.Record, error) {
	found, err := k.kube.AppsV1().ControllerRevisions(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a revision: %w", err)
	}
	record, ours := open(key, owner, found)
	if !ours {
		return nil, nil
	}
	return &record, nil
}

// changedSince lists where changes are, from metadata alone. The names of the revisions of one object begin with the same digest, so that
// they are together in a list.
func (k *Storage) changedSince(ctx context.Context, namespace string, from time.Time, limit int, wanted func(Owner) bool) (all []changed, more bool, err error) {
	var owner Owner
	var places []place
	newest := func() {
		slices.SortFunc(all, func(a, b changed) int {
			return cmp.Or(b.after.created.Compare(a.after.created), cmp.Compare(a.owner.UID, b.owner.UID), cmp.Compare(b.after.number, a.after.number))
		})
		if len(all) > limit {
			all, more = all[:limit], true
		}
	}
	flush := func() {
		slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.number, b.number) })
		var recent []changed
		for i := 1; i < len(places); i++ { // the first has nothing to be compared with
			if !places[i].created.Before(from) {
				recent = append(recent, changed{owner: owner, before: places[i-1], after: places[i]})
			}
		}
		if places = nil; len(recent) > 0 && wanted(owner) {
			all = append(all, recent...)
		}
		if len(all) > 2*limit {
			newest()
		}
	}
	list := &metav1.PartialObjectMetadataList{}
	for {
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
		err := k.live.List(ctx, list, client.InNamespace(namespace), client.HasLabels{workv1alpha1.HistoryLabel}, client.Limit(page), client.Continue(list.Continue))
		if err != nil {
			return nil, false, fmt.Errorf("listing revisions: %w", err)
		}
		for i := range list.Items {
			of, at, ok := placeOf(&list.Items[i])
			if !ok {
				continue
			}
			if of != owner {
				flush()
				owner = of
			}
			places = append(places, at)
		}
		if list.Continue == "" {
			break
		}
	}
	flush()
	newest()
	return all, more, nil
}

// placeOf is where a revision is, by its metadata; false for what is none of ours.
func placeOf(o *metav1.PartialObjectMetadata) (Owner, place, bool) {
	uid := types.UID(o.Labels[workv1alpha1.HistoryLabel])
	parts := strings.Split(strings.TrimPrefix(o.Name, workv1alpha1.HistoryPrefix), "-") // a digest, the number, and an attempt if there were several
	by := metav1.GetControllerOfNoCopy(o)
	if len(parts) < 2 || by == nil || by.UID != uid {
		return Owner{}, place{}, false
	}
	number, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return Owner{}, place{}, false
	}
	owner := Owner{UID: uid, Object: fleetv1alpha1.ObjectIdentity{APIVersion: by.APIVersion, Kind: by.Kind, Namespace: o.Namespace, Name: by.Name}}
	return owner, place{namespace: o.Namespace, name: o.Name, number: number, created: o.CreationTimestamp.Time}, true
}
