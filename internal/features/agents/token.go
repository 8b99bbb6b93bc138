package agents

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// TokenCluster returns the name of the Cluster that the user of a bootstrap token may register, "" if there is none: the token is
// gone, is no token of an agent, or names no cluster.
func TokenCluster(ctx context.Context, secrets client.Reader, user string) (string, error) {
	id, ok := strings.CutPrefix(user, bootstrapapi.BootstrapUserPrefix)
	if !ok {
		return "", nil
	}
	secret := &corev1.Secret{}
	err := secrets.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the bootstrap token %s: %w", id, err)
	case secret.Type != corev1.SecretTypeBootstrapToken:
		return "", nil
	}
	return secret.Annotations[clusterv1alpha1.TokenClusterAnnotation], nil
}
