package controlplane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/caches"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/sharding"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// rebuildPause is how long after a failure the loops of a server that lost the lease are built again.
const rebuildPause = time.Second

// term is one set of loops with their caches. A controller of controller-runtime runs once, so a server that loses the lease builds all of
// them anew, and is a candidate again once the new caches are filled. With one server there is one term.
type term struct {
	mgr ctrl.Manager
	// lock is held while the loops run; nil with one server.
	lock *leader.Term
	// members runs the loops of members: mgr, or a manager of its own on the cache of mgr if servers share members. Shard has this server's
	// share then, and is nil otherwise.
	members ctrl.Manager
	shard   *sharding.Server
	// unshared has a leader that serves all members wait for servers that serve a share of them; nil if servers share members.
	unshared *sharding.Unshared
	// first is true for the first term of the process.
	first bool
	loops *controlloop.Set
	// synced is closed when the caches are filled.
	synced <-chan struct{}
	cancel context.CancelFunc
}

// mayWrite is nil with one server.
func (t *term) mayWrite() func(cluster string) error {
	if t.lock == nil {
		return nil
	}
	return func(string) error { return t.lock.Check() }
}

// caches are what the loops decide from. They are filled once synced is closed.
func (t *term) caches(server *apiserver.Server) leader.Caches {
	return leader.Caches{Live: t.mgr.GetAPIReader(), Loops: t.mgr.GetCache(), Local: server.ListerWatcher}
}

// run runs the loops until the context is done, or a part of them ends. Other servers take over while they end.
func (t *term) run(ctx context.Context) error {
	if t.lock == nil {
		return t.mgr.Start(ctx)
	}
	parts, running := errgroup.WithContext(ctx)
	run := func(part func(context.Context) error) {
		parts.Go(func() error {
			if err := part(running); err != nil || ctx.Err() != nil {
				return err
			}
			return errPartEnded // so that the others end, too
		})
	}
	run(t.mgr.Start)
	if t.shard != nil {
		run(t.shard.Start)
		run(func(ctx context.Context) error {
			select {
			case <-t.synced:
				return t.members.Start(ctx)
			case <-ctx.Done():
				return nil
			}
		})
	}
	parts.Go(func() error {
		<-running.Done()
		if err := t.release(context.WithoutCancel(ctx)); err != nil {
			log.FromContext(ctx).WithName("leader").Error(err, "Other servers take over only when the leases of this one have expired")
		}
		return nil
	})
	if err := parts.Wait(); !errors.Is(err, errPartEnded) {
		return err
	}
	return nil
}

// release has other servers take over. Nothing is written any more.
func (t *term) release(ctx context.Context) error {
	err := t.lock.Release(ctx)
	if t.shard != nil {
		err = errors.Join(err, t.shard.Release(ctx))
	}
	return err
}

// errPartEnded has the loops end when a part of them has ended.
var errPartEnded = errors.New("a part of the loops has ended")

// end ends everything that the loops may have left.
func (t *term) end() {
	t.lock.End()
	if t.shard != nil {
		t.shard.Term().End()
	}
	t.cancel()
}

// lost returns whether the loops ran and a lease was lost; err is what they ended with.
func (t *term) lost(err error) bool {
	if t.lock == nil {
		return false
	}
	if errors.Is(err, sharding.ErrLost) {
		return true
	}
	select {
	case <-t.mgr.Elected():
		return t.lock.Check() != nil
	default:
		return false
	}
}

// newTerm builds the loops.
func (h *Hub) newTerm(ctx context.Context, first bool) (_ *term, err error) {
	o := h.options
	o.metrics = prometheus.NewRegistry()
	o.loops = controlloop.NewSet(o.metrics, o.Clock)
	// Statuses are written behind what brings objects to members: written during a burst, they take a tenth to a sixth of the time until all of
	// its objects are there. Revisions are not: the state before a change is read from the storage, which has it for five minutes.
	o.loops.Limit(o.limiter,
		[]string{"propagate", "schedule", "render", "apply", "observe", "namespaces", "service", "import", "history", "collect", "exports", "exported-endpoints", "imports"},
		[]string{"report", "aggregate"})
	o.loops.Trace(h.server.TracerProvider())
	t := &term{first: first, loops: o.loops}
	if o.LeaderElection {
		if t.lock, err = leader.New(h.server.LoopbackConfig(), o.Clock); err != nil {
			return nil, err
		}
	}
	o.term.Store(t.lock)
	if t.mgr, err = caches.NewManager(h.server, t.lock); err != nil {
		return nil, err
	}
	if t.members = t.mgr; o.LeaderElection {
		if err := t.setupShard(h.server, o); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { // the loops end with the server, too
		defer cancel()
		select {
		case <-h.server.Done():
		case <-ctx.Done():
		}
	})
	t.cancel = func() {
		cancel()
		watching.Wait()
	}
	if t.synced, err = setupLoops(ctx, t, h.server, o); err != nil {
		t.cancel()
		return nil, err
	}
	o.termMetrics.Store(o.metrics)
	return t, nil
}

// nextTerm builds the loops anew, until that succeeds or the server ends: the storage may not answer at first.
func (h *Hub) nextTerm(ctx context.Context) (*term, error) {
	logger := log.FromContext(ctx).WithName("leader")
	logger.Info("The lease was lost: the loops of this server have ended, and it serves the API")
	for {
		t, err := h.newTerm(ctx, false)
		if err == nil {
			return t, nil
		}
		logger.Error(err, "The loops cannot be built, trying again", "after", rebuildPause)
		timer := h.options.Clock.NewTimer(rebuildPause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("building the loops again: %w", err)
		case <-h.server.Done():
			timer.Stop()
			return nil, fmt.Errorf("building the loops again: %w", err)
		}
	}
}
