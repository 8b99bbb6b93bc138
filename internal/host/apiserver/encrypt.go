package apiserver

import (
	"context"
	"net"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
)

// openKeys loads the keys of a server, and makes them for storage that has no data.
func openKeys(ctx context.Context, cfg Config, address *net.TCPAddr) (*credentials.Keyring, error) {
	inUse, err := etcd.InUse(ctx, cfg.DataDir, cfg.ExternalEtcd)
	if err != nil {
		return nil, err
	}
	encrypted := cfg.ExternalEtcd != nil
	if !encrypted { // an earlier version may have stored data without encryption
		if encrypted, err = encryption.Applied(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	return credentials.Open(ctx, credentials.Options{
		Name: cfg.Name, Dir: cfg.PKIDir, URL: urlOf(cfg, address), Shared: cfg.ExternalEtcd != nil, Operator: cfg.Role == Hub, ServiceCIDR: cfg.ServiceCIDR,
		Names: append([]string{cfg.AdvertiseAddress, cfg.BindAddress}, cfg.ServerNames...), Clock: cfg.Clock,
		InUse: inUse, Encrypted: encrypted && cfg.EncryptionConfig == "",
	})
}

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
