package waits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	// startTime is how long after the start of this server members are expected to connect: an agent opens its tunnel again within it.
	startTime = time.Minute
	// waitTime is for how long the lists of one user are refused because of one cluster, in each waitPeriod.
	waitTime   = 2 * time.Minute
	waitPeriod = time.Hour
	// longestRetry is how much of the time between two refused lists counts: a longer one is another outage.
	longestRetry = 30 * time.Second
	// brokenTime is for how long a cluster in the middle of whose objects a list ended is taken as one that does not answer.
	brokenTime = 10 * time.Second
	// retrySeconds is when a client sends a refused list again.
	retrySeconds = 2
)

// Waits records for how long lists were refused because of a cluster, by the user who was refused. It is bounded by user and not by the
// last answer of the cluster, since whoever controls the cluster determines when and to whom it answers. Everything is cleared each
// hour, which bounds the memory, too. Make one with New.
type Waits struct {
	clock clock.PassiveClock
	// began is when the server started.
	began time.Time

	mu      sync.Mutex
	period  time.Time
	refused map[refusedUser]refusals
}

type refusedUser struct{ user, cluster string }

type refusals struct {
	total time.Duration
	last  time.Time
	// broke is when a list ended in the middle of the objects of the cluster.
	broke time.Time
}

// New makes Waits of a server that starts now.
func New(c clock.PassiveClock) *Waits {
	return &Waits{clock: c, began: c.Now(), period: c.Now(), refused: map[refusedUser]refusals{}}
}

// Connecting returns whether a cluster that answers with err may be not connected yet, because this server has just started.
func (w *Waits) Connecting(err error) bool {
	return err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && w.starting()
}

func (w *Waits) starting() bool { return w.clock.Since(w.began) < startTime }

// Refusal returns the error of a list of a user that is not sent without clusters that failed, nil if it is sent. has returns whether the
// client has objects of a cluster: a list without it means that they are deleted. connecting returns whether a cluster is expected to connect.
func (w *Waits) Refusal(user string, failed map[string]error, has, connecting func(cluster string) bool) error {
	var absent, reasons []string
	for cluster := range failed {
		if has(cluster) && w.refuse(user, cluster) || connecting(cluster) {
			absent = append(absent, cluster)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	slices.Sort(absent)
	for _, cluster := range absent {
		reasons = append(reasons, fmt.Sprintf("cluster %s: %v", cluster, failed[cluster]))
	}
	advice := "a list without resourceVersion has the objects of the other clusters"
	if w.starting() {
		advice = fmt.Sprintf("the server started less than %s ago, and clusters that do not answer are left out later", startTime)
	}
	return Later(fmt.Sprintf("the list would be without the objects of %s (%s); send it again: %s",
		strings.Join(absent, ", "), strings.Join(reasons, "; "), advice))
}

// refuse returns whether a list of a user is to be refused because of a cluster of which the client has objects, and records it.
func (w *Waits) refuse(user, cluster string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	if now.Sub(w.period) >= waitPeriod {
		w.period = now
		clear(w.refused)
	}
	key := refusedUser{user, cluster}
	r := w.refused[key]
	if !r.last.IsZero() {
		r.total += min(now.Sub(r.last), longestRetry)
	}
	r.last = now
	w.refused[key] = r
	return r.total < waitTime
}

// Broke records that a list of a user ended at a cluster that had answered: nothing else can be sent to the client then. The client sends
// the list again, and a cluster that answers only so far would end each of them. Nothing is recorded if ctx is done, since the client has
// gone, or for a page with a token of the client, which may have expired.
func (w *Waits) Broke(ctx context.Context, user, cluster, token string) {
	if ctx.Err() != nil || token != "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.refused[refusedUser{user, cluster}]
	r.broke = w.clock.Now()
	w.refused[refusedUser{user, cluster}] = r
}

// Broken returns the error of a cluster at which a list of the user has just ended, nil for others.
func (w *Waits) Broken(user, cluster string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clock.Since(w.refused[refusedUser{user, cluster}].broke) >= brokenTime {
		return nil
	}
	return fmt.Errorf("a list ended in the middle of its objects less than %s ago", brokenTime)
}

// Later is the answer to a request that may succeed soon. Clients of client-go send it again.
func Later(message string) error {
	unavailable := apierrors.NewServiceUnavailable(message)
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retrySeconds}
	return unavailable
}
