package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/conceal"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects/results"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/replicas"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/services"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/unmarked"
)

const (
	// lag is how long a watch may take to show what we wrote before the member is read instead.
	lag = 30 * time.Second
	// rounds bounds how often one apply is corrected by what the API server answers.
	rounds = 6
)

// target is the member and the resource of one object of a Work.
type target struct {
	results.Place
	Access
	client dynamic.ResourceInterface
	work   types.NamespacedName
}

// targetOf finds the place for an object, and corrects its namespace to the scope of its kind.
func (w *Writer) targetOf(ctx context.Context, via Access, work types.NamespacedName, obj *unstructured.Unstructured) (target, error) {
	mapping, err := via.Conn.Mapping(ctx, obj.GroupVersionKind())
	if err != nil {
		return target{}, err
	}
	t := target{Access: via, work: work}
	switch {
	case !mapping.Namespaced:
		unstructured.RemoveNestedField(obj.Object, "metadata", "namespace")
	case obj.GetNamespace() == "":
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	if t.client, err = via.client(mapping.Resource, obj.GetNamespace()); err != nil {
		return target{}, err
	}
	t.Place = results.Place{Cluster: via.Conn.Name(), Resource: mapping.Resource, Object: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}}
	return t, nil
}

// attempt is one object on its way into a member.
type attempt struct {
	target
	desired   *unstructured.Unstructured
	hash      string
	before    results.Entry
	recorded  bool
	inherited bool // what our predecessors own has been made ours
	unmarked  bool // the annotations of apply are not written
	adopted   bool // what is there was not ours before this attempt
	// left are the paths of fields that others changed and that stay so.
	left []string
	// leftPaths are those, and all below them.
	leftPaths []string
	// yielded is what is left to the member.
	yielded drifted.Yielded
}

// Apply makes one object in a member equal to its manifest, without a request if it is already. The entry has what could not be
// applied of it; an error means that nothing was.
func (w *Writer) Apply(ctx context.Context, via Access, work types.NamespacedName, desired *unstructured.Unstructured) (results.Entry, error) {
	t, err := w.targetOf(ctx, via, work, desired)
	if meta.IsNoMatchError(err) {
		return results.Entry{}, Transient(fmt.Errorf("%s is not served by the cluster: %w", desired.GroupVersionKind(), err))
	}
	if err != nil {
		return results.Entry{}, err
	}
	done, err := w.object(ctx, t, desired)
	if err != nil {
		return done, conceal.Values(err, desired)
	}
	return done, t.unseen()
}

func (w *Writer) object(ctx context.Context, t target, desired *unstructured.Unstructured) (results.Entry, error) {
	hash, err := ssa.Wanted(replicas.WithoutRetained(desired))
	if err != nil {
		return results.Entry{}, err
	}
	if w.Retention != nil {
		hash += w.Retention(desired.GroupVersionKind()) // it is in an annotation whose parts a dot separates
	}
	try := attempt{target: t, desired: desired, hash: hash}
	try.before, try.recorded = w.Results.Get(t.Place)
	if try.before.Hash != hash {
		try.recorded = false
	}
	observed, cached := t.Conn.Lookup(t.Resource, t.Object.Namespace, t.Object.Name)
	if t.Drift == policyv1alpha1.DriftObserveOnly {
		return w.observeOnly(ctx, try, observed, cached)
	}
	if try.recorded && len(try.before.Conflicts) == 0 && w.lagging(t, try.before, observed, cached) {
		return try.before, nil
	}
	_, present := t.Conn.Head(t.Resource, t.Object.Namespace, t.Object.Name)
	switch {
	case !cached && present: // it names another Work, or this one has appeared just now
		return w.examine(ctx, try)
	case !cached && !(t.ReadFirst && !t.Conn.HasSynced(t.Resource)):
		return w.create(ctx, try)
	case !cached, t.Conn.ControlPlane().OurFields(observed) == nil, t.Conn.ControlPlane().Other(observed) != "":
		return w.examine(ctx, try) // who wrote it instead is not in the cache
	default:
		return w.updateObject(ctx, try, observed)
	}
}

// lagging returns whether the cache has not seen our last write yet.
func (w *Writer) lagging(t target, last results.Entry, observed *unstructured.Unstructured, cached bool) bool {
	if cached {
		return last.NewerThan(observed.GetResourceVersion())
	}
	return w.Clock.Since(last.At) < lag && !t.Conn.Passed(t.Resource, last.Version)
}

