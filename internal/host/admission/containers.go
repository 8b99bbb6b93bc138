package admission

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	edits "github.com/flagship-k8s/flagship/internal/knowledge/override"
)

// maxContainerWarnings is how many warnings about containers one write gets.
const maxContainerWarnings = 10

// warnContainers warns of each kind that an override policy selects by name and in which its overriders of containers find none. What selects
// everything has no warning: some of it has containers.
func warnContainers(ctx context.Context, kind schema.GroupKind, object, old subject) {
	custom, ok := object.(*unstructured.Unstructured)
	if !ok || kind.Group != policyv1alpha1.GroupName || sameSpec(object, old) {
		return
	}
	var policy policyv1alpha1.Override
	switch kind.Kind {
	case policyv1alpha1.KindOverridePolicy:
		policy = &policyv1alpha1.OverridePolicy{}
	case policyv1alpha1.KindClusterOverridePolicy:
		policy = &policyv1alpha1.ClusterOverridePolicy{}
	default:
		return
	}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(custom.Object, policy) != nil {
		return // the schema refuses it
	}
	overrider, remedy := containerOverrider(policy)
	if overrider == "" {
		return
	}
	warnings := 0
	for i := range policy.OverrideSpec().ResourceSelectors {
		of := policy.OverrideSpec().ResourceSelectors[i].Kind
		if of == "" || edits.FindsContainers(of) || warnings == maxContainerWarnings {
			continue
		}
		warnings++
		warning.AddWarning(ctx, "", fmt.Sprintf("%s selects the kind %s, of which %s changes nothing: it finds containers only in Pods and in the built-in kinds that make them. %s",
			field.NewPath("spec", "resourceSelectors").Index(i), of, overrider, remedy))
	}
}

// containerOverrider names the first overrider that edits the containers that it finds, and what edits those of another kind.
func containerOverrider(policy policyv1alpha1.Override) (name, remedy string) {
	for _, rule := range edits.Rules(policy) {
		for i := range rule.Overriders.ImageOverrider {
			if rule.Overriders.ImageOverrider[i].Predicate == nil {
				return fmt.Sprintf("imageOverrider[%d]", i), "Its predicate.path names the field of an image there"
			}
		}
		switch {
		case len(rule.Overriders.CommandOverrider) > 0:
			return "commandOverrider", "A plaintext overrider names the field there"
		case len(rule.Overriders.ArgsOverrider) > 0:
			return "argsOverrider", "A plaintext overrider names the field there"
		}
	}
	return "", ""
}
