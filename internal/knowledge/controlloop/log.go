package controlloop

import (
	"errors"

	"github.com/go-logr/logr"
)

// LogFailure logs the first failure in a row of an object, and then the second, fourth, eighth and so on, so that an object that
// fails for an hour is in the log several times, and not every minute. The others are logged at verbosity 1, as are all that are
// expected.
func LogFailure(logger logr.Logger, err error, failures int, expected bool) {
	var panicked *PanicError
	switch {
	case failures&(failures-1) != 0, expected:
		logger.V(1).Info("The reconcile failed, trying again later", "reason", err.Error(), "failures", failures)
	case errors.As(err, &panicked):
		logger.Error(err, "The reconcile panicked, trying again later", "failures", failures, "stack", string(panicked.Stack))
	default:
		logger.Info("The reconcile failed, trying again later", "reason", err.Error(), "failures", failures)
	}
}
