package declarative

import (
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

// kubeStep is what a call that reads a whole pod template costs.
const kubeStep = 500

// kubeFunctions are the library kube: quantities, and what the built-in kinds
// know about pods.
func (v *machine) kubeFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"resourceAdd":             v.resourceAdd,
		"getResourceQuantity":     v.resourceQuantity,
		"accuratePodRequirements": v.podRequirements,
		"getPodDependencies":      v.podDependencies,
	}
}

// resourceAdd returns the sum of quantities, as text.
func (v *machine) resourceAdd(vm *lua.LState) int {
	sum := resource.Quantity{}
	for i := 1; i <= vm.GetTop(); i++ {
		sum.Add(v.quantity(i))
	}
	vm.Push(lua.LString(sum.String()))
	return 1
}

// resourceQuantity returns a quantity as a number.
func (v *machine) resourceQuantity(vm *lua.LState) int {
	quantity := v.quantity(1)
	vm.Push(lua.LNumber(quantity.AsApproximateFloat64()))
	return 1
}

// quantity reads an argument; nil is nothing.
func (v *machine) quantity(argument int) resource.Quantity {
	v.meter.use(kubeStep / 10)
	switch value := v.vm.Get(argument).(type) {
	case *lua.LNilType:
		return resource.Quantity{}
	case lua.LString, lua.LNumber:
		quantity, err := resource.ParseQuantity(lua.LVAsString(value))
		if err != nil {
			v.vm.ArgError(argument, err.Error())
		}
		return quantity
	default:
		v.vm.ArgError(argument, "a quantity is text or a number")
		return resource.Quantity{}
	}
}

// podRequirements returns what a pod of a template needs, in the form of a
// binding's replicaRequirements, or nil if it needs nothing in particular.
func (v *machine) podRequirements(vm *lua.LState) int {
	requirements := builtin.Requirements(&v.podTemplate(1).Spec)
	if requirements == nil {
		vm.Push(lua.LNil)
		return 1
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(requirements)
	if err != nil {
		vm.RaiseError("encoding requirements: %s", err)
	}
	vm.Push(newTranslation(vm).value(fields))
	return 1
}

// podDependencies lists the objects that a pod of a template needs in a
// namespace; by default in that of the template.
func (v *machine) podDependencies(vm *lua.LState) int {
	template := v.podTemplate(1)
	namespace := vm.OptString(2, template.Namespace)
	list := []any{}
	for _, dependency := range builtin.PodDependencies(&template.Spec, namespace) {
		list = append(list, map[string]any{
			"apiVersion": dependency.APIVersion, "kind": dependency.Kind,
			"namespace": dependency.Namespace, "name": dependency.Name,
		})
	}
	vm.Push(newTranslation(vm).value(list))
	return 1
}

func (v *machine) podTemplate(argument int) *corev1.PodTemplateSpec {
	v.meter.use(kubeStep)
	v.check()
	template := &corev1.PodTemplateSpec{}
	if err := newTranslation(v.vm).decode(v.vm.CheckTable(argument), template); err != nil {
		v.vm.ArgError(argument, "not a pod template: "+err.Error())
	}
	return template
}
