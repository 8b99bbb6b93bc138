package apiserver

import (
	"context"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
)

// agreeOnKeys returns an error if servers that were started before on the same etcd have other keys: neither would read what the other
// encrypts, nor accept the certificates and tokens that it signs.
func agreeOnKeys(ctx context.Context, cfg Config, keys *credentials.Keyring) error {
	if cfg.ExternalEtcd == nil || cfg.Role != Hub {
		return nil
	}
	return cfg.ExternalEtcd.Agree(ctx, func(recorded []byte) ([]byte, error) { return keys.Agree(recorded, cfg.EncryptionConfig == "") })
}

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
