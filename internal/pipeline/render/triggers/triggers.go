package triggers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Indexes in the cache.
const (
	// clusterIndex finds the bindings that are to have a Work in a cluster.
	clusterIndex = "render.cluster"
	// kindIndex finds the bindings of templates of one kind, see kindKey.
	kindIndex = "render.kind"
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
	return []index{
		{&workv1alpha2.ResourceBinding{}, clusterIndex, byCluster},
		{&workv1alpha2.ResourceBinding{}, kindIndex, byKind},
		{&workv1alpha2.ClusterResourceBinding{}, clusterIndex, byCluster},
		{&workv1alpha2.ClusterResourceBinding{}, kindIndex, byKind},
	}
}

func kindKey(apiVersion, kind string) string { return apiVersion + " " + kind }

// Triggers enqueues the bindings whose Works may change after a change of override policies, Clusters or the meaning of kinds.
type Triggers struct {
	// Reader reads from a cache that has Indexes.
	Reader    client.Reader
	Templates hubstore.Reader
	// Conversion has the kinds that a change of a Cluster affects.
	Conversion conversion.Adviser
	// Namespaced is whether the bindings are ResourceBindings.
	Namespaced bool
	// Repeats are the handlers that failed: the reconcile of the zero request.
	Repeats controlloop.Repeats[reconcile.Request]
}

// enqueue enqueues the bindings that match, of those that are listed.
func (t *Triggers) enqueue(ctx context.Context, q queue, matches func(workv1alpha2.Binding) bool, options ...client.ListOption) error {
	bindings, err := hubclient.BindingsOfScope(ctx, t.Reader, t.Namespaced, options...)
	for _, binding := range bindings {
		if matches(binding) {
			q.Add(requestFor(binding))
		}
	}
	return err
}

// PolicyChanges handles policies of both scopes. Those that exist at the start need no event: every binding is rendered then.
func (t *Triggers) PolicyChanges() handler.EventHandler {
	touched := func(ctx context.Context, q queue, policies ...client.Object) {
		t.Repeats.Handle(ctx, q, func(ctx context.Context) error {
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

// MeaningChanges handles kinds whose interpretation or definition changed.
func (t *Triggers) MeaningChanges(changes *interpret.Changes) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		changes.Subscribe(func(kinds interpret.Kinds) {
			t.Repeats.Handle(ctx, q, func(ctx context.Context) error {
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

// Space handles bindings that were not rendered because their namespace was at its limit.
func (t *Triggers) Space(onSpace func(wake func(namespace string) (more bool))) source.Source {
	return source.Func(func(ctx context.Context, q queue) error {
		onSpace(func(namespace string) (more bool) {
			waiting := 0
			err := t.enqueue(ctx, q, func(binding workv1alpha2.Binding) bool {
				c := meta.FindStatusCondition(binding.BindingStatus().Conditions, workv1alpha2.Rendered)
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

// ClusterChanges handles Clusters that are created, and changes of what selectors read. Names cannot change.
func (t *Triggers) ClusterChanges() handler.EventHandler {
	created := func(ctx context.Context, cluster client.Object, q queue) {
		t.Repeats.Handle(ctx, q, func(ctx context.Context) error {
			return t.enqueue(ctx, q, func(workv1alpha2.Binding) bool { return true }, client.MatchingFields{clusterIndex: cluster.GetName()})
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
			t.Repeats.Handle(ctx, q, func(ctx context.Context) error {
				return errors.Join(t.enqueueConverted(ctx, q, before, after), t.enqueueSelected(ctx, q, before, after))
			})
		},
	}
}

// enqueueConverted enqueues the bindings of a cluster whose templates may become something else there after a change of it.
func (t *Triggers) enqueueConverted(ctx context.Context, q queue, before, after *clusterv1alpha1.Cluster) error {
	var failures []error
	for _, kind := range t.Conversion.Affected(before, after) {
		failures = append(failures, t.enqueue(ctx, q, func(binding workv1alpha2.Binding) bool { return goesTo(binding, after.Name) },
			client.MatchingFields{kindIndex: kindKey(kind.ToAPIVersionAndKind())}))
	}
	return errors.Join(failures...)
}

// enqueueSelected enqueues the bindings of a cluster that override policies edit differently after a change of it.
func (t *Triggers) enqueueSelected(ctx context.Context, q queue, before, after *clusterv1alpha1.Cluster) error {
	if sameToSelectors(before, after) {
		return nil
	}
	list := func() ([]policyv1alpha1.Override, error) { return hubclient.Overrides(ctx, t.Reader, "") }
	if t.Namespaced {
		list = func() ([]policyv1alpha1.Override, error) { return hubclient.AllOverrides(ctx, t.Reader) }
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
func (t *Triggers) enqueueCandidates(ctx context.Context, q queue, policy policyv1alpha1.Override, matches func(workv1alpha2.Binding) bool) error {
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
		failures = append(failures, t.enqueue(ctx, q, matches, append(slices.Clone(scope), client.MatchingFields{kindIndex: key})...))
	}
	return errors.Join(failures...)
}

// selects returns whether a policy selects the template of a binding.
func (t *Triggers) selects(policy policyv1alpha1.Override, binding workv1alpha2.Binding) bool {
	spec := binding.BindingSpec()
	target := override.Target{
		APIVersion: spec.Resource.APIVersion, Kind: spec.Resource.Kind,
		Namespace: spec.Resource.Namespace, Name: spec.Resource.Name,
	}
	if meta, ok := t.Templates.Meta(hubstore.TemplateOf(spec)); ok {
		target.Labels = meta.Labels
	}
	return override.Selects(policy, target) != override.Unselected
}

// reaches returns whether a rule of a policy selects one of the clusters that a binding goes to. A selector or Cluster that cannot be read
// counts: rendering reports it.
func (t *Triggers) reaches(ctx context.Context, policy policyv1alpha1.Override, binding workv1alpha2.Binding) bool {
	for _, target := range compose.TargetsOf(binding.BindingSpec()) {
		cluster := &clusterv1alpha1.Cluster{}
		switch err := t.Reader.Get(ctx, client.ObjectKey{Name: target.Name}, cluster, client.UnsafeDisableDeepCopy); {
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
