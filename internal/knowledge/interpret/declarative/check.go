package declarative

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
)

// Names of the functions that scripts define.
const (
	getReplicas     = "GetReplicas"
	getComponents   = "GetComponents"
	reviseReplica   = "ReviseReplica"
	retain          = "Retain"
	aggregateStatus = "AggregateStatus"
	reflectStatus   = "ReflectStatus"
	interpretHealth = "InterpretHealth"
	getDependencies = "GetDependencies"
)

// rule is a script, the function it has to define and its field in a
// customization.
type rule struct {
	function, field, source string
}

// rules lists the scripts of a customization.
func rules(c *configv1alpha1.CustomizationRules) []rule {
	var list []rule
	add := func(function, field, source string) {
		if source != "" {
			list = append(list, rule{function: function, field: field, source: source})
		}
	}
	if r := c.ReplicaResource; r != nil {
		add(getReplicas, "replicaResource", r.LuaScript)
	}
	if r := c.ComponentResource; r != nil {
		add(getComponents, "componentResource", r.LuaScript)
	}
	if r := c.ReplicaRevision; r != nil {
		add(reviseReplica, "replicaRevision", r.LuaScript)
	}
	if r := c.Retention; r != nil {
		add(retain, "retention", r.LuaScript)
	}
	if r := c.StatusAggregation; r != nil {
		add(aggregateStatus, "statusAggregation", r.LuaScript)
	}
	if r := c.StatusReflection; r != nil {
		add(reflectStatus, "statusReflection", r.LuaScript)
	}
	if r := c.HealthInterpretation; r != nil {
		add(interpretHealth, "healthInterpretation", r.LuaScript)
	}
	if r := c.DependencyInterpretation; r != nil {
		add(getDependencies, "dependencyInterpretation", r.LuaScript)
	}
	return list
}

// Check returns what is wrong with the scripts of a customization, without
// running them: each has to compile and to define its function.
func Check(customization *configv1alpha1.ResourceInterpreterCustomization) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "customizations")
	scripts := compiler{}
	for _, r := range rules(&customization.Spec.Customizations) {
		if _, err := scripts.program(customization.Name, r); err != nil {
			errs = append(errs, field.Invalid(path.Child(r.field, "luaScript"), field.OmitValueType{}, err.Error()))
		}
	}
	return errs
}
