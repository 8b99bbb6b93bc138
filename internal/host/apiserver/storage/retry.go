package storage

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// retryPause and retryPatience are how often and for how long a step is tried again while storage does not answer.
const retryPause, retryPatience = time.Second, 2 * time.Minute

// Retry runs a step of a start again while storage does not answer, as on a disk that stalls for seconds, for two minutes at most. It returns the
// last error of the step. A step may run more than once.
func Retry(ctx context.Context, config *rest.Config, step func(context.Context, *rest.Config) error) error {
	var failure error
	err := wait.PollUntilContextTimeout(ctx, retryPause, retryPatience, true, func(ctx context.Context) (bool, error) {
		failure = step(ctx, config)
		if failure == nil || !isUnanswered(failure) {
			return true, failure
		}
		log.FromContext(ctx).Error(failure, "A step of the start is tried again")
		return false, nil
	})
	if wait.Interrupted(err) && failure != nil {
		return failure
	}
	return err
}

// isUnanswered returns whether an error is a server's failure to answer, and not its refusal.
func isUnanswered(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}
