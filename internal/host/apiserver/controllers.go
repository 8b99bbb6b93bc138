package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/builtin"
)

// RunControllers runs the built-in controllers of a hub until the context ends or the server stops, and
// returns then. Of several servers on one etcd one should do this at a time; it may be called again after
// it has returned. The loops are named in /readyz from the start of the server, and count as healthy
// while they are not meant to run. The configuration is that of their client, which needs all rights.
func (s *Server) RunControllers(ctx context.Context, client *rest.Config) error {
	if s.cfg.Role != Hub {
		return fmt.Errorf("a %s runs no controllers of its own", s.cfg.Role)
	}
	ctx, end := untilClosed(ctx, s.stopping)
	defer end()
	cert, key := s.keys.AuthorityFiles()
	controllers, err := builtin.New(ctx, builtin.Config{
		Client:    client,
		Informers: s.informers,
		// They outlive the controllers: an informer that has ended cannot be started again, and the next controllers share it.
		StartInformers: func() { s.informers.Start(s.stopping) },
		NativeInformer: s.nativeInformer,

		AuthorityCert: cert,
		AuthorityKey:  key,
		TokenKey:      s.keys.TokenKey(),
		CA:            s.CA(),
		InUse:         s.InUse,
		OnUse:         func(notify func()) { s.OnUse(ctx, notify) },
		Holds:         s.holds,
		StoredVersion: s.storedVersion,

		BootstrapTokens: s.cfg.Authentication.BootstrapTokens,
	})
	if err != nil {
		return err
	}
	controllers.StartInformers(ctx)
	var all sync.WaitGroup
	for _, loop := range controllers.Loops {
		var ended atomic.Bool
		s.AddLoop(loop.Name, func() error {
			if ended.Load() && ctx.Err() == nil {
				return errors.New("ended unexpectedly")
			}
			return nil
		})
		all.Go(func() {
			defer ended.Store(true)
			loop.Run(ctx)
		})
	}
	all.Wait()
	end()
	controllers.AwaitInformers()
	return nil
}

// announceControllers names the built-in controllers in /readyz before they run.
func (s *Server) announceControllers() {
	for _, name := range builtin.Names(s.cfg.Authentication.BootstrapTokens) {
		s.AddLoop(name, func() error { return nil })
	}
}
