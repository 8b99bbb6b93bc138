package controlloop

import (
	"errors"

	"github.com/go-logr/logr"
)

// LogFailure logs the first failure in a row of an object, and then the second, fourth, eighth and so on, so that an object that
// fails for an hour is in the log several times, and not every minute. The others are logged at verbosity 1, as are all that are
// expected.
func LogFailure(logger logr.Logger, err error, failures int, expected bool) {
	switch {
	case failures&(failures-1) != 0, expected:
		logger.V(1).Info("The reconcile failed, trying again later", "reason", err.Error(), "failures", failures)
	case logPanic(logger.WithValues("failures", failures), err, "The reconcile panicked, trying again later"):
	default:
		logger.Info("The reconcile failed, trying again later", "reason", err.Error(), "failures", failures)
	}
}

// logPanic logs a panic with its stack, and returns whether the error is one.
func logPanic(logger logr.Logger, err error, message string) bool {
	panicked, is := errors.AsType[*PanicError](err)
	if is {
		logger.Error(err, message, "stack", string(panicked.Stack))
	}
	return is
}
