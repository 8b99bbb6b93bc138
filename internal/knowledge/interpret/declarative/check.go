package declarative

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative/sandbox"
)

// Function is one that a script defines for an operation.
type Function struct {
	Name string
	// Field is the one of a customization that has the script, in its field luaScript.
	Field     string
	Operation configv1alpha1.InterpreterOperation
	// assign sets the operation to the first of the scripts, or to all of them.
	assign func(*interpret.Operations, []script)
}

// Functions lists the functions of all operations.
func Functions() []Function {
	return []Function{
		{"GetReplicas", "replicaResource", configv1alpha1.InterpreterOperationInterpretReplica, func(o *interpret.Operations, s []script) { o.Replicas = s[0].replicas }},
		{"GetComponents", "componentResource", configv1alpha1.InterpreterOperationInterpretComponent, func(o *interpret.Operations, s []script) { o.Components = s[0].components }},
		{"ReviseReplica", "replicaRevision", configv1alpha1.InterpreterOperationReviseReplica, func(o *interpret.Operations, s []script) { o.Revise = s[0].revise }},
		{"Retain", "retention", configv1alpha1.InterpreterOperationRetain, func(o *interpret.Operations, s []script) { o.Retain = s[0].retain }},
		{"AggregateStatus", "statusAggregation", configv1alpha1.InterpreterOperationAggregateStatus, func(o *interpret.Operations, s []script) { o.Aggregate = s[0].aggregate }},
		{"ReflectStatus", "statusReflection", configv1alpha1.InterpreterOperationInterpretStatus, func(o *interpret.Operations, s []script) { o.Reflect = s[0].reflect }},
		{"InterpretHealth", "healthInterpretation", configv1alpha1.InterpreterOperationInterpretHealth, func(o *interpret.Operations, s []script) { o.Health = s[0].health }},
		{"GetDependencies", "dependencyInterpretation", configv1alpha1.InterpreterOperationInterpretDependency, func(o *interpret.Operations, s []script) { o.Dependencies = dependenciesOf(s) }},
	}
}

// rule is a script of a customization and the function that it has to define.
type rule struct {
	Function
	source string
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
	if !program.Defines(r.Name) {
		return nil, fmt.Errorf("the script does not define the function %s", r.Name)
	}
	return program, nil
}

// rules lists the scripts of a customization.
func rules(c *configv1alpha1.ResourceInterpreterCustomization) []rule {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&c.Spec.Customizations)
	if err != nil {
		return nil // never: the type has texts only
	}
	var list []rule
	for _, function := range Functions() {
		if source, _, _ := unstructured.NestedString(fields, function.Field, "luaScript"); source != "" {
			list = append(list, rule{function, source})
		}
	}
	return list
}

// Check returns what is wrong with the scripts of a customization, without running them: each has to compile and to define its
// function.
func Check(customization *configv1alpha1.ResourceInterpreterCustomization) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "customizations")
	scripts := compiler{}
	for _, r := range rules(customization) {
		if _, err := scripts.compile(r); err != nil {
			errs = append(errs, field.Invalid(path.Child(r.Field, "luaScript"), field.OmitValueType{}, err.Error()))
		}
	}
	return errs
}
