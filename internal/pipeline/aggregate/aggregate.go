package aggregate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

// Request names a ResourceBinding or, when Namespace is empty, a
// ClusterResourceBinding.
type Request struct{ Namespace, Name string }

// Templates is what the package needs of the store; *hubstore.Store has it.
type Templates interface {
	HasStatus(schema.GroupVersionKind) bool
	Read(ctx context.Context, ref hubstore.Ref, notBefore string) (*unstructured.Unstructured, error)
	UpdateStatus(ctx context.Context, before, after *unstructured.Unstructured) (bool, error)
}

// Statuses adds up the statuses of several copies; *interpret.Chained does.
type Statuses interface {
	// Supports returns whether an operation is defined for a kind. Templates whose statuses are not added up are not even read.
	Supports(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) bool
	// Aggregate returns the template with the sum of the statuses, or the template itself if it has that status.
	Aggregate(ctx context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error)
	// Finished returns whether an object ran to its end by its status.
	Finished(ctx context.Context, obj *unstructured.Unstructured) (bool, error)
}

// aggregator reconciles one binding at a time.
type aggregator struct {
	client     client.Client
	templates  Templates
	statuses   Statuses
	conversion conversion.Adviser
	// customized is Deps.Customized.
	customized func(schema.GroupVersionKind) string
	events     events.Recorder
	clock      clock.PassiveClock
	pace       *pace
	arrivals   *arrivals
	repeats    controlloop.Repeats[Request]

	// owed are bindings whose template could not be written although they themselves were.
	owed sync.Map // Request → struct{}
	// present are bindings that were there at the start and were not reconciled since, with their resource versions, and newest is the
	// highest of these.
	present sync.Map // Request → uint64
	newest  atomic.Uint64
	// left are bindings that are being deleted or are gone, and whose template's status has to be removed.
	left sync.Map // Request → workv1alpha2.Binding
}

// meaningAnnotation of a binding is the fingerprint of the customizations by which the template's status was added up last. Without it, a
// change of them before a restart would be missed.
const meaningAnnotation = "resourcebinding.karmada.io/status-aggregation"

// unwritten is the annotation's value while the template cannot be written: the binding shows what the template does not, also after a
// restart.
const unwritten = "unwritten"

// inFlight is how many writes to the storage may lie between that of a binding's status and that of its template's. If the process
// ended in between, the binding shows what the template does not, and both writes were among the last.
const inFlight = 1000

// noteStart records a binding that is there at the start.
func (a *aggregator) noteStart(request Request, binding metav1.Object) {
	version, err := strconv.ParseUint(binding.GetResourceVersion(), 10, 64)
	if err != nil {
		return // another storage than etcd
	}
	a.present.Store(request, version)
	for known := a.newest.Load(); version > known && !a.newest.CompareAndSwap(known, version); known = a.newest.Load() {
	}
}

// interrupted returns, once after a start, whether the process before may have ended before it wrote the template.
func (a *aggregator) interrupted(request Request) bool {
	version, ok := a.present.LoadAndDelete(request)
	return ok && version.(uint64)+inFlight > a.newest.Load()
}

// Reconcile brings the status of one binding and its template up to date.
func (a *aggregator) Reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	if request == (Request{}) {
		return reconcile.Result{}, a.repeats.Reconcile(ctx)
	}
	controlloop.About(ctx, request.Namespace+"/"+request.Name)
	binding, err := a.binding(ctx, request)
	if err != nil {
		return reconcile.Result{}, err
	}
	if binding == nil {
		return a.clear(ctx, request)
	}
	a.left.Delete(request) // it exists again
	if binding.GetDeletionTimestamp() != nil {
		a.leave(request, binding) // already now: after a restart nothing is left of it
		return a.clear(ctx, request)
	}
	works, err := a.works(ctx, binding)
	if err != nil {
		return reconcile.Result{}, err
	}
	works, failure := a.inTemplateVersion(ctx, binding, works)
	summary := Fold(binding.BindingSpec(), works)
	summary.explain(binding)
	a.arrivals.observe(request, binding, summary, works)
	changes := compare(binding, summary)
	_, owed := a.owed.Load(request)
	if a.interrupted(request) {
		a.owed.Store(request, struct{}{})
		owed = true
	}
	owed = owed || a.meansAnotherThing(binding)
	wait := a.pace.hold(request, summary)
	if changes.onlyGeneration {
		wait = max(wait, a.pace.holdGeneration(request, binding.GetGeneration()))
	}
	var result reconcile.Result
	switch {
	case !changes.any() && !owed:
	case wait > 0:
		result.RequeueAfter = wait
	default:
		result, err = a.write(ctx, request, binding, summary, changes)
	}
	if _, owed := a.owed.Load(request); err == nil && result.RequeueAfter == 0 && !owed {
		err = a.noteFinished(ctx, binding, summary)
	}
	if failure != nil { // retried with backoff
		return reconcile.Result{}, errors.Join(err, failure)
	}
	return result, err
}

