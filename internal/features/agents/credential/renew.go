package credential

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

const (
	// checkPeriod is how often the age of the certificate is checked.
	checkPeriod = 10 * time.Minute
	// retryPeriod is the pause after a renewal that failed. Half of the life of the certificate is left then.
	retryPeriod = time.Minute
)

// Renewal renews the certificate in a file at half of its life. It is a manager.Runnable. All fields but Shared are required.
type Renewal struct {
	// Kube is a client with the identity in the file.
	Kube    kubernetes.Interface
	Cluster string
	UID     types.UID
	// File has the certificate and its key.
	File string
	// Shared is where replicas of the agent share the content of the file. Nil: nowhere.
	Shared Shared
	Clock  clock.WithTicker
}

// Shared keeps a certificate and its key for the replicas of an agent: those that run in their cluster keep them in a Secret there. It is
// an interface since the command decides where that is.
type Shared interface {
	Load(ctx context.Context) ([]byte, error)
	Store(ctx context.Context, content []byte) error
}

// NeedLeaderElection is false: a replica that waits to be elected needs a certificate that is valid, too.
func (*Renewal) NeedLeaderElection() bool { return false }

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

// renew replaces the certificate if half of its life is over: by the one that another replica obtained, or by a new one.
func (r *Renewal) renew(ctx context.Context) error {
	content, err := os.ReadFile(r.File)
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	due, err := r.due(content)
	if err != nil || !due {
		return err
	}
	if r.Shared != nil {
		if content, err = r.Shared.Load(ctx); err != nil {
			return err
		}
		if due, err = r.due(content); err != nil {
			due = true // what is kept there is no certificate
		}
	}
	if due {
		if content, err = Request(ctx, r.Kube, r.Cluster, r.UID); err != nil {
			return err
		}
		if r.Shared != nil {
			if err := r.Shared.Store(ctx, content); err != nil {
				return err
			}
		}
	}
	if err := atomicfile.Write(r.File, content, 0o600); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Renewed the certificate of the agent", "cluster", r.Cluster, "requested", due)
	return nil
}

// due returns whether half of the life of a certificate is over.
func (r *Renewal) due(content []byte) (bool, error) {
	at, err := renewalTime(content)
	return err == nil && !r.Clock.Now().Before(at), err
}
