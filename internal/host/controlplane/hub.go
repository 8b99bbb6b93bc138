package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flagship-k8s/flagship/internal/host/apiserver"
)

// stopTimeout bounds an orderly shutdown; a playground has ten seconds for all of its processes.
const stopTimeout = 8 * time.Second

// Hub is a running control plane. Make one with Start.
type Hub struct {
	server *apiserver.Server
	ended  chan struct{}
	err    error // set before ended is closed
}

// Start brings up a control plane and returns when it serves every kind. It runs until the context is done, and ends early
// only if a part of it fails; see Wait.
func Start(ctx context.Context, o Options) (*Hub, error) {
	o = o.complete()
	added := make(chan struct{})
	o.Server.Started = added
	server, err := apiserver.Start(ctx, o.Server)
	if err != nil {
		return nil, err
	}
	h := &Hub{server: server, ended: make(chan struct{})}
	mgr, err := newManager(server.LoopbackConfig(), o)
	var started <-chan struct{}
	if err == nil {
		started, err = setupLoops(ctx, mgr, server, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("building the control plane: %w", err), h.stopServer(ctx))
	}
	close(added)
	go h.run(ctx, mgr)
	select {
	case <-started:
		return h, nil
	case <-h.ended:
		return nil, errors.Join(errors.New("the control plane ended before it was ready"), h.err)
	}
}

// run keeps loops and server together: when one of them ends, so does the other, the loops first.
func (h *Hub) run(ctx context.Context, mgr ctrl.Manager) {
	defer close(h.ended)
	looping, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-h.server.Done():
			cancel(errors.New("the API server ended"))
		case <-looping.Done():
		}
	}()
	err := mgr.Start(looping)
	cancel(nil)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(looping)
	}
	h.err = errors.Join(err, h.stopServer(ctx))
}

func (h *Hub) stopServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return h.server.Stop(ctx)
}

// LoopbackConfig is a client configuration with all rights, for use inside this process.
func (h *Hub) LoopbackConfig() *rest.Config { return h.server.LoopbackConfig() }

// WriteKubeconfig writes a file, readable by this user only, with which kubectl reaches the control plane as its
// administrator. The file is kept current while certificates are renewed.
func (h *Hub) WriteKubeconfig(path string) error { return h.server.WriteKubeconfig(path) }

// URL is where the API is served.
func (h *Hub) URL() string { return h.server.URL() }

// Wait returns when everything has ended: nil after Start's context was done, else what failed.
func (h *Hub) Wait() error {
	<-h.ended
	return h.err
}
