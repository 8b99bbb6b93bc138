package render

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/fairqueue"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Indexes in the cache.
const (
	// workOwnerIndex finds the Works of a binding, see owner.
	workOwnerIndex = "render.owner"
	// bindingClusterIndex finds the bindings that are to have a Work in a cluster.
	bindingClusterIndex = "render.cluster"
	// bindingKindIndex finds the bindings of templates of one kind, see kindKey.
	bindingKindIndex = "render.kind"
)

// Indexes registers the cache indexes of this package.
func Indexes(ctx context.Context, indexer client.FieldIndexer) error {
	for _, index := range indexes() {
		if err := indexer.IndexField(ctx, index.object, index.field, index.extract); err != nil {
			return fmt.Errorf("adding the index %s: %w", index.field, err)
		}
	}
	return nil
}

type index struct {
	object  client.Object
	field   string
	extract client.IndexerFunc
}

func indexes() []index {
	byCluster := func(obj client.Object) []string {
		targets := compose.TargetsOf(obj.(workv1alpha2.Binding).BindingSpec())
		names := make([]string, 0, len(targets))
		for _, t := range targets {
			names = append(names, t.Name)
		}
		return names
	}
	byKind := func(obj client.Object) []string {
		resource := obj.(workv1alpha2.Binding).BindingSpec().Resource
		return []string{kindKey(resource.APIVersion, resource.Kind)}
	}
	byOwner := func(obj client.Object) []string {
		if of := workv1alpha2.BoundTo(obj); of != "" {
			return []string{of}
		}
		return nil
	}
	return []index{
		{&workv1alpha1.Work{}, workOwnerIndex, byOwner},
		{&workv1alpha2.ResourceBinding{}, bindingClusterIndex, byCluster},
		{&workv1alpha2.ResourceBinding{}, bindingKindIndex, byKind},
		{&workv1alpha2.ClusterResourceBinding{}, bindingClusterIndex, byCluster},
		{&workv1alpha2.ClusterResourceBinding{}, bindingKindIndex, byKind},
	}
}

func kindKey(apiVersion, kind string) string { return apiVersion + " " + kind }

// bindingChanges passes changes that rendering depends on: the spec, the permanent id, the account that writes, what happens to drift, deletion, the end of a
// wait for the scheduler, and the condition Rendered, which may have to be removed before the cache shows that it was set. Other changes
// of status come from members, and there are many of them.
func bindingChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(workv1alpha2.Binding), e.ObjectNew.(workv1alpha2.Binding)
		return before.GetGeneration() != after.GetGeneration() ||
			before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil ||
			before.GetUID() != after.GetUID() ||
			before.GetLabels()[before.PermanentIDLabel()] != after.GetLabels()[after.PermanentIDLabel()] ||
			before.GetAnnotations()[clusterv1alpha1.ApplyAsAnnotation] != after.GetAnnotations()[clusterv1alpha1.ApplyAsAnnotation] ||
			before.GetAnnotations()[policyv1alpha1.DriftAnnotation] != after.GetAnnotations()[policyv1alpha1.DriftAnnotation] ||
			compose.AwaitsScheduler(before) && !compose.AwaitsScheduler(after) ||
			!compose.MayDelete(before) && compose.MayDelete(after) ||
			compose.PurgesDirectly(before) != compose.PurgesDirectly(after) ||
			before.GetAnnotations()[workv1alpha2.ReturnsAnnotation] != after.GetAnnotations()[workv1alpha2.ReturnsAnnotation] ||
			!equality.Semantic.DeepEqual(renderedOf(before), renderedOf(after))
	}}
}

func renderedOf(binding workv1alpha2.Binding) *metav1.Condition {
	return meta.FindStatusCondition(binding.BindingStatus().Conditions, workv1alpha2.Rendered)
}

// bindingEvents enqueues a binding that was changed, and keeps one that was deleted for leftovers.
func (r *Reconciler) bindingEvents() handler.EventHandler {
	own := &handler.EnqueueRequestForObject{}
	return handler.Funcs{
		CreateFunc: own.Create,
		UpdateFunc: own.Update,
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.lost.Store(client.ObjectKeyFromObject(e.Object), e.Object)
			own.Delete(ctx, e, q)
		},
	}
}

// workChanges enqueues the binding of a Work that others changed, or that was deleted.
func (r *Reconciler) workChanges() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if !r.writes.Observe(e.Object) {
				r.enqueueOwner(e.Object, q, e.IsInInitialList)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if r.writes.Observe(e.ObjectNew) {
				return
			}
			if !reshaped(e.ObjectOld, e.ObjectNew) {
				if key, ok := r.ownerOf(e.ObjectNew); ok && r.moves.has(key.NamespacedName) { // it may be healthy by now
					q.Add(key)
				}
				return
			}
			r.enqueueOwner(e.ObjectOld, q, false)
			r.enqueueOwner(e.ObjectNew, q, false)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			r.writes.Forget(client.ObjectKeyFromObject(e.Object))
			r.enqueueOwner(e.Object, q, false)
		},
	}
}

