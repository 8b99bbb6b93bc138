// Package usersfirst has reconciles leave processors to the requests of users.
package usersfirst

import (
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// The loops of the stages share a limit. It is far above what keeps the processors busy, but for the time of requests of users.
const (
	reconcilesPerProcessor = 32
	// longestSlot is longer than a reconcile computes, and short enough for what waits in an unforeseen place.
	longestSlot = 250 * time.Millisecond
)

// New returns the limit of the loops of the stages, and what puts its Handler in front of another one.
func New(clk clock.WithDelayedExecution) (*controlloop.Limiter, func(http.Handler) http.Handler) {
	limiter := controlloop.NewLimiter(clk, reconcilesPerProcessor, longestSlot)
	return limiter, func(next http.Handler) http.Handler { return Handler(limiter, next) }
}

// Handler has reconciles leave processors to the requests of users that change something: those of others than this process and the agents.
func Handler(limiter *controlloop.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if changesForUser(r) {
			defer limiter.UserRequest()()
		}
		next.ServeHTTP(w, r)
	})
}

// changesForUser returns whether a request is one of a user that changes something here, and ends soon.
func changesForUser(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || !slices.Contains([]string{"create", "update", "patch", "delete"}, info.Verb) || info.Subresource == "proxy" {
		return false
	}
	author, ok := request.UserFrom(r.Context())
	return ok && author.GetName() != user.APIServerUser && !slices.Contains(author.GetGroups(), clusterv1alpha1.AgentsGroup)
}
