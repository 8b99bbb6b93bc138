package controlloop

import (
	"fmt"
	"runtime/debug"
)

// PanicError is what a function ended with that did not return.
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the goroutine at that moment, for a log. It is not part of the message: messages reach the conditions
	// of objects.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the argument of panic if it is an error, such as a runtime.Error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// CatchPanic calls f and returns its error, or a *PanicError if f panics. runtime.Goexit is not a panic: the goroutine ends.
// Neither are the errors that the runtime does not recover from, such as two writes to one map at the same time.
func CatchPanic(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return f()
}
