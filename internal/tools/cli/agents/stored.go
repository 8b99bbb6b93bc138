package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// digestKey, in the Secret with the credential, is the digest of the bootstrap kubeconfig that it was obtained with: another kubeconfig
// has the agent register again.
const digestKey = "bootstrap-digest"

// stored is the credential of an agent that runs in its cluster: a Secret that the replicas share, whose content each has in a directory.
type stored struct {
	cluster, secret, dir string
	// bootstrap is the file with the token. It may be missing once the agent is registered.
	bootstrap string
	member    *rest.Config
}

func (s stored) secrets() (func(ctx context.Context) (*corev1.Secret, error), func(ctx context.Context, secret *corev1.Secret) error, error) {
	kube, err := kubernetes.NewForConfig(membership.WithTimeout(s.member))
	if err != nil {
		return nil, nil, fmt.Errorf("building a client for the cluster: %w", err)
	}
	secrets := kube.CoreV1().Secrets(clusterv1alpha1.ClusterNamespace)
	read := func(ctx context.Context) (*corev1.Secret, error) {
		secret, err := secrets.Get(ctx, s.secret, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the Secret with the credential: %w", err)
		}
		return secret, nil
	}
	write := func(ctx context.Context, secret *corev1.Secret) error {
		if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("storing the credential: %w", err)
		}
		return nil
	}
	return read, write, nil
}

// load writes the credential in the Secret to the directory. If there is none, or a new bootstrap kubeconfig, it registers the cluster
// and stores the credential first. When several replicas do that at once, the credential that was stored first is used.
func (s stored) load(ctx context.Context) error {
	read, write, err := s.secrets()
	if err != nil {
		return err
	}
	secret, err := read(ctx)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(s.bootstrap)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the bootstrap kubeconfig: %w", err)
	}
	sum := sha256.Sum256(token)
	digest := hex.EncodeToString(sum[:])
	have := len(secret.Data[certificateFile]) > 0 && len(secret.Data[kubeconfigFile]) > 0
	switch {
	case have && (len(token) == 0 || string(secret.Data[digestKey]) == digest):
		return s.unpack(secret)
	case len(token) == 0:
		return errors.New("the agent has neither a credential nor a bootstrap kubeconfig: register the cluster again")
	}
	if err := s.register(ctx); err != nil {
		return err
	}
	if secret.Data, err = s.pack(); err != nil {
		return err
	}
	secret.Data[digestKey] = []byte(digest)
	err = write(ctx, secret)
	if !apierrors.IsConflict(err) {
		return err
	}
	if secret, err = read(ctx); err != nil {
		return err
	}
	return s.unpack(secret)
}

// Load implements credential.Shared.
func (s stored) Load(ctx context.Context) ([]byte, error) {
	read, _, err := s.secrets()
	if err != nil {
		return nil, err
	}
	secret, err := read(ctx)
	if err != nil {
		return nil, err
	}
	return secret.Data[certificateFile], nil
}

// Store implements credential.Shared.
func (s stored) Store(ctx context.Context, certificate []byte) error {
	read, write, err := s.secrets()
	if err != nil {
		return err
	}
	secret, err := read(ctx)
	if err != nil {
		return err
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[certificateFile] = certificate
	return write(ctx, secret)
}

func (s stored) register(ctx context.Context) error {
	hub, err := membership.LoadAccess(s.bootstrap, "")
	if err != nil {
		return err
	}
	if err := Register(ctx, hub.Config, s.member, s.dir, Registration{Registration: credential.Registration{Name: s.cluster}}); err != nil {
		return fmt.Errorf("registering %s: %w", s.cluster, err)
	}
	return nil
}

func (s stored) pack() (map[string][]byte, error) {
	data := map[string][]byte{}
	for _, name := range []string{certificateFile, kubeconfigFile} {
		content, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return nil, fmt.Errorf("reading the credential: %w", err)
		}
		data[name] = content
	}
	return data, nil
}

func (s stored) unpack(secret *corev1.Secret) error {
	for _, name := range []string{certificateFile, kubeconfigFile} {
		if err := atomicfile.Write(filepath.Join(s.dir, name), secret.Data[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}
