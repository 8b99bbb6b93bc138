package waits

import (
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
	// retrySeconds is when a client sends a refused list again.
	retrySeconds = 2
)

// Waits records for how long lists were refused because of a cluster, by the user who was refused. It is bounded by user and not by the
// last answer of the cluster, since whoever controls the cluster determines when and to whom it answers. Everything is forgotten each
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
	r, again := w.refused[key]
	if again {
		r.total += min(now.Sub(r.last), longestRetry)
	}
	r.last = now
	w.refused[key] = r
	return r.total < waitTime
}

// Later is the answer to a request that may succeed soon. Clients of client-go send it again.
func Later(message string) error {
	unavailable := apierrors.NewServiceUnavailable(message)
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: retrySeconds}
	return unavailable
}
