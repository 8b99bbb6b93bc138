package apiserver

import (
	"context"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
)

// RewriteStored stores anew what is not stored as the built-in encryption requires: objects of an earlier version that did not
// encrypt them, or objects of a rotation that was interrupted. It returns when that is done or the context ends. Of several
// servers on one etcd one should do this.
func (s *Server) RewriteStored(ctx context.Context) error {
	if s.cfg.Role != Hub || s.cfg.EncryptionConfig != "" {
		return nil
	}
	rewriter, err := encryption.NewRewriter(s.LoopbackConfig())
	if err != nil {
		return err
	}
	rewriter.Run(ctx, s.keys.EncryptionKeys(), s.cfg.PlainSecrets, s.cfg.Clock, func() { s.rewriteFailures.Add(1) })
	return nil
}

// RewriteFailures counts the attempts of RewriteStored that failed.
func (s *Server) RewriteFailures() int64 { return s.rewriteFailures.Load() }
