package declarative

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative/sandbox"
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

// rule is a script, the function it has to define and its field in a customization.
type rule struct {
	function, field, source string
}

// compiler compiles scripts, each text once. It is meant for one goroutine.
type compiler map[string]*sandbox.Program

func (c compiler) compile(r rule) (*sandbox.Program, error) {
	program := c[r.source]
	if program == nil {
		compiled, err := sandbox.Compile(r.source)
		if err != nil {
			return nil, err
		}
		c[r.source], program = compiled, compiled
	}
	if !program.Defines(r.function) {
		return nil, fmt.Errorf("the script does not define the function %s", r.function)
	}
	return program, nil
}

// rules lists the scripts of a customization.
func rules(c *configv1alpha1.CustomizationRules) []rule {
	var list []rule
	add := func(function, field, source string) {
		if source != "" {
			list = append(list, rule{function: function, field: field, source: source})
		}
	}
	add(getReplicas, "replicaResource", ptr.Deref(c.ReplicaResource, configv1alpha1.ReplicaResourceRequirement{}).LuaScript)
	add(getComponents, "componentResource", ptr.Deref(c.ComponentResource, configv1alpha1.ComponentResourceRequirement{}).LuaScript)
	add(reviseReplica, "replicaRevision", ptr.Deref(c.ReplicaRevision, configv1alpha1.ReplicaRevision{}).LuaScript)
	add(retain, "retention", ptr.Deref(c.Retention, configv1alpha1.LocalValueRetention{}).LuaScript)
	add(aggregateStatus, "statusAggregation", ptr.Deref(c.StatusAggregation, configv1alpha1.StatusAggregation{}).LuaScript)
	add(reflectStatus, "statusReflection", ptr.Deref(c.StatusReflection, configv1alpha1.StatusReflection{}).LuaScript)
	add(interpretHealth, "healthInterpretation", ptr.Deref(c.HealthInterpretation, configv1alpha1.HealthInterpretation{}).LuaScript)
	add(getDependencies, "dependencyInterpretation", ptr.Deref(c.DependencyInterpretation, configv1alpha1.DependencyInterpretation{}).LuaScript)
	return list
}

// Check returns what is wrong with the scripts of a customization, without running them: each has to compile and to define its
// function.
func Check(customization *configv1alpha1.ResourceInterpreterCustomization) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "customizations")
	scripts := compiler{}
	for _, r := range rules(&customization.Spec.Customizations) {
		if _, err := scripts.compile(r); err != nil {
			errs = append(errs, field.Invalid(path.Child(r.field, "luaScript"), field.OmitValueType{}, err.Error()))
		}
	}
	return errs
}
