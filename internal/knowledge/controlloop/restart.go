package controlloop

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flagship-k8s/flagship/internal/knowledge/backoff"
)

// Restarted returns a part of a loop that is started again, with backoff, when it panics: it loses what it was doing. It is for a part that is
// neither reconciles nor turns, and may be started more than once.
func Restarted(mgr ctrl.Manager, r manager.Runnable) manager.Runnable {
	return &restarted{r, Of(mgr)}
}

type restarted struct {
	manager.Runnable
	loop *Loop
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *restarted) NeedLeaderElection() bool { return needsLeaderElection(r.Runnable) }

// Start implements manager.Runnable.
func (r *restarted) Start(ctx context.Context) error {
	pauses := backoff.Limiter[string]()
	for {
		err := CatchPanic(func() error { return r.Runnable.Start(ctx) })
		if !logPanic(log.FromContext(ctx).WithName(r.loop.name), err, "The loop panicked, starting it again") {
			return err
		}
		r.loop.panicked()
		pause := time.NewTimer(pauses.When(""))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
	}
}
