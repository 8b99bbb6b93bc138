package controlloop

import (
	"context"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Manager adds the parts of a loop to a manager, and records whether they run.
type Manager struct {
	ctrl.Manager
	loop *Loop

	mu       sync.Mutex
	handlers *Handlers // nil until they are used
}

// Manager returns a manager for the parts of a loop.
func (l *Loop) Manager(mgr ctrl.Manager) *Manager {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = waiting
	return &Manager{Manager: mgr, loop: l}
}

// Of returns the loop whose parts are added to a manager that Loop.Manager made; to another manager, a loop that nothing measures.
func Of(mgr ctrl.Manager) *Loop {
	if m, ok := mgr.(*Manager); ok {
		return m.loop
	}
	return (*Set)(nil).Loop("")
}

// Add implements manager.Manager.
func (m *Manager) Add(r manager.Runnable) error {
	return m.Manager.Add(&part{Runnable: r, loop: m.loop})
}

// part is a runnable of a loop.
type part struct {
	manager.Runnable
	loop *Loop
}

// Start implements manager.Runnable.
func (p *part) Start(ctx context.Context) error {
	p.loop.starts()
	err := p.Runnable.Start(ctx)
	p.loop.ends(err, err != nil || ctx.Err() != nil) // a part that returns nil before the end had something to do once
	return err
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *part) NeedLeaderElection() bool { return needsLeaderElection(p.Runnable) }

func needsLeaderElection(r manager.Runnable) bool {
	elected, ok := r.(manager.LeaderElectionRunnable)
	return !ok || elected.NeedLeaderElection()
}

// Track gives the reconciles of a controller a deadline, and makes them known to their loop, if the manager is one that
// Loop.Manager made. Panics and metrics are up to controller-runtime, but for the panic of a part that CatchPanic made an error: it is logged
// with its stack and counted.
func Track[R comparable](mgr ctrl.Manager, r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	m, ok := mgr.(*Manager)
	if !ok {
		return r
	}
	return reconcile.TypedFunc[R](func(ctx context.Context, request R) (reconcile.Result, error) {
		ctx, release := m.loop.acquire(ctx)
		defer release()
		ctx, stop := withDeadline(ctx)
		defer stop()
		defer m.loop.begin(request)()
		ctx, traced := m.loop.span(ctx, request)
		result, err := r.Reconcile(ctx, request)
		traced(err) // a reconcile that panics has no span
		if logPanic(log.FromContext(ctx), err, "A part of the reconcile panicked, trying again later") {
			m.loop.panicked() // controller-runtime counts an error
		}
		return result, err
	})
}

// WhenElected returns a check of a loop that a replica passes which does not run the loops.
func WhenElected(mgr ctrl.Manager, check func() error) func() error {
	return func() error {
		select {
		case <-mgr.Elected():
			return check()
		default:
			return nil
		}
	}
}