// leave records that a binding is being deleted or gone, if its template's status has to be removed. It returns whether it has.
func (a *aggregator) leave(request Request, binding workv1alpha2.Binding) bool {
	resource := binding.BindingSpec().Resource
	if !a.conversion.LosesStatus(resource.GroupVersionKind()) {
		return false
	}
	a.left.Store(request, binding)
	return true
}

// clear writes the status of a template without copies, after its binding left.
func (a *aggregator) clear(ctx context.Context, request Request) (reconcile.Result, error) {
	a.forget(request)
	gone, ok := a.left.Load(request)
	if !ok {
		return reconcile.Result{}, nil
	}
	_, err := a.updateTemplate(ctx, gone.(workv1alpha2.Binding), Summary{})
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	}
	if err == nil {
		a.left.Delete(request)
	}
	return reconcile.Result{}, err
}

// write updates the binding first, so that a client that reads the status of the template finds it on the binding as well.
func (a *aggregator) write(ctx context.Context, request Request, binding workv1alpha2.Binding, summary Summary, changes changes) (reconcile.Result, error) {
	a.pace.wrote(request)
	a.owed.Store(request, struct{}{})
	if changes.any() {
		err := a.updateBinding(ctx, binding, summary, changes)
		switch {
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
		case apierrors.IsNotFound(err):
			return reconcile.Result{}, nil
		case err != nil:
			a.warn(binding, err.Error())
			return reconcile.Result{}, err
		}
		a.publishCut(binding, summary)
	}
	content, failure := a.updateTemplate(ctx, binding, summary)
	switch {
	case apierrors.IsConflict(failure): // of a kind whose status has other writers
		return reconcile.Result{RequeueAfter: backoff.Conflict}, nil
	case failure != nil:
		a.warn(binding, failure.Error())
		return reconcile.Result{}, errors.Join(failure, client.IgnoreNotFound(a.noteMeaning(ctx, binding, unwritten)))
	}
	a.owed.Delete(request)
	if a.meansAnotherThing(binding) {
		if err := a.noteMeaning(ctx, binding, a.meaning(binding)); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
	}
	if changes.condition != nil && changes.condition.Status == metav1.ConditionTrue {
		a.publishFullyApplied(binding, content, len(summary.Items))
	}
	return reconcile.Result{}, nil
}

// warn publishes on the template why its status is not what the clusters report.
func (a *aggregator) warn(binding workv1alpha2.Binding, message string) {
	a.events.Publish(events.Warning(events.Template(binding.BindingSpec().Resource), events.AggregateStatusFailed, message))
}

// publishCut names the clusters that report more than is kept.
func (a *aggregator) publishCut(binding workv1alpha2.Binding, summary Summary) {
	var cut []string
	for i := range summary.Items {
		if reports.WasCut(summary.Items[i].Status) {
			cut = append(cut, summary.Items[i].ClusterName)
		}
	}
	if len(cut) > 0 {
		a.warn(binding, fmt.Sprintf("TooLarge: only a part is kept of what these clusters report of their copies: %s", enumerate(cut)))
	}
}

// publishUnwritable says why the template of a kind stays without the status that clusters report. An ordinary update could write it, and would
// count as a change of the template by a user: its generation grows, and what ran to its end would run again.
func (a *aggregator) publishUnwritable(binding workv1alpha2.Binding, summary Summary) {
	if explain.HasStatus(summary.Items) {
		a.warn(binding, explain.NoStatusSubresource)
	}
}

