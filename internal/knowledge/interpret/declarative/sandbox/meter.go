package sandbox

import (
	"context"
	"errors"
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// What one call may use.
const (
	maxSteps  = 2_000_000
	maxString = 1 << 20
	// stringStep is how many bytes of new strings cost one step.
	stringStep = 64
	// pollSteps is after how many steps the time is checked.
	pollSteps = 256
)

var errSteps = errors.New("the script took more than 2000000 steps")

// meter counts what a call uses. It is a context, since the virtual machine calls Done once before every instruction. It serves
// one call on one goroutine.
type meter struct {
	context.Context
	steps int
	poll  int
	err   error
	// ended is what Done returns once the call has to end.
	ended chan struct{}
}

func newMeter(ctx context.Context) *meter {
	m := &meter{Context: ctx, steps: maxSteps, poll: pollSteps, ended: make(chan struct{})}
	close(m.ended)
	return m
}

// Done counts one step. A nil channel is never ready.
func (m *meter) Done() <-chan struct{} {
	m.use(1)
	if m.err == nil {
		return nil
	}
	return m.ended
}

// Err is why the call has to end.
func (m *meter) Err() error { return m.err }

// use counts steps; the first limit that is reached stays the reason to end.
func (m *meter) use(steps int) {
	m.steps -= steps
	m.poll -= steps
	switch {
	case m.err != nil:
	case m.steps < 0:
		m.err = errSteps
	case m.poll < 0:
		m.poll = pollSteps
		if err := m.Context.Err(); err != nil {
			m.err = fmt.Errorf("the script did not end in time: %w", err)
		}
	}
}

// Charge makes the present call pay for what a function of Go is about to do, and ends it if it has used up its steps or time.
func Charge(vm *lua.LState, steps int) {
	m := vm.Context().(*meter)
	m.use(steps)
	if m.err != nil {
		vm.RaiseError("%s", m.err)
	}
}

// chargeString makes the present call pay for a string of the length, and ends it if that is too long.
func chargeString(vm *lua.LState, length int) {
	if length > maxString || length < 0 {
		vm.RaiseError("the script builds a string of more than %d bytes", maxString)
	}
	Charge(vm, length/stringStep)
}