// reshaped returns whether more than the status changed.
func reshaped(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

// ownerOf returns the binding of a Work, if it is one of this reconciler's.
func (r *Reconciler) ownerOf(work client.Object) (request reconcile.Request, ok bool) {
	annotations := work.GetAnnotations()
	if r.namespaced {
		request.Namespace = annotations[workv1alpha2.ResourceBindingNamespaceAnnotation]
		request.Name = annotations[workv1alpha2.ResourceBindingNameAnnotation]
	} else {
		request.Name = annotations[workv1alpha2.ClusterResourceBindingNameAnnotation]
	}
	return request, request.Name != "" && r.namespaced == (request.Namespace != "")
}

func (r *Reconciler) enqueueOwner(work client.Object, q queue, initial bool) {
	request, ok := r.ownerOf(work)
	if !ok {
		return
	}
	priority := 0
	if initial { // nearly all are as they should be
		priority = handler.LowPriority
	}
	fairqueue.Enqueue(q, priority, request)
}

// triggers enqueues the bindings whose Works may change after a change of override policies, Clusters or the meaning of kinds.
type triggers struct {
	reader     client.Reader
	templates  hubstore.Reader
	conversion conversion.Adviser
	namespaced bool
	repeats    controlloop.Repeats[reconcile.Request]
}

// enqueue enqueues the bindings that match, of those that are listed.
func (t *triggers) enqueue(ctx context.Context, q queue, matches func(workv1alpha2.Binding) bool, options ...client.ListOption) error {
	bindings, err := hubclient.BindingsOfScope(ctx, t.reader, t.namespaced, options...)
	for _, binding := range bindings {
		if matches(binding) {
			q.Add(requestFor(binding))
		}
	}
	return err
}

// policyChanges handles policies of both scopes. Those that exist at the start need no event: every binding is rendered then.
func (t *triggers) policyChanges() handler.EventHandler {
	touched := func(ctx context.Context, q queue, policies ...client.Object) {
		t.repeats.Handle(ctx, q, func(ctx context.Context) error {
			var failures []error
			for _, object := range policies {
				policy := object.(policyv1alpha1.Override)
				failures = append(failures, t.enqueueCandidates(ctx, q, policy, func(binding workv1alpha2.Binding) bool {
					return t.selects(policy, binding) && t.reaches(ctx, policy, binding)
				}))
			}
			return errors.Join(failures...)
		})
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				touched(ctx, q, e.Object)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(policyv1alpha1.Override), e.ObjectNew.(policyv1alpha1.Override)
			if !equality.Semantic.DeepEqual(before.OverrideSpec(), after.OverrideSpec()) {
				touched(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { touched(ctx, q, e.Object) },
	}
}

// meaningChanges handles kinds whose interpretation or definition changed.
func (t *triggers) meaningChanges(changes *interpret.Changes) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		changes.Subscribe(func(kinds interpret.Kinds) {
			t.repeats.Handle(ctx, q, func(ctx context.Context) error {
				return t.enqueue(ctx, q, func(binding workv1alpha2.Binding) bool {
					return kinds(binding.BindingSpec().Resource.GroupVersionKind())
				})
			})
		})
		return nil
	})
}

// wokenAtOnce bounds how many bindings are rendered again at once when a namespace has space: a tenant who deletes and creates
// an object in turns must not cause more work than that.
const wokenAtOnce = 500

// space handles bindings that were not rendered because their namespace was at its limit.
func (t *triggers) space(onSpace func(wake func(namespace string) (more bool))) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		onSpace(func(namespace string) (more bool) {
			waiting := 0
			err := t.enqueue(ctx, q, func(binding workv1alpha2.Binding) bool {
				c := renderedOf(binding)
				if c == nil || c.Reason != workv1alpha2.NamespaceLimitReason {
					return false
				}
				waiting++
				return waiting <= wokenAtOnce
			}, client.InNamespace(namespace))
			return err != nil || waiting > wokenAtOnce
		})
		return nil
	})
}

// clusterChanges handles Clusters that are created, and changes of what selectors read. Names cannot change.
func (t *triggers) clusterChanges() handler.EventHandler {
	created := func(ctx context.Context, cluster client.Object, q queue) {
		t.repeats.Handle(ctx, q, func(ctx context.Context) error {
			return t.enqueue(ctx, q, func(workv1alpha2.Binding) bool { return true }, client.MatchingFields{bindingClusterIndex: cluster.GetName()})
		})
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				created(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*clusterv1alpha1.Cluster), e.ObjectNew.(*clusterv1alpha1.Cluster)
			if before.UID != after.UID { // another Cluster of that name, of which an interrupted watch shows no deletion
				created(ctx, after, q)
				return
			}
			t.repeats.Handle(ctx, q, func(ctx context.Context) error {
				return errors.Join(t.enqueueConverted(ctx, q, before, after), t.enqueueSelected(ctx, q, before, after))
			})
		},
	}
}

