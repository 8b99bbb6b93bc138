package declarative

import (
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/dependencies"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative/sandbox"
)

// kubeStep is what a call that reads a whole pod template costs.
const kubeStep = 500

// kube is the library of that name: quantities, and what the built-in kinds have for pods.
func kube() sandbox.Library {
	return sandbox.Library{
		"resourceAdd":             resourceAdd,
		"getResourceQuantity":     resourceQuantity,
		"accuratePodRequirements": podRequirements,
		"getPodDependencies":      podDependencies,
	}
}

// resourceAdd returns the sum of quantities, as text.
func resourceAdd(vm *lua.LState) int {
	sum := resource.Quantity{}
	for i := 1; i <= vm.GetTop(); i++ {
		sum.Add(quantity(vm, i))
	}
	vm.Push(lua.LString(sum.String()))
	return 1
}

// resourceQuantity returns a quantity as a number.
func resourceQuantity(vm *lua.LState) int {
	parsed := quantity(vm, 1)
	vm.Push(lua.LNumber(parsed.AsApproximateFloat64()))
	return 1
}

// quantity reads an argument; nil is nothing.
func quantity(vm *lua.LState, argument int) resource.Quantity {
	sandbox.Charge(vm, kubeStep/10)
	switch value := vm.Get(argument).(type) {
	case *lua.LNilType:
		return resource.Quantity{}
	case lua.LString, lua.LNumber:
		parsed, err := sandbox.Quantity(lua.LVAsString(value))
		if err != nil {
			vm.ArgError(argument, err.Error())
		}
		return parsed
	default:
		vm.ArgError(argument, "a quantity is text or a number")
		return resource.Quantity{}
	}
}

// podRequirements returns what a pod of a template needs, in the form of a binding's replicaRequirements, or nil if it needs
// nothing in particular.
func podRequirements(vm *lua.LState) int {
	requirements := builtin.Requirements(&podTemplate(vm, 1).Spec)
	if requirements == nil {
		vm.Push(lua.LNil)
		return 1
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(requirements)
	if err != nil {
		vm.RaiseError("encoding requirements: %s", err)
	}
	vm.Push(sandbox.NewValues(vm).Lua(fields))
	return 1
}

// podDependencies lists the objects that a pod of a template needs in a namespace; by default in that of the template.
func podDependencies(vm *lua.LState) int {
	template := podTemplate(vm, 1)
	namespace := vm.OptString(2, template.Namespace)
	list := []any{}
	for _, dependency := range dependencies.OfPod(&template.Spec, namespace) {
		list = append(list, map[string]any{
			"apiVersion": dependency.APIVersion, "kind": dependency.Kind,
			"namespace": dependency.Namespace, "name": dependency.Name,
		})
	}
	vm.Push(sandbox.NewValues(vm).Lua(list))
	return 1
}

func podTemplate(vm *lua.LState, argument int) *corev1.PodTemplateSpec {
	sandbox.Charge(vm, kubeStep)
	template := &corev1.PodTemplateSpec{}
	if err := sandbox.NewValues(vm).Decode(vm.CheckTable(argument), template); err != nil {
		vm.ArgError(argument, "not a pod template: "+err.Error())
	}
	return template
}
