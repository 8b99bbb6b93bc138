package apply

import "errors"

// passingError is a failure that is expected to be over within moments, such as a namespace that is on its way. It is
// retried like any other, but not shown to the user before it has lasted.
type passingError struct{ error }

func passing(err error) error { return passingError{err} }

// Unwrap returns the failure itself.
func (e passingError) Unwrap() error { return e.error }

func isPassing(err error) bool {
	var p passingError
	return errors.As(err, &p)
}