// changes is how a summary differs from the status of a binding.
type changes struct {
	items bool
	// condition is the one to write; nil if it is there already or the binding has not been scheduled yet.
	condition *metav1.Condition
	// drifted is whether to write the condition Drifted, or to remove it.
	drifted bool
	// onlyGeneration is true if nothing changed but the generation of the binding in the condition.
	onlyGeneration bool
}

func (c changes) any() bool { return c.items || c.drifted || c.condition != nil }

func compare(binding workv1alpha2.Binding, summary Summary) changes {
	status := binding.BindingStatus()
	result := changes{items: !sameItems(status.AggregatedStatus, summary.Items), drifted: !summary.sameDrift(status.Conditions)}
	if status.LastScheduledTime == nil && len(binding.BindingSpec().RequiredBy) == 0 {
		return result
	}
	wanted := summary.Condition(binding.GetGeneration())
	if wanted.Status == metav1.ConditionTrue && unrendered(binding) {
		wanted = workv1alpha2.NotFullyAppliedCondition(binding.GetGeneration())
		wanted.Message += unrenderedMessage
	}
	present := meta.FindStatusCondition(status.Conditions, wanted.Type)
	same := present != nil && present.Status == wanted.Status && present.Reason == wanted.Reason && present.Message == wanted.Message
	if !same || present.ObservedGeneration != wanted.ObservedGeneration {
		result.condition = &wanted
		result.onlyGeneration = same && !result.items && !result.drifted
	}
	return result
}

func (a *aggregator) binding(ctx context.Context, request Request) (workv1alpha2.Binding, error) {
	binding := workv1alpha2.EmptyBinding(request.Namespace)
	key := client.ObjectKey{Namespace: request.Namespace, Name: request.Name}
	err := a.client.Get(ctx, key, binding.(client.Object))
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading binding %s: %w", key, err)
	}
	return binding, nil
}

// works lists the Works of a binding: those that have its permanent id and name it. They are shared with the cache.
func (a *aggregator) works(ctx context.Context, binding workv1alpha2.Binding) ([]*workv1alpha1.Work, error) {
	id := binding.GetLabels()[binding.PermanentIDLabel()]
	if id == "" {
		return nil, nil
	}
	works, err := hubclient.ListWorks(ctx, a.client, client.MatchingFields{indexBinding: id}, client.DisableReadYourWritesConsistency)
	of := Request{Namespace: binding.GetNamespace(), Name: binding.GetName()}
	return slices.DeleteFunc(works, func(work *workv1alpha1.Work) bool { return !slices.Contains(requestsOf(work), of) }), err
}

// speaksFor returns whether a template's status is the sum of the copies of this binding. A template has one such binding,
// the one that propagation makes or would make; others that name the template have a status of their own only.
func (a *aggregator) speaksFor(ctx context.Context, binding workv1alpha2.Binding) (bool, error) {
	resource := binding.BindingSpec().Resource
	if resource.Namespace != binding.GetNamespace() {
		return false, nil
	}
	usual := workv1alpha2.BindingName(resource.Kind, resource.Name)
	kind := resource.GroupVersionKind().GroupKind()
	switch binding.GetName() {
	case usual:
		return true, nil
	case workv1alpha2.AlternativeBindingName(kind, resource.Namespace, resource.Name):
		other, err := a.binding(ctx, Request{Namespace: binding.GetNamespace(), Name: usual})
		return err == nil && (other == nil || other.BindingSpec().Resource.UID != resource.UID), err
	}
	return false, nil
}

