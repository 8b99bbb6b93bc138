package objects

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/retain"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/results"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// maxNamed is how many fields a message names.
const maxNamed = 5

// drifted names the object for the episodes of drift.
func (try attempt) drifted() drifted.Object {
	var made map[string]uint64
	if try.recorded {
		made = try.before.Altered
	}
	return drifted.Object{
		Made: made, Yielded: try.yielded.Paths,
		Self: try.Conn.ControlPlane(), Member: try.Conn.Metadata().Resource(try.Resource).Namespace(try.Object.Namespace),
		Key: drift.Key{Cluster: try.Cluster, Work: try.work, Object: fleetv1alpha1.ObjectIdentity{
			APIVersion: try.desired.GetAPIVersion(), Kind: try.desired.GetKind(), Namespace: try.Object.Namespace, Name: try.Object.Name,
		}},
	}
}

// rules are those about the fields of the object that are left to the member.
func (try attempt) rules() drifted.Rules {
	left, shared := retain.Left(try.desired)
	return drifted.Rules{Left: append(left, try.Ignored...), Shared: shared}
}

// leave records the fields of an object that others changed and that are to stay so by its policy. Done means that nothing is to be
// written; otherwise try.left has the fields that are to be left out.
func (w *Writer) leave(ctx context.Context, try *attempt, body, live *unstructured.Unstructured, d ssa.Difference) (known results.Entry, done bool, err error) {
	changed := results.ChangedByOthers(d, try.before, try.recorded)
	if d.Stale {
		changed = ssa.Lost(try.Conn.ControlPlane(), body, live)
	}
	if changed = w.Drift.Unlike(ctx, try.drifted(), body, live, changed); len(changed) == 0 {
		return results.Entry{}, false, nil
	}
	if try.Drift == policyv1alpha1.DriftPause {
		since := w.Drift.Stands(ctx, try.drifted(), body, live, changed, fleetv1alpha1.DriftPaused)
		switch {
		case drifted.Acknowledged(try.Acknowledged, since):
			return results.Entry{}, false, nil
		case d.Stale:
			return results.Entry{}, true, heldError{fmt.Errorf("%s has changes of others (%s) and its policy pauses it until they are acknowledged: run flagship drift ack, or set the annotation %s of the template",
				ssa.IdentityOf(live), strings.Join(changed[:min(len(changed), maxNamed)], ", "), policyv1alpha1.DriftAcknowledgedAnnotation)}
		}
		return w.keep(*try, live, d), true, nil
	}
	w.Drift.Stands(ctx, try.drifted(), body, live, changed, fleetv1alpha1.DriftReported)
	if !d.Stale && len(d.Open) == 0 && len(try.before.Conflicts) == 0 && len(try.before.Taken) == 0 {
		return w.keep(*try, live, d), true, nil
	}
	try.left = changed
	return results.Entry{}, false, nil
}

// keep returns the result for an object that stays as it is.
func (w *Writer) keep(try attempt, live *unstructured.Unstructured, d ssa.Difference) results.Entry {
	var known results.Entry
	if try.recorded {
		known = try.before
	} else {
		known.Altered = d.Altered // what the member made of it: no reason to write at the next reconcile either
	}
	known.UID, known.Version, known.Hash, known.At = live.GetUID(), live.GetResourceVersion(), try.hash, w.Clock.Now()
	known.UnknownFields = d.UnknownFields
	w.Results.Put(try.Place, known)
	return known
}

// observeOnly reads an object that is never written.
func (w *Writer) observeOnly(ctx context.Context, try attempt, observed *unstructured.Unstructured, cached bool) (results.Entry, error) {
	self := try.Conn.ControlPlane()
	if cached && self.OurFields(observed) != nil && self.Other(observed) == "" {
		return w.observe(ctx, try, observed, false), nil
	}
	live, err := try.client.Get(ctx, try.Object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return results.Entry{}, fmt.Errorf("%s is not in the cluster, and its policy only observes it", ssa.IdentityOf(try.desired))
	case err != nil:
		return results.Entry{}, fmt.Errorf("reading %s: %w", ssa.IdentityOf(try.desired), try.refused(err))
	case self.Other(live) != "":
		return results.Entry{}, fmt.Errorf("%s is managed by another control plane, and is not observed", ssa.IdentityOf(live))
	}
	known := w.observe(ctx, try, live, true)
	known.Unwatched = true
	return known, nil
}

// observe records how an object differs that stays as it is whatever is desired. Read is whether it has the owners of all its fields, which
// one from the cache has not.
func (w *Writer) observe(ctx context.Context, try attempt, live *unstructured.Unstructured, read bool) results.Entry {
	at := try.drifted()
	if read {
		at.Owners = live.GetManagedFields()
	}
	wanted := w.Drift.Yield(ctx, at, try.desired, live, try.rules()).Object
	w.Drift.Stands(ctx, at, wanted, live, w.Drift.All(ctx, at, wanted, live), fleetv1alpha1.DriftReported)
	known := results.Entry{UID: live.GetUID(), Version: live.GetResourceVersion(), Hash: try.hash, At: w.Clock.Now()}
	w.Results.Put(try.Place, known)
	return known
}
