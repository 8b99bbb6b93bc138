package stored

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

const (
	// ownNamespace holds the key, what was deleted, and the revisions of cluster-scoped templates. Only administrators have rights there.
	ownNamespace = "flagship-system"
	keySecret    = "flagship-history-key"
	keyField     = "key"
	// Manager is the field manager of the control plane.
	Manager = "flagship"
)

// Storage reads and writes revisions and deletions.
type Storage struct {
	kube   kubernetes.Interface
	live   client.Reader
	losses Losses

	mu sync.Mutex
	// known is the key once it was read.
	known *history.Key
}

// New makes a Storage. Live reads from the API server.
func New(kube kubernetes.Interface, live client.Reader, losses Losses) *Storage {
	return &Storage{kube: kube, live: live, losses: losses}
}

// key reads the key of revisions. If there is none, nothing was stored yet: it is made, or the answer is one that opens nothing.
func (k *Storage) key(ctx context.Context, create bool) (*history.Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known != nil {
		return k.known, nil
	}
	secrets := k.kube.CoreV1().Secrets(ownNamespace)
	secret, err := secrets.Get(ctx, keySecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if !create {
			return &history.Key{}, nil // nothing was sealed yet
		}
		fresh := make([]byte, history.KeyBytes)
		if _, err := rand.Read(fresh); err != nil {
			return nil, fmt.Errorf("making the key of revisions: %w", err)
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}}
		if _, err := k.kube.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("creating the namespace %s: %w", ownNamespace, err)
		}
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keySecret}, Data: map[string][]byte{keyField: fresh}}
		secret, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("storing the key of revisions: %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key of revisions: %w", err)
	}
	if len(secret.Data[keyField]) != history.KeyBytes {
		return nil, fmt.Errorf("the Secret %s/%s has no key of %d bytes: delete it, and with it all recorded revisions", ownNamespace, keySecret, history.KeyBytes)
	}
	k.known = history.NewKey(secret.Data[keyField])
	return k.known, nil
}