// updateTemplate writes the sum of the statuses of the copies. It returns which content of the template that is: its generation or, for
// kinds without status, the version that the binding was made from.
func (a *aggregator) updateTemplate(ctx context.Context, binding workv1alpha2.Binding, summary Summary) (string, error) {
	resource := binding.BindingSpec().Resource
	version := "version " + resource.ResourceVersion
	gvk := resource.GroupVersionKind()
	if !a.statuses.Supports(gvk, configv1alpha1.InterpreterOperationAggregateStatus) {
		return version, nil
	}
	if !a.templates.HasStatus(gvk) {
		a.publishUnwritable(binding, summary)
		return version, nil
	}
	if its, err := a.speaksFor(ctx, binding); err != nil || !its {
		return version, err
	}
	ref := hubstore.Ref{GroupVersionKind: gvk, Namespace: resource.Namespace, Name: resource.Name}
	before, err := a.templates.Read(ctx, ref, resource.ResourceVersion)
	if err != nil {
		return version, client.IgnoreNotFound(err)
	}
	if before.GetUID() != resource.UID || before.GetNamespace() != binding.GetNamespace() || before.GetDeletionTimestamp() != nil {
		return version, nil
	}
	if generation := before.GetGeneration(); generation > 0 {
		version = fmt.Sprintf("generation %d", generation)
	}
	if over, err := a.isOver(ctx, binding, before); err != nil || over {
		return version, err
	}
	after, err := a.statuses.Aggregate(ctx, before, summary.Items)
	if err != nil {
		return version, err // a webhook may answer the next try
	}
	if after == before {
		return version, nil
	}
	if after, err = boundedStatus(before, after); err != nil || after == before {
		return version, err
	}
	_, err = a.templates.UpdateStatus(ctx, before, after)
	return version, client.IgnoreNotFound(err)
}

// boundedStatus returns a template with as much of its new status as may be stored, and the one before if it has that already. Scripts
// and webhooks add up what members report to whatever they want.
func boundedStatus(before, after *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	status, _ := after.Object["status"].(map[string]any)
	bounded, err := reports.TemplateStatus(status)
	if err != nil || bounded == nil {
		return after, err
	}
	return interpret.WithStatus(before, bounded), nil
}

// updateBinding writes what differs. Conditions are a list with several owners, so that another version of the binding is a conflict.
func (a *aggregator) updateBinding(ctx context.Context, binding workv1alpha2.Binding, summary Summary, changes changes) error {
	status := binding.BindingStatus()
	if changes.items {
		status.AggregatedStatus = summary.Items
	}
	if changes.condition != nil {
		condition := *changes.condition
		condition.LastTransitionTime = metav1.NewTime(a.clock.Now())
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	if changes.drifted {
		summary.setDrift(&status.Conditions, binding.GetGeneration())
	}
	object := binding.(client.Object)
	if err := a.client.Status().Update(ctx, object); err != nil {
		return fmt.Errorf("updating status of binding %s: %w", client.ObjectKeyFromObject(object), err)
	}
	return nil
}

func (a *aggregator) meaning(binding workv1alpha2.Binding) string {
	resource := binding.BindingSpec().Resource
	return a.customized(resource.GroupVersionKind())
}

// meansAnotherThing returns whether the customizations of the template's kind changed since its status was written.
func (a *aggregator) meansAnotherThing(binding workv1alpha2.Binding) bool {
	return binding.GetAnnotations()[meaningAnnotation] != a.meaning(binding)
}

// noteMeaning records by which customizations the template's status was added up: only for kinds that are customized, once for each
// change, and for templates that cannot be written.
func (a *aggregator) noteMeaning(ctx context.Context, binding workv1alpha2.Binding, meaning string) error {
	if binding.GetAnnotations()[meaningAnnotation] == meaning {
		return nil
	}
	before := binding.(client.Object)
	after := before.DeepCopyObject().(client.Object)
	annotations := maps.Clone(after.GetAnnotations())
	if meaning == "" {
		delete(annotations, meaningAnnotation)
	} else {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[meaningAnnotation] = meaning
	}
	after.SetAnnotations(annotations)
	_, err := hubclient.Patch(ctx, a.client, before, after)
	return err
}

// publishFullyApplied publishes, on the binding and its template, that both have the status of all copies.
func (a *aggregator) publishFullyApplied(binding workv1alpha2.Binding, content string, clusters int) {
	message := fmt.Sprintf("Applied to all %d clusters (%s)", clusters, content)
	a.events.Publish(events.Success(events.Template(binding.BindingSpec().Resource), events.AggregateStatusSucceed, message))
	a.events.Publish(events.Success(events.Binding(binding), events.AggregateStatusSucceed, message))
}

func (a *aggregator) forget(request Request) {
	a.pace.forget(request)
	a.owed.Delete(request)
}

func sameItems(a, b []workv1alpha2.AggregatedStatusItem) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ClusterName != b[i].ClusterName || a[i].Applied != b[i].Applied || a[i].Health != b[i].Health ||
			a[i].AppliedMessage != b[i].AppliedMessage || !workv1alpha1.SameRaw(a[i].Status, b[i].Status) {
			return false
		}
	}
	return true
}
