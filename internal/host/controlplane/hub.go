package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
)

// stopTimeout bounds an orderly shutdown; a playground has ten seconds for all of its processes.
const stopTimeout = 8 * time.Second

// lostTimeout bounds the end of the loops of a control plane whose API server has ended.
const lostTimeout = 2 * time.Second

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
	o.metrics.MustRegister(newCapacityCollector(server.StorageCapacity))
	h := &Hub{server: server, ended: make(chan struct{})}
	mgr, err := newManager(server.LoopbackConfig(), o)
	var started <-chan struct{}
	if err == nil {
		started, err = h.setup(ctx, mgr, o)
	}
	if err != nil {
		ended := h.stopServer(ctx)
		if _, failed := errors.AsType[*etcd.Failure](ended); failed { // the error is a consequence
			return nil, ended
		}
		return nil, errors.Join(fmt.Errorf("building the control plane: %w", err), ended)
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

// setup adds the loops. Their context ends with the server, too.
func (h *Hub) setup(ctx context.Context, mgr ctrl.Manager, o Options) (started <-chan struct{}, err error) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-h.server.Done():
		case <-ctx.Done():
		}
	}()
	return setupLoops(ctx, mgr, h.server, o)
}

// run keeps loops and server together: when one of them ends, so does the other, the loops first.
func (h *Hub) run(ctx context.Context, mgr ctrl.Manager) {
	defer close(h.ended)
	looping, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(looping) }()
	select {
	case err := <-ended:
		h.err = errors.Join(err, h.stopServer(ctx))
	case <-h.server.Done():
		// Loops that wait for an answer of the server, or of its storage, do not end.
		cancel()
		timer := time.NewTimer(lostTimeout)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
		if h.err = h.server.Wait(); h.err == nil {
			h.err = errors.New("the API server ended")
		}
	}
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
