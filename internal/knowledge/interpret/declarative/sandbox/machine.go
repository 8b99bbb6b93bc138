package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Pool has virtual machines with the same libraries.
type Pool struct {
	// Timeout bounds the time of a call. Default 1 s.
	Timeout  time.Duration
	machines sync.Pool
}

// Library is functions by name.
type Library map[string]lua.LGFunction

// NewPool returns a pool of machines with the standard libraries and others by name.
func NewPool(libraries map[string]Library) *Pool {
	p := &Pool{Timeout: time.Second}
	p.machines.New = func() any { return newMachine(libraries) }
	return p
}

// maxMessage is how much of a script's own error is kept, in bytes.
const maxMessage = 1024

// Take reads what a function returned, while it is in the machine.
type Take func(values *Values, results []lua.LValue) error

// Call runs the program and then the function that it defines. A machine whose call failed is not used again.
func (p *Pool) Call(ctx context.Context, program *Program, function string, results int, args []any, take Take) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	m := p.machines.Get().(*machine)
	if err := m.call(ctx, program, function, results, args, take); err != nil {
		return err
	}
	p.machines.Put(m)
	return nil
}

// machine is a virtual machine that runs one call at a time.
type machine struct {
	vm *lua.LState
	// libraries has the metatables through which the tables of a call reach the functions, by library; the empty name is that of
	// the globals.
	libraries map[string]*lua.LTable
}

func newMachine(libraries map[string]Library) *machine {
	m := &machine{vm: lua.NewState(lua.Options{
		SkipOpenLibs:     true,
		CallStackSize:    200,
		RegistrySize:     1 << 10,
		RegistryGrowStep: 1 << 10,
		RegistryMaxSize:  16 << 10,
	})}
	m.libraries = openLibraries(m.vm, libraries)
	// Methods of strings, as in text:sub(1, 2), are the functions of the library.
	m.vm.SetMetatable(lua.LString(""), m.libraries["string"])
	return m
}

func (m *machine) call(ctx context.Context, program *Program, function string, results int, args []any, take Take) error {
	meter := newMeter(ctx)
	m.vm.SetContext(meter)
	defer m.vm.SetTop(0)

	values := NewValues(m.vm)
	arguments := make([]lua.LValue, len(args))
	for i, arg := range args {
		arguments[i] = values.Lua(arg)
	}
	globals := m.environment()
	chunk := m.vm.NewFunctionFromProto(program.proto)
	chunk.Env = globals
	if err := m.vm.CallByParam(lua.P{Fn: chunk, Protect: true}); err != nil {
		return failure(meter, function, err)
	}
	callee, ok := globals.RawGetString(function).(*lua.LFunction)
	if !ok {
		return fmt.Errorf("%s is not a function", function)
	}
	if err := m.vm.CallByParam(lua.P{Fn: callee, NRet: results, Protect: true}, arguments...); err != nil {
		return failure(meter, function, err)
	}
	returned := make([]lua.LValue, results)
	for i := range returned {
		returned[i] = m.vm.Get(i - results)
	}
	if err := take(values, returned); err != nil {
		return fmt.Errorf("result of %s: %w", function, err)
	}
	return nil
}

func failure(meter *meter, function string, err error) error {
	if meter.err != nil {
		return fmt.Errorf("%s: %w", function, meter.err)
	}
	if failed, ok := errors.AsType[*lua.ApiError](err); ok {
		text := strings.TrimSpace(failed.Object.String())
		return errors.New(strings.ToValidUTF8(text[:min(len(text), maxMessage)], ""))
	}
	return err
}

// environment makes the globals of one call: empty tables with the libraries behind them, so that nothing a script writes
// outlives the call. Scripts cannot reach the libraries themselves, there being no getmetatable.
func (m *machine) environment() *lua.LTable {
	globals := m.vm.CreateTable(0, len(m.libraries)+2)
	for name, behind := range m.libraries {
		table := globals
		if name != "" {
			table = m.vm.CreateTable(0, 0)
			globals.RawSetString(name, table)
		}
		table.Metatable = behind
	}
	globals.RawSetString("_G", globals)
	globals.RawSetString("require", m.vm.NewFunction(func(vm *lua.LState) int {
		name := vm.CheckString(1)
		library, ok := globals.RawGetString(name).(*lua.LTable)
		if !ok || m.libraries[name] == nil {
			vm.RaiseError("there is no module %q here", name)
		}
		vm.Push(library)
		return 1
	}))
	return globals
}
