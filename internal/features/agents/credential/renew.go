package credential

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// checkPeriod is how often the age of the certificate is checked.
	checkPeriod = 10 * time.Minute
	// retryPeriod is the pause after a renewal that failed. Half of the life of the certificate is left then.
	retryPeriod = time.Minute
)

// Renewal renews the certificate in a file at half of its life. It is a manager.Runnable. All fields but Stored are required.
type Renewal struct {
	// Kube is a client with the identity in the file.
	Kube    kubernetes.Interface
	Cluster string
	UID     types.UID
	// File has the certificate and its key.
	File string
	// Stored keeps the new content elsewhere, too, before the file is replaced: an agent in a pod keeps it in a Secret. Nil: nowhere.
	Stored func(ctx context.Context, content []byte) error
	Clock  clock.WithTicker
}

// Start implements manager.Runnable.
func (r *Renewal) Start(ctx context.Context) error {
	pause := time.Duration(0)
	for {
		timer := r.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
		pause = checkPeriod
		if err := r.renew(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Cannot renew the certificate of the agent", "cluster", r.Cluster)
			pause = retryPeriod
		}
	}
}

// renew replaces the certificate if half of its life is over.
func (r *Renewal) renew(ctx context.Context) error {
	content, err := os.ReadFile(r.File)
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	due, err := renewalTime(content)
	if err != nil || r.Clock.Now().Before(due) {
		return err
	}
	if content, err = Request(ctx, r.Kube, r.Cluster, r.UID); err != nil {
		return err
	}
	if r.Stored != nil {
		if err := r.Stored(ctx, content); err != nil {
			return err
		}
	}
	if err := WriteFile(r.File, content); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Renewed the certificate of the agent", "cluster", r.Cluster)
	return nil
}

// WriteFile replaces a file as one step. Only the owner of the process can read it.
func WriteFile(path string, content []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of %s: %w", path, err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	if _, err = temporary.Write(content); err == nil {
		err = temporary.Sync()
	}
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
