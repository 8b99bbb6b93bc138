package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	encryptionconfigcontroller "k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
)

// encryptionFile is the built-in EncryptionConfiguration in a data directory.
const encryptionFile = "encryption.yaml"

// minRewritePause and maxRewritePause bound the pause before objects that could not be rewritten are tried again.
const (
	minRewritePause = 10 * time.Second
	maxRewritePause = 10 * time.Minute
)

// encrypt says what is stored encrypted, and how.
func encrypt(o *options.ServerRunOptions, cfg Config, keys *keyring) error {
	file := filepath.Join(cfg.DataDir, encryptionFile)
	if cfg.EncryptionConfig != "" {
		// A rotation of the built-in key finds this file, and must not.
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the built-in encryption configuration: %w", err)
		}
		o.Etcd.EncryptionProviderConfigFilepath = cfg.EncryptionConfig
		o.Etcd.EncryptionProviderConfigAutomaticReload = cfg.EncryptionConfigReload
		return nil
	}
	text, err := encryption.Configuration(keys.secretKeys, cfg.PlainSecrets)
	if err != nil {
		return err
	}
	if err := pki.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("writing the encryption configuration: %w", err)
	}
	o.Etcd.EncryptionProviderConfigFilepath = file
	o.Etcd.EncryptionProviderConfigAutomaticReload = true
	// Upstream has a variable for this and no option. It is the same for all servers of a process.
	if encryptionconfigcontroller.EncryptionConfigFileChangePollDuration != encryption.ReloadPeriod {
		encryptionconfigcontroller.EncryptionConfigFileChangePollDuration = encryption.ReloadPeriod
	}
	return nil
}

// RewriteStored stores anew what is not stored as the built-in encryption says: objects of an earlier version that did not
// encrypt them, or objects of a rotation that did not come to its end. It returns when that is done or the context ends. Of several
// servers on one etcd one should do this.
func (s *Server) RewriteStored(ctx context.Context) error {
	if s.cfg.Role != Hub || s.cfg.EncryptionConfig != "" {
		return nil
	}
	rewriter, err := encryption.NewRewriter(s.LoopbackConfig())
	if err != nil {
		return err
	}
	logger := log.FromContext(ctx).WithName("encryption")
	for pause := minRewritePause; ; pause = min(2*pause, maxRewritePause) {
		err := rewriter.Settle(ctx, s.keys.secretKeys, s.cfg.PlainSecrets, func(p encryption.Progress) {
			if p.Done+p.Failed > 0 {
				logger.Info("Storing objects anew", "resource", p.Resource, "stored", p.Done, "failed", p.Failed, "finished", p.Finished)
			}
		})
		if err == nil || ctx.Err() != nil {
			return nil
		}
		s.rewriteFailures.Add(1)
		logger.Error(err, "Not every object is stored as the encryption configuration says, trying again", "after", pause)
		timer := s.cfg.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// RewriteFailures counts the attempts of RewriteStored that failed.
func (s *Server) RewriteFailures() int64 { return s.rewriteFailures.Load() }

// RotateEncryption changes the built-in encryption key of the running server with this data directory, which the client
// configuration leads to. It reports what it does line by line.
func RotateEncryption(ctx context.Context, dataDir string, server *rest.Config, report func(string), steps ...encryption.Step) error {
	return encryption.Rotation{
		KeyFile:    filepath.Join(dataDir, "pki", secretKeyFile),
		ConfigFile: filepath.Join(dataDir, encryptionFile),
		Server:     server,
		Clock:      clock.RealClock{},
		Report:     report,
	}.Run(ctx, steps...)
}
