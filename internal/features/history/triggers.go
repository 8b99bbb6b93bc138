package history

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

// follow has the Keeper called for each change of what revisions are made of.
func (k *Keeper) follow(ctx context.Context, from cache.Informers) error {
	k.Templates.Follow(func(ref hubstore.Ref, before, after *metav1.PartialObjectMetadata) {
		k.templateChanged(ctx, ref, before, after)
	})
	var all []error
	add := func(_ func() bool, _ func(), err error) { all = append(all, err) } // followed until the manager ends
	add(hubclient.Follow(ctx, from, func(before, after *workv1alpha2.ResourceBinding, _ bool) {
		if before != nil && after != nil {
			k.bindingChanged(before, after)
		}
	}))
	add(hubclient.Follow(ctx, from, func(before, after *workv1alpha2.ClusterResourceBinding, _ bool) {
		if before != nil && after != nil {
			k.bindingChanged(before, after)
		}
	}))
	add(hubclient.Follow(ctx, from, func(before, after *policyv1alpha1.PropagationPolicy, _ bool) {
		if before != nil {
			policyChanged(ctx, k, before, after, after == nil)
		}
	}))
	add(hubclient.Follow(ctx, from, func(before, after *policyv1alpha1.ClusterPropagationPolicy, _ bool) {
		if before != nil {
			policyChanged(ctx, k, before, after, after == nil)
		}
	}))
	add(hubclient.Follow(ctx, from, func(before, after *policyv1alpha1.OverridePolicy, initial bool) {
		if !initial {
			overrideChanged(ctx, k, before, after, before == nil, after == nil)
		}
	}))
	add(hubclient.Follow(ctx, from, func(before, after *policyv1alpha1.ClusterOverridePolicy, initial bool) {
		if !initial {
			overrideChanged(ctx, k, before, after, before == nil, after == nil)
		}
	}))
	return errors.Join(all...)
}

// templateChanged notes a change of a template that is propagated. The first claim of a policy is none: with it, propagation begins.
func (k *Keeper) templateChanged(ctx context.Context, ref hubstore.Ref, before, after *metav1.PartialObjectMetadata) {
	if after == nil {
		k.templateDeleted(ctx, ref, before)
		return
	}
	if before.UID != after.UID || !policy.IsClaimed(before) && policy.IsClaimed(after) {
		return
	}
	if counted := after.Generation != 0; counted && before.Generation == after.Generation && sameMetadata(before, after) {
		return
	}
	if !policy.IsClaimed(after) {
		if binding, err := k.binding(ctx, ref); err != nil || binding == nil {
			return // not propagated; or the cache is ending, and with it the record of changes
		}
	}
	user := k.Authors.Of(history.Change{UID: after.UID, From: before.ResourceVersion})
	k.changed(ref, after.ResourceVersion, fleetv1alpha1.RevisionTemplate, user)
}

// sameMetadata compares what users write of metadata.
func sameMetadata(before, after *metav1.PartialObjectMetadata) bool {
	clean := func(o *metav1.PartialObjectMetadata) map[string]any {
		labels, annotations := map[string]any{}, map[string]any{}
		for key, value := range o.Labels {
			labels[key] = value
		}
		for key, value := range o.Annotations {
			annotations[key] = value
		}
		return history.Clean(map[string]any{"metadata": map[string]any{"name": o.Name, "labels": labels, "annotations": annotations}})
	}
	return equality.Semantic.DeepEqual(clean(before), clean(after))
}

