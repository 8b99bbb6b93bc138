// Package recovery turns a panic into an error, so that it ends the work on one object and not the process, which is also
// the API server and its storage.
//
// In: a function.
// Out: its error, or a *PanicError with the stack.
// Owns: nothing.
// Never: logs, retries or counts; the loop that called it does.
package recovery
