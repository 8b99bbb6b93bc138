package admission

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// ReachName is the name of Reach in the admission chain.
const ReachName = "FlagshipPolicyReach"

// everything stands for all groups, resources or names.
const everything = "*"

// Reach makes sure that a PropagationPolicy or OverridePolicy selects only what its author may update: it decides what becomes of these
// objects in members. The author of a change needs the right to what the policy selected before, too, and who deletes a policy to what it
// selects. A change of neither spec nor options is not checked, nor is what the control plane itself writes, nor a user who may create the
// cluster-wide twin of the policy, which reaches every namespace.
type Reach struct {
	authorizer authorizer.UnconditionalAuthorizer
	mapper     meta.RESTMapper
}

var (
	_ admission.ValidationInterface            = &Reach{}
	_ initializer.WantsUnconditionalAuthorizer = &Reach{}
	_ initializer.WantsRESTMapper              = &Reach{}
)

// NewReach makes the plugin.
func NewReach() *Reach { return &Reach{} }

// SetUnconditionalAuthorizer gives the plugin the API server's authorizer.
func (r *Reach) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) { r.authorizer = a }

// SetRESTMapper gives the plugin the kinds that the API server serves.
func (r *Reach) SetRESTMapper(m meta.RESTMapper) { r.mapper = m }

// ValidateInitialization makes sure that the API server gave the plugin what it needs.
func (r *Reach) ValidateInitialization() error {
	if r.authorizer == nil || r.mapper == nil {
		return errors.New("the authorizer or the REST mapper is missing")
	}
	return nil
}

// Handles implements admission.Interface.
func (*Reach) Handles(operation admission.Operation) bool { return operation != admission.Connect }

// Validate refuses a write of a policy that selects what its author may not update.
func (r *Reach) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	twin, ok := twinOf(a.GetKind().GroupKind())
	if !ok || a.GetSubresource() != "" || ofControlPlane(a) {
		return nil
	}
	now, _ := a.GetObject().(*unstructured.Unstructured)
	before, _ := a.GetOldObject().(*unstructured.Unstructured)
	if now != nil && before != nil && sameSpec(now, before) && sameOptions(now, before) {
		return nil
	}
	may, who := r.mayOf(ctx, a), a.GetUserInfo().GetName()
	refusal, err := r.beyond(may, who, now, false)
	if err == nil && refusal == "" {
		refusal, err = r.beyond(may, who, before, true)
	}
	if err != nil || refusal == "" {
		return err
	}
	if wide, err := may(right{verb: "create", group: policyv1alpha1.GroupName, resource: twin}); err != nil || wide {
		return err
	}
	return admission.NewForbidden(a, errors.New(refusal))
}

// twinOf returns the resource of the cluster-wide twin of a kind of policies of namespaces, false for other kinds.
func twinOf(kind schema.GroupKind) (string, bool) {
	switch kind {
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindPropagationPolicy}:
		return policyv1alpha1.ResourcePluralClusterPropagationPolicy, true
	case schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: policyv1alpha1.KindOverridePolicy}:
		return policyv1alpha1.ResourcePluralClusterOverridePolicy, true
	}
	return "", false
}

// beyond returns which selector of a policy selects what its author may not update, and is empty if none does. Stored is true for the
// policy as it is before the request.
func (r *Reach) beyond(may func(right) (bool, error), who string, policy *unstructured.Unstructured, stored bool) (string, error) {
	if policy == nil {
		return "", nil
	}
	path, selects := field.NewPath("spec", "resourceSelectors"), "selects"
	if stored {
		selects = "selects now"
	}
	selectors, _, _ := unstructured.NestedSlice(policy.Object, "spec", "resourceSelectors") // the schema refuses another type
	if len(selectors) == 0 {
		all, err := may(right{verb: "update", group: everything, resource: everything, namespace: policy.GetNamespace()})
		if err != nil || all {
			return "", err
		}
		return fmt.Sprintf("%s: user %q may not update all objects of namespace %q, which an %s without selectors %s: select the kinds that you may update",
			path, who, policy.GetNamespace(), policy.GetKind(), selects), nil
	}
	for i, item := range selectors {
		selector, _ := item.(map[string]any)
		text := func(key string) string { value, _ := selector[key].(string); return value }
		refused, err := r.refused(may, policy.GetNamespace(), schema.FromAPIVersionAndKind(text("apiVersion"), text("kind")).GroupKind(), text("name"), stored)
		if err != nil {
			return "", err
		}
		if refused != "" {
			return fmt.Sprintf("%s: user %q may not update %s, which this %s %s", path.Index(i), who, refused, policy.GetKind(), selects), nil
		}
	}
	return "", nil
}

// refused names what a selector selects and the author may not update; it is empty if there is no such thing. A kind that is not served has
// no objects, but may have some later: the resource is not known, so the author of a policy needs the right to all of the group.
func (r *Reach) refused(may func(right) (bool, error), namespace string, kind schema.GroupKind, name string, stored bool) (string, error) {
	resources, served, err := r.resources(kind)
	if err != nil || !served && stored {
		return "", err
	}
	if !served {
		group, err := may(right{verb: "update", group: kind.Group, resource: everything, namespace: namespace})
		if err != nil || group {
			return "", err
		}
		return fmt.Sprintf("all resources of the group %q in namespace %q (the kind %s is not served, or for less than half a minute, so that its resource is not known)",
			kind.Group, namespace, kind.Kind), nil
	}
	for _, resource := range resources {
		of := right{verb: "update", group: resource.Group, resource: resource.Resource, namespace: namespace}
		allowed, err := may(of) // of all objects first: it is the same question for each selector of the kind
		if of.name = name; err == nil && !allowed && name != "" {
			allowed, err = may(of)
		}
		switch {
		case err != nil:
			return "", err
		case !allowed && name != "":
			return fmt.Sprintf("%s %q in namespace %q", resource, name, namespace), nil
		case !allowed:
			return fmt.Sprintf("%s in namespace %q", resource, namespace), nil
		}
	}
	return "", nil
}

// resources returns the namespaced resources of a kind, of whatever version, and whether the kind is served at all. A policy of a namespace
// selects nothing of a kind without namespaces.
func (r *Reach) resources(kind schema.GroupKind) (found []schema.GroupResource, served bool, err error) {
	mappings, err := r.mapper.RESTMappings(kind)
	switch {
	case meta.IsNoMatchError(err):
		return nil, false, nil
	case err != nil:
		return nil, false, apierrors.NewServiceUnavailable(fmt.Sprintf("the kinds of the control plane cannot be read: %v", err))
	}
	for _, mapping := range mappings {
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			found = append(found, mapping.Resource.GroupResource())
		}
	}
	return found, true, nil
}

// right is what is asked of an authorizer.
type right struct{ verb, group, resource, namespace, name string }

// mayOf returns whether the author of a request has rights. Each of them is reviewed once.
func (r *Reach) mayOf(ctx context.Context, a admission.Attributes) func(right) (bool, error) {
	known := map[right]bool{}
	return func(which right) (bool, error) {
		if may, asked := known[which]; asked {
			return may, nil
		}
		decision, _, err := r.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: which.verb, ResourceRequest: true,
			APIGroup: which.group, APIVersion: everything, Resource: which.resource, Namespace: which.namespace, Name: which.name,
		})
		may := decision == authorizer.DecisionAllow
		if !may && err != nil {
			return false, apierrors.NewInternalError(fmt.Errorf("checking the right to %s %s.%s: %w", which.verb, which.resource, which.group, err))
		}
		known[which] = may
		return may, nil
	}
}
