package declarative

import (
	"context"
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// machine is a virtual machine with what scripts may use. It runs one call at a
// time and can be used again, unless a call failed.
type machine struct {
	vm    *lua.LState
	meter *meter
	// behind holds the metatables of an environment's tables.
	behind map[string]*lua.LTable
	// globals is the environment of the present call.
	globals *lua.LTable
}

func newMachine() *machine {
	v := &machine{
		vm: lua.NewState(lua.Options{
			SkipOpenLibs:     true,
			CallStackSize:    200,
			RegistrySize:     1 << 10,
			RegistryGrowStep: 1 << 10,
			RegistryMaxSize:  16 << 10,
		}),
		meter: newMeter(context.Background()),
	}
	v.behind = v.metatables(v.newLibrary())
	// Methods of strings, as in text:sub(1, 2), are the functions of the library.
	v.vm.SetMetatable(lua.LString(""), v.behind["string"])
	return v
}

// call runs the program's chunk and then its function, and hands the results to
// take while they are still in the machine.
func (v *machine) call(ctx context.Context, p *program, results int, args []any, take func(*translation, []lua.LValue) error) error {
	v.meter = newMeter(ctx)
	v.vm.SetContext(v.meter)
	defer v.vm.SetTop(0)

	translation := newTranslation(v.vm)
	values := make([]lua.LValue, len(args))
	for i, arg := range args {
		values[i] = translation.value(arg)
	}
	chunk := v.vm.NewFunctionFromProto(p.proto)
	v.globals = v.environment()
	chunk.Env = v.globals
	if err := v.vm.CallByParam(lua.P{Fn: chunk, Protect: true}); err != nil {
		return v.failure(p, err)
	}
	function, ok := v.globals.RawGetString(p.function).(*lua.LFunction)
	if !ok {
		return fmt.Errorf("customization %s: %s is not a function", p.origin, p.function)
	}
	if err := v.vm.CallByParam(lua.P{Fn: function, NRet: results, Protect: true}, values...); err != nil {
		return v.failure(p, err)
	}
	answers := make([]lua.LValue, results)
	for i := range answers {
		answers[i] = v.vm.Get(i - results)
	}
	if err := take(translation, answers); err != nil {
		return fmt.Errorf("customization %s: result of %s: %w", p.origin, p.function, err)
	}
	return nil
}

func (v *machine) failure(p *program, err error) error {
	if v.meter.err != nil {
		return fmt.Errorf("customization %s: %s: %w", p.origin, p.function, v.meter.err)
	}
	var failed *lua.ApiError
	if errors.As(err, &failed) {
		err = errors.New(strings.TrimSpace(failed.Object.String()))
	}
	return fmt.Errorf("customization %s: %w", p.origin, err)
}
