package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/exposition"
)

// stopTimeout bounds an orderly shutdown; a playground has ten seconds for all of its processes.
const stopTimeout = 8 * time.Second

// lostTimeout bounds the end of the loops of a control plane whose API server has ended.
const lostTimeout = 2 * time.Second

// Hub is a running control plane. Make one with Start.
type Hub struct {
	server  *apiserver.Server
	options Options
	ended   chan struct{}
	err     error // set before ended is closed
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
	o.metrics.MustRegister(exposition.NewCapacityCollector(server.StorageCapacity), exposition.BackupCollector{DataDir: o.Server.DataDir},
		exposition.CertificateCollector{Ends: server.CertificateEnds}, exposition.NewBuildInfo())
	o.metrics.MustRegister(o.Collectors...)
	server.OnUse(ctx, func() {
		if templates := o.templates.Load(); templates != nil {
			templates.Reconsider()
		}
	})
	h := &Hub{server: server, options: o, ended: make(chan struct{})}
	first, err := h.newTerm(ctx, true)
	if err != nil {
		ended := h.stopServer(ctx)
		if _, failed := errors.AsType[*etcd.Failure](ended); failed { // the error is a consequence
			return nil, ended
		}
		return nil, errors.Join(fmt.Errorf("building the control plane: %w", err), ended)
	}
	close(added)
	go h.run(ctx, first)
	select {
	case <-first.synced:
		return h, nil
	case <-h.ended:
		return nil, errors.Join(errors.New("the control plane ended before it was ready"), h.err)
	}
}

// run keeps loops and server together: when one of them ends, so does the other, the loops first. Only loops that lost the lease are built
// again.
func (h *Hub) run(ctx context.Context, t *term) {
	defer close(h.ended)
	for {
		goesOn, err := h.runTerm(ctx, t)
		if goesOn {
			t, err = h.nextTerm(ctx)
		}
		if err != nil || !goesOn {
			h.err = h.end(ctx, err)
			return
		}
	}
}

// runTerm runs loops until they end, or the server does. It returns true if they lost the lease.
func (h *Hub) runTerm(ctx context.Context, t *term) (lost bool, err error) {
	defer t.end()
	looping, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- t.loops.Ended(t.run(looping)) }()
	select {
	case err := <-ended:
		return ctx.Err() == nil && t.lost(err), err
	case <-h.server.Done():
		// Loops that wait for an answer of the server, or of its storage, do not end.
		cancel()
		timer := time.NewTimer(lostTimeout)
		defer timer.Stop()
		select {
		case <-ended:
		case <-timer.C:
		}
		return false, nil
	}
}

// end ends the server, unless it has, and returns why the control plane ends.
func (h *Hub) end(ctx context.Context, err error) error {
	select {
	case <-h.server.Done():
		if ended := h.server.Wait(); ended != nil {
			return ended
		}
		return errors.New("the API server ended")
	default:
		return errors.Join(err, h.stopServer(ctx))
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
