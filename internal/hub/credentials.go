package hub

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/member"
)

// Keys of the Secret that a Cluster's secretRef names.
const (
	tokenKey    = "token"
	caBundleKey = "caBundle"
)

// credentials reads what to present to a member from the Secret that its Cluster names.
func credentials(secrets client.Reader) member.CredentialsFunc {
	return func(ctx context.Context, cluster *clusterv1alpha1.Cluster) (member.Credential, error) {
		ref := cluster.Spec.SecretRef
		if ref == nil {
			return member.Credential{}, fmt.Errorf("cluster %s names no credentials: set spec.secretRef, or join it again", cluster.Name)
		}
		secret := &corev1.Secret{}
		if err := secrets.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
			return member.Credential{}, fmt.Errorf("reading the credentials of cluster %s: %w", cluster.Name, err)
		}
		if len(secret.Data[tokenKey]) == 0 {
			return member.Credential{}, fmt.Errorf("secret %s/%s has no %s", ref.Namespace, ref.Name, tokenKey)
		}
		return member.Credential{Token: string(secret.Data[tokenKey]), CABundle: secret.Data[caBundleKey]}, nil
	}
}