// enqueueConverted enqueues the bindings of a cluster whose templates may become something else there after a change of it.
func (t *triggers) enqueueConverted(ctx context.Context, q queue, before, after *clusterv1alpha1.Cluster) error {
	var failures []error
	for _, kind := range t.conversion.Affected(before, after) {
		failures = append(failures, t.enqueue(ctx, q, func(binding workv1alpha2.Binding) bool { return goesTo(binding, after.Name) },
			client.MatchingFields{bindingKindIndex: kindKey(kind.ToAPIVersionAndKind())}))
	}
	return errors.Join(failures...)
}

// enqueueSelected enqueues the bindings of a cluster that override policies edit differently after a change of it.
func (t *triggers) enqueueSelected(ctx context.Context, q queue, before, after *clusterv1alpha1.Cluster) error {
	if sameToSelectors(before, after) {
		return nil
	}
	list := func() ([]policyv1alpha1.Override, error) { return hubclient.Overrides(ctx, t.reader, "") }
	if t.namespaced {
		list = func() ([]policyv1alpha1.Override, error) { return hubclient.AllOverrides(ctx, t.reader) }
	}
	policies, err := list()
	failures := []error{err}
	for _, policy := range policies {
		if selectionDiffers(policy, before, after) {
			failures = append(failures, t.enqueueCandidates(ctx, q, policy, func(binding workv1alpha2.Binding) bool {
				return t.selects(policy, binding) && goesTo(binding, after.Name)
			}))
		}
	}
	return errors.Join(failures...)
}

// enqueueCandidates enqueues the bindings that match, of the kinds that a policy names.
func (t *triggers) enqueueCandidates(ctx context.Context, q queue, policy policyv1alpha1.Override, matches func(workv1alpha2.Binding) bool) error {
	var scope []client.ListOption
	if policy.GetNamespace() != "" {
		scope = append(scope, client.InNamespace(policy.GetNamespace()))
	}
	selectors := policy.OverrideSpec().ResourceSelectors
	if len(selectors) == 0 {
		return t.enqueue(ctx, q, matches, scope...)
	}
	keys := map[string]bool{}
	for _, selector := range selectors {
		keys[kindKey(selector.APIVersion, selector.Kind)] = true
	}
	var failures []error
	for key := range keys {
		failures = append(failures, t.enqueue(ctx, q, matches, append(slices.Clone(scope), client.MatchingFields{bindingKindIndex: key})...))
	}
	return errors.Join(failures...)
}

// selects returns whether a policy selects the template of a binding.
func (t *triggers) selects(policy policyv1alpha1.Override, binding workv1alpha2.Binding) bool {
	spec := binding.BindingSpec()
	target := override.Target{
		APIVersion: spec.Resource.APIVersion, Kind: spec.Resource.Kind,
		Namespace: spec.Resource.Namespace, Name: spec.Resource.Name,
	}
	if meta, ok := t.templates.Meta(hubstore.TemplateOf(spec)); ok {
		target.Labels = meta.Labels
	}
	return override.Selects(policy, target) != override.Unselected
}

// reaches returns whether a rule of a policy selects one of the clusters that a binding goes to. A selector or Cluster that cannot be read
// counts: rendering reports it.
func (t *triggers) reaches(ctx context.Context, policy policyv1alpha1.Override, binding workv1alpha2.Binding) bool {
	for _, target := range compose.TargetsOf(binding.BindingSpec()) {
		cluster := &clusterv1alpha1.Cluster{}
		switch err := t.reader.Get(ctx, client.ObjectKey{Name: target.Name}, cluster, client.UnsafeDisableDeepCopy); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return true
		}
		for _, rule := range override.Rules(policy) {
			if selected, err := override.SelectsCluster(rule.TargetCluster, cluster); selected || err != nil {
				return true
			}
		}
	}
	return false
}

// sameToSelectors returns whether every selector treats two states of a Cluster alike.
func sameToSelectors(a, b *clusterv1alpha1.Cluster) bool {
	//lint:ignore SA1019 Selectors still read the old field.
	sameZone := a.Spec.Zone == b.Spec.Zone
	return sameZone && maps.Equal(a.Labels, b.Labels) && a.Spec.Provider == b.Spec.Provider && a.Spec.Region == b.Spec.Region &&
		slices.Equal(a.Spec.Zones, b.Spec.Zones)
}

func selectionDiffers(policy policyv1alpha1.Override, before, after *clusterv1alpha1.Cluster) bool {
	return slices.ContainsFunc(override.Rules(policy), func(rule policyv1alpha1.RuleWithCluster) bool {
		was, errBefore := override.SelectsCluster(rule.TargetCluster, before)
		is, errAfter := override.SelectsCluster(rule.TargetCluster, after)
		return was != is || (errBefore == nil) != (errAfter == nil)
	})
}

func goesTo(binding workv1alpha2.Binding, cluster string) bool {
	return slices.ContainsFunc(compose.TargetsOf(binding.BindingSpec()), func(t compose.Target) bool { return t.Name == cluster })
}

func requestFor(binding workv1alpha2.Binding) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(binding)}
}
