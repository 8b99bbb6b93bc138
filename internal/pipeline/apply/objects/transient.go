package objects

import "errors"

// transientError is a failure that is expected to be over within moments, such as a namespace that is on its way. It is
// retried like any other, but not shown to the user before it has lasted.
type transientError struct{ error }

func Transient(err error) error { return transientError{err} }

// Unwrap returns the failure itself.
func (e transientError) Unwrap() error { return e.error }

func IsTransient(err error) bool {
	var p transientError
	return errors.As(err, &p)
}