// create applies an object that does not seem to exist. If it does after all, nothing happens to it, and it is reconciled.
func (w *Writer) create(ctx context.Context, try attempt) (results.Entry, error) {
	if try.Ended != nil && try.Ended(try.desired) {
		return results.Entry{Ended: true}, nil
	}
	body := try.desired.DeepCopy()
	body.SetResourceVersion(hubclient.NeverVersion)
	made, err := w.send(ctx, try, body, nil, false)
	if apierrors.IsConflict(err) {
		return w.examine(ctx, try)
	}
	if err == nil && (try.Applied || try.before.Lost) {
		w.Drift.CreatedAgain(try.drifted())
	}
	return made, err
}

// examine reads an object past the cache, which holds only managed ones, and decides what may be done about it.
func (w *Writer) examine(ctx context.Context, try attempt) (results.Entry, error) {
	live, err := try.client.Get(ctx, try.Object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !isForeignNotFound(err, try.Resource.Resource) {
		if try.ReadFirst {
			try.ReadFirst = false
			return w.create(ctx, try)
		}
		return results.Entry{}, Transient(fmt.Errorf("%s came and went", ssa.IdentityOf(try.desired)))
	}
	if err != nil {
		return results.Entry{}, fmt.Errorf("reading %s: %w", ssa.IdentityOf(try.desired), try.refused(err))
	}
	verdict, err := w.judge(ctx, try, live)
	if verdict == ssa.Foreign {
		return results.Entry{}, err
	}
	if try.Drift == policyv1alpha1.DriftCreateOnly {
		return w.observe(ctx, try, live, true), nil
	}
	try.adopted = verdict == ssa.Adopting
	if live, err = w.inherit(ctx, try, live); err != nil {
		return results.Entry{}, err
	}
	try.inherited = true
	return w.updateObject(ctx, try, live)
}

// updateObject brings an object that exists to what it should be.
func (w *Writer) updateObject(ctx context.Context, try attempt, live *unstructured.Unstructured) (results.Entry, error) {
	verdict, err := w.judge(ctx, try, live)
	if verdict == ssa.Foreign {
		return results.Entry{}, err
	}
	if try.Drift == policyv1alpha1.DriftCreateOnly {
		return w.observe(ctx, try, live, false), nil
	}
	if try.adopted {
		verdict = ssa.Adopting
	}
	if live.GetDeletionTimestamp() != nil {
		return results.Entry{}, Transient(fmt.Errorf("%s is being deleted in the member, and is created again afterwards", ssa.IdentityOf(live)))
	}
	body, err := w.bodyFor(ctx, &try, live, verdict)
	if err != nil {
		return results.Entry{}, err
	}
	d := ssa.Compare(try.Conn.ControlPlane(), body, live, try.hash)
	if try.unmarked = d.Stale && verdict != ssa.Adopting && len(try.Ignored) == 0 && unmarked.MayStay(try.Conn.ControlPlane(), try.Drift, live); try.unmarked {
		d = unmarked.Compare(try.Conn.ControlPlane(), body, live, try.recorded)
	}
	if d.UnknownFields && !d.Stale {
		if d.Stale, err = outgrown(ctx, try, live); err != nil {
			return results.Entry{}, err
		}
	}
	if (try.Drift == policyv1alpha1.DriftReport || try.Drift == policyv1alpha1.DriftPause) && verdict != ssa.Adopting {
		known, done, err := w.leave(ctx, &try, body, live, d)
		if done {
			return known, err
		}
		body.SetResourceVersion(live.GetResourceVersion()) // what others change meanwhile is to be left, too
	}
	if results.Unchanged(d, try.before, try.recorded) {
		w.Drift.Episodes.Stands(try.drifted().Key, nil)
		return w.keep(try, live, d), nil
	}
	if err := w.vet(ctx, try, live); err != nil {
		return results.Entry{}, err
	}
	if try.Conn.ControlPlane().Outdated(live) && !try.inherited {
		return w.examine(ctx, try) // the cache does not have the owners of the fields
	}
	if try.unmarked && !try.Hold.Change {
		as := unmarked.Body(body, live)
		if try.unmarked, err = unmarked.KeepsGeneration(ctx, try.client, try.Conn.ControlPlane(), as, live); err != nil {
			return results.Entry{}, Transient(err)
		} else if try.unmarked {
			return w.send(ctx, try, as, live, true) // with force, as every object without the annotation
		}
	}
	if err := w.admitShrinkage(try, body, live); err != nil {
		return results.Entry{}, err
	}
	body.SetUID(live.GetUID()) // not a new object of the same name
	_, annotated := ssa.LastAppliedOf(live)
	// What was applied before and is still desired can only be in conflict with drift.
	repair := !d.Stale && len(d.Open) == 0 && len(try.before.Conflicts) == 0 && len(try.left) == 0
	report := func() {}
	if !d.Stale && len(try.left) == 0 && verdict != ssa.Adopting {
		report = w.Drift.PutBack(ctx, try.drifted(), body, live, results.ChangedByOthers(d, try.before, try.recorded))
	}
	if len(try.left) > 0 {
		var left []string
		body, left = drifted.Without(body, try.left)
		try.leftPaths = append(try.leftPaths, left...)
	}
	applied, err := w.send(ctx, try, body, live, verdict == ssa.Adopting || !annotated || repair)
	if err == nil {
		report()
	}
	return applied, err
}

// bodyFor is the desired object, minus what others decide about in an object that exists.
func (w *Writer) bodyFor(ctx context.Context, try *attempt, live *unstructured.Unstructured, verdict ssa.Verdict) (*unstructured.Unstructured, error) {
	body := try.desired
	if w.Retain != nil {
		retained, err := w.Retain(ctx, body, live)
		if err != nil {
			return nil, err // it names the operation and the object
		}
		body = retained
	}
	body = replicas.Yield(try.Conn.ControlPlane(), body, live)
	try.yielded = w.Drift.Yield(ctx, try.drifted(), body, live, try.rules())
	body = try.yielded.Object.DeepCopy()
	try.leftPaths = try.yielded.Dropped
	if len(try.yielded.Paths) > 0 {
		body.SetResourceVersion(live.GetResourceVersion()) // what others write meanwhile is not overwritten
	}
	if verdict == ssa.Adopting || ssa.IsAdopted(live) {
		ssa.SetAnnotation(body, workv1alpha1.AdoptedAnnotation, "true")
	}
	if losers := ssa.TakenFrom(try.Conn.ControlPlane(), live); losers != "" {
		ssa.SetAnnotation(body, workv1alpha1.TakenFromAnnotation, losers)
	}
	return body, nil
}

// outgrown returns whether the member's schema is another one than that which lacked some fields.
func outgrown(ctx context.Context, try attempt, live *unstructured.Unstructured) (bool, error) {
	present, err := try.Conn.Schema(ctx, try.desired.GroupVersionKind().GroupVersion())
	if err != nil {
		return false, err
	}
	last, _ := ssa.LastAppliedOf(live)
	return last.Schema != present, nil
}

// send applies a body and corrects it by what the API server answers. Live is the object as it is, nil if there is none.
func (w *Writer) send(ctx context.Context, try attempt, body, live *unstructured.Unstructured, force bool) (results.Entry, error) {
	if live == nil && try.Hold.Create || live != nil && try.Hold.Change {
		return results.Entry{}, errDispatchingHeld
	}
	defer w.Results.Expect(try.Place)()
	self := try.Conn.ControlPlane()
	result := results.Entry{Hash: try.hash}
	var misfits []string
	var left []fleetv1alpha1.DriftedField
	schema, read := "", false
	for round := 0; round < rounds; round++ {
		applied := ssa.LastApplied{Hash: try.hash, Misfits: ssa.FootprintOfPaths(misfits), Schema: schema}
		got, err := w.patch(ctx, try, body, applied, force)
		if err == nil && len(result.Taken) > 0 {
			again := func() (*unstructured.Unstructured, error) { return w.patch(ctx, try, body, applied, force) }
			got, err = services.ReleasePorts(body, got, func(port string) bool { return w.Results.Awaits(try.Place, port) }, again)
		}
		if err == nil {
			result.UID, result.Version, result.At = got.GetUID(), got.GetResourceVersion(), w.Clock.Now()
			result.Unowned = ssa.Unowned(self, try.desired, got)
			result.Altered, _ = ssa.Alterations(self, body, got)
			w.Results.Put(try.Place, result)
			try.Conn.AddWritten(try.Resource, got)
			for _, path := range slices.Concat(try.left, try.leftPaths) {
				delete(result.Unowned, path) // it is still drift
			}
			if len(try.left) == 0 {
				w.Drift.Episodes.Stands(try.drifted().Key, left)
			}
			return result, nil
		}
		refused := ssa.UnknownFieldsIn(err)
		if repeated := refused.Repeated(); repeated != nil {
			return results.Entry{}, fmt.Errorf("applying %s: %w", ssa.IdentityOf(try.desired), repeated)
		}
		if len(refused.Unknown) > 0 && !read {
			// It is this schema that has to refuse the fields, not the one before it.
			if schema, err = try.Conn.Schema(ctx, try.desired.GroupVersionKind().GroupVersion()); err != nil {
				return results.Entry{}, err
			}
			read = true
			continue
		}
		if removed := refused.Fit(body); len(removed) > 0 {
			for _, r := range removed {
				result.Dropped = append(result.Dropped, r.Field)
				if r.Path != "" {
					misfits = append(misfits, r.Path)
				}
			}
			result.UnknownFields = len(misfits) > 0
			continue
		}
		if taken, dropped := ssa.DropTaken(body, err); dropped {
			result.Taken = append(result.Taken, taken...)
			round-- // the API server names one port at a time; each of these rounds leaves fewer
			continue
		}
		found := ssa.ConflictsIn(err)
		if len(found) == 0 || live == nil {
			return results.Entry{}, w.explain(try, err)
		}
		theirs, taken := ssa.Triage(found, body, live)
		if !taken && try.recorded && slices.Equal(theirs, try.before.Conflicts) {
			return try.before, nil // as it was the last time: the rest is applied
		}
		left = append(left, drifted.Left(theirs, body, live)...)
		for _, c := range theirs {
			if s, ok := ssa.Locate(ssa.Spot{Value: body.Object}, c.Field); ok && s.Drop != nil {
				s.Drop()
			}
		}
		result.Conflicts = append(result.Conflicts, theirs...)
		force = force || taken
		if !force && len(theirs) == 0 {
			return results.Entry{}, w.explain(try, err)
		}
	}
	return results.Entry{}, fmt.Errorf("applying %s: the API server keeps refusing it", ssa.IdentityOf(body))
}

func (w *Writer) patch(ctx context.Context, try attempt, body *unstructured.Unstructured, applied ssa.LastApplied, force bool) (*unstructured.Unstructured, error) {
	ours := body
	if len(try.yielded.Added) > 0 {
		ours, _ = drifted.Without(body, try.yielded.Added)
	}
	applied.Footprint = ssa.FootprintOf(ours, try.leftPaths...) // what others changed was ours, and is again when the policy says so
	if !try.unmarked {
		ssa.SetAnnotation(body, workv1alpha1.LastAppliedAnnotation, applied.String())
		if id := try.Conn.ControlPlane().ID; id != "" {
			ssa.SetAnnotation(body, workv1alpha1.ControlPlaneAnnotation, id)
		}
	}
	raw, err := ssa.Encode(body)
	if err != nil {
		return nil, err
	}
	w.Guard.Writes(try.Conn)
	got, err := try.client.Patch(ctx, try.Object.Name, types.ApplyPatchType, raw, metav1.PatchOptions{FieldManager: try.Conn.ControlPlane().Manager(), Force: &force})
	w.metrics.Wrote("apply", err)
	return got, err
}

// explain adds to an error the object, whether retries can succeed, and what it means for the member.
func (w *Writer) explain(try attempt, err error) error {
	what := ssa.IdentityOf(try.desired)
	switch {
	case apierrors.IsNotFound(err) && isForeignNotFound(err, try.Resource.Resource):
		return Transient(fmt.Errorf("applying %s: %w", what, err)) // its namespace, which is on its way
	case apierrors.IsNotFound(err):
		try.Conn.Forget(try.Resource.GroupVersion())
		return Transient(fmt.Errorf("applying %s: %w", what, err))
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), apierrors.IsConflict(err):
		return Transient(fmt.Errorf("applying %s: %w", what, err))
	default:
		return fmt.Errorf("applying %s: %w", what, try.refused(ssa.ExplainSize(try.desired, err)))
	}
}

// isForeignNotFound returns whether a "not found" names another object than the object itself: its namespace.
func isForeignNotFound(err error, resource string) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces" && resource != "namespaces"
}
