package admission

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/eviction"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
)

// rule is what is known about one kind.
type rule struct {
	// complete changes the object in place; nil if there is nothing to complete.
	complete func(*unstructured.Unstructured) error
	// check returns what is wrong with it.
	check func(subject) (field.ErrorList, error)
	// options is whether annotations are options that check includes.
	options bool
}

func rules(config Config) map[schema.GroupKind]rule {
	policy := func(kind string) schema.GroupKind {
		return schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: kind}
	}
	return map[schema.GroupKind]rule{
		policy(policyv1alpha1.KindPropagationPolicy):        propagation(func() policyv1alpha1.Propagation { return &policyv1alpha1.PropagationPolicy{} }),
		policy(policyv1alpha1.KindClusterPropagationPolicy): propagation(func() policyv1alpha1.Propagation { return &policyv1alpha1.ClusterPropagationPolicy{} }),
		policy(policyv1alpha1.KindOverridePolicy):           override(func() policyv1alpha1.Override { return &policyv1alpha1.OverridePolicy{} }),
		policy(policyv1alpha1.KindClusterOverridePolicy):    override(func() policyv1alpha1.Override { return &policyv1alpha1.ClusterOverridePolicy{} }),
		policy(policyv1alpha1.KindClusterTaintPolicy): {check: checked(
			func() *policyv1alpha1.ClusterTaintPolicy { return &policyv1alpha1.ClusterTaintPolicy{} },
			config.validateTaintPolicy)},
		{Group: workv1alpha1.GroupName, Kind: workv1alpha1.KindWork}: {check: checked(
			func() *workv1alpha1.Work { return &workv1alpha1.Work{} }, validateWork)},
		{Group: networkingv1alpha1.GroupName, Kind: networkingv1alpha1.KindMultiClusterService}: {check: checked(
			func() *networkingv1alpha1.MultiClusterService { return &networkingv1alpha1.MultiClusterService{} },
			networkingv1alpha1.ValidateMultiClusterService)},
		{Group: configv1alpha1.GroupName, Kind: configv1alpha1.KindResourceInterpreterCustomization}: {check: checked(
			func() *configv1alpha1.ResourceInterpreterCustomization {
				return &configv1alpha1.ResourceInterpreterCustomization{}
			}, declarative.Check)},
		{Group: configv1alpha1.GroupName, Kind: configv1alpha1.KindResourceInterpreterWebhookConfiguration}: {check: checked(
			func() *configv1alpha1.ResourceInterpreterWebhookConfiguration {
				return &configv1alpha1.ResourceInterpreterWebhookConfiguration{}
			}, validateWebhooks)},
	}
}

func propagation(empty func() policyv1alpha1.Propagation) rule {
	return rule{
		options:  true,
		complete: completed(empty, policyv1alpha1.SetPropagationDefaults),
		check: checked(empty, func(policy policyv1alpha1.Propagation) field.ErrorList {
			return slices.Concat(policyv1alpha1.ValidatePropagation(policy), clusterv1alpha1.ValidateApplyAs(policy.GetAnnotations()),
				validateState(policy.PropagationSpec().Failover))
		}),
	}
}

// validateState returns which rules of statePreservation cannot be evaluated.
func validateState(failover *policyv1alpha1.FailoverBehavior) field.ErrorList {
	var errs field.ErrorList
	check := func(state *policyv1alpha1.StatePreservation, path *field.Path) {
		if state == nil {
			return
		}
		path = path.Child("statePreservation", "rules")
		if n := len(state.Rules); n > eviction.MaxStateRules {
			errs = append(errs, field.TooMany(path, n, eviction.MaxStateRules))
			return
		}
		for i := range state.Rules {
			if err := eviction.CheckStatePath(state.Rules[i].JSONPath); err != nil {
				errs = append(errs, field.Invalid(path.Index(i).Child("jsonPath"), field.OmitValueType{}, err.Error()))
			}
		}
	}
	if path := field.NewPath("spec", "failover"); failover != nil {
		if failover.Application != nil {
			check(failover.Application.StatePreservation, path.Child("application"))
		}
		if failover.Cluster != nil {
			check(failover.Cluster.StatePreservation, path.Child("cluster"))
		}
	}
	return errs
}

func override(empty func() policyv1alpha1.Override) rule {
	return rule{
		complete: completed(empty, policyv1alpha1.SetOverrideDefaults),
		check:    checked(empty, policyv1alpha1.ValidateOverride),
	}
}

func validateWork(work *workv1alpha1.Work) field.ErrorList {
	errs := workv1alpha1.Validate(work)
	path, size := field.NewPath("spec", "workload", "manifests"), 0
	for i, manifest := range work.Spec.Workload.Manifests {
		if size += len(manifest.Raw); size > workv1alpha1.MaxManifestBytes {
			return append(errs, field.Invalid(path.Index(i), field.OmitValueType{},
				fmt.Sprintf("the manifests of one Work may have %d bytes: up to here they have %d", workv1alpha1.MaxManifestBytes, size)))
		}
	}
	return errs
}

// checked runs a check of a Go type on an object.
func checked[T runtime.Object](empty func() T, check func(T) field.ErrorList) func(subject) (field.ErrorList, error) {
	return func(object subject) (field.ErrorList, error) {
		custom, untyped := object.(*unstructured.Unstructured)
		if !untyped {
			typed, ok := object.(T)
			if !ok {
				return nil, fmt.Errorf("a %T is none", object)
			}
			return check(typed), nil
		}
		typed := empty()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(custom.Object, typed); err != nil {
			return nil, err
		}
		return check(typed), nil
	}
}

// completed runs defaults of a Go type on an object. Only those fields of the spec are replaced that they
// changed, so that everything else stays as the user wrote it.
func completed[T runtime.Object](empty func() T, complete func(T)) func(*unstructured.Unstructured) error {
	return func(object *unstructured.Unstructured) error {
		typed := empty()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return err
		}
		before, err := specOf(typed)
		if err != nil {
			return err
		}
		complete(typed)
		after, err := specOf(typed)
		if err != nil {
			return err
		}
		for name, value := range after {
			if reflect.DeepEqual(before[name], value) {
				continue
			}
			if err := unstructured.SetNestedField(object.Object, value, "spec", name); err != nil {
				return err
			}
		}
		return nil
	}
}

func specOf(typed runtime.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, err
	}
	spec, _, err := unstructured.NestedMap(content, "spec")
	return spec, err
}

// sameSpec returns whether an update does not change the spec.
func sameSpec(object, old subject) bool {
	switch object := object.(type) {
	case *unstructured.Unstructured:
		old, ok := old.(*unstructured.Unstructured)
		// One kind has no spec, but webhooks.
		return ok && reflect.DeepEqual(object.Object["spec"], old.Object["spec"]) &&
			reflect.DeepEqual(object.Object["webhooks"], old.Object["webhooks"])
	case *workv1alpha1.Work:
		old, ok := old.(*workv1alpha1.Work)
		return ok && reflect.DeepEqual(object.Spec, old.Spec)
	}
	return false
}