// bindingChanged notes other targets or another policy. The first targets are none: with them, the history begins.
func (k *Keeper) bindingChanged(before, after workv1alpha2.Binding) {
	was, is := before.BindingSpec(), after.BindingSpec()
	if len(was.Clusters) == 0 && before.BindingStatus().SchedulerObservedGeneration == 0 || is.Resource.UID != was.Resource.UID {
		return
	}
	part := fleetv1alpha1.RevisionClusters
	if before.GetDeletionTimestamp() == nil && after.GetDeletionTimestamp() != nil { // its template may be deleted next, as with a namespace
		k.changed(hubstore.TemplateOf(is), after.GetResourceVersion(), part, "")
		return
	}
	if policy.ClaimOn(before) != policy.ClaimOn(after) {
		part = fleetv1alpha1.RevisionPolicy
	} else if before.GetGeneration() == after.GetGeneration() || equality.Semantic.DeepEqual(was.Clusters, is.Clusters) {
		return
	}
	k.changed(hubstore.TemplateOf(is), after.GetResourceVersion(), part, "")
}

// policyChanged notes a change of the policy of templates.
func policyChanged[P interface {
	policyv1alpha1.Propagation
	client.Object
}](ctx context.Context, k *Keeper, before, after P, gone bool) {
	version := before.GetResourceVersion() // of the deletion
	if !gone {
		if before.GetGeneration() == after.GetGeneration() && maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
			return
		}
		version = after.GetResourceVersion()
	}
	id := before.GetLabels()[before.PermanentIDLabel()]
	if id == "" {
		return
	}
	user := k.user(before, gone)
	k.boundTo(ctx, before.GetNamespace(), version, fleetv1alpha1.RevisionPolicy, user, nil, client.MatchingLabels{before.PermanentIDLabel(): id})
}

// user is who requested a change of an object.
func (k *Keeper) user(before client.Object, gone bool) string {
	change := history.Change{UID: before.GetUID(), From: before.GetResourceVersion()}
	if gone {
		change = history.Change{UID: before.GetUID(), Deletion: true}
	}
	return k.Authors.Of(change)
}

// overrideChanged notes a change of the overrides of templates.
func overrideChanged[P interface {
	policyv1alpha1.Override
	client.Object
}](ctx context.Context, k *Keeper, before, after P, isNew, gone bool) {
	var rules []policyv1alpha1.Override
	var version, user string
	switch {
	case isNew:
		rules, version, user = append(rules, after), after.GetResourceVersion(), k.Authors.Of(history.Change{UID: after.GetUID()})
	case gone:
		rules, version, user = append(rules, before), before.GetResourceVersion(), k.user(before, true)
	case before.GetGeneration() == after.GetGeneration():
		return
	default:
		rules, version, user = append(rules, before, after), after.GetResourceVersion(), k.user(before, false)
	}
	if revision, err := strconv.ParseUint(version, 10, 64); err == nil {
		k.mu.Lock()
		k.overrides = max(k.overrides, revision)
		k.mu.Unlock()
	}
	k.boundTo(ctx, rules[0].GetNamespace(), version, fleetv1alpha1.RevisionOverride, user, func(ref hubstore.Ref) bool {
		meta, ok := k.Templates.Meta(ref)
		if !ok {
			return false
		}
		for _, rule := range rules {
			if override.Selects(rule, targetOf(ref, meta.Labels)) != override.Unselected {
				return true
			}
		}
		return false
	})
}

// boundTo notes a change for the templates of bindings.
func (k *Keeper) boundTo(ctx context.Context, namespace, version string, part fleetv1alpha1.RevisionPart, user string, concerns func(hubstore.Ref) bool, options ...client.ListOption) {
	if namespace != "" {
		options = append(options, client.InNamespace(namespace))
	}
	found, err := hubclient.Bindings(ctx, k.Client, options...)
	if err != nil { // the cache is ending
		log.FromContext(ctx).V(1).Info("A change of a policy is not recorded", "error", err.Error())
		return
	}
	for _, binding := range found {
		if ref := hubstore.TemplateOf(binding.BindingSpec()); concerns == nil || concerns(ref) {
			k.changed(ref, version, part, user)
		}
	}
}

func targetOf(ref hubstore.Ref, labels map[string]string) override.Target {
	return override.Target{
		APIVersion: ref.GroupVersionKind.GroupVersion().String(), Kind: ref.GroupVersionKind.Kind, Namespace: ref.Namespace, Name: ref.Name, Labels: labels,
	}
}
