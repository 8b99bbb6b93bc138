// Package connections has what connections of the control plane to members are made with.
//
// In: the Secrets that Clusters name.
//
// Out: credentials, and the identity of the control plane in members.
//
// Owns: nothing.
//
// Never: connects to a member.
package connections

import (
	"context"
	"fmt"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// Credentials reads what to present to a member from the Secret that its Cluster names. The Secret must belong to that
// Cluster and must have been issued for its present address.
func Credentials(secrets client.Reader) member.CredentialsFunc {
	return func(ctx context.Context, cluster *clusterv1alpha1.Cluster) (member.Credential, error) {
		ref := cluster.Spec.SecretRef
		if ref == nil {
			return member.Credential{}, unusable("cluster %s names no credentials: set spec.secretRef, or join it again", cluster.Name)
		}
		if err := clusterv1alpha1.CheckCredentialRef(cluster, ref); err != nil {
			return member.Credential{}, err
		}
		secret := &corev1.Secret{}
		err := secrets.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
		if apierrors.IsNotFound(err) {
			return member.Credential{}, unusable("cluster %s names the Secret %s/%s, which does not exist: join it again", cluster.Name, ref.Namespace, ref.Name)
		}
		if err != nil {
			return member.Credential{}, fmt.Errorf("reading the credentials of cluster %s: %w", cluster.Name, err)
		}
		ca := secret.Data[clusterv1alpha1.SecretCADataKey]
		if err := clusterv1alpha1.CheckCredential(cluster, clusterv1alpha1.ControllerCredential, secret, ca); err != nil {
			return member.Credential{}, err
		}
		token := secret.Data[clusterv1alpha1.SecretTokenKey]
		if len(token) == 0 {
			return member.Credential{}, unusable("secret %s/%s has no %s", ref.Namespace, ref.Name, clusterv1alpha1.SecretTokenKey)
		}
		return member.Credential{
			Token: string(token), Renewal: string(secret.Data[clusterv1alpha1.SecretRenewalTokenKey]), Expires: memberaccount.TokenExpiry(token), CABundle: ca,
		}, nil
	}
}

func unusable(format string, args ...any) error {
	return &clusterv1alpha1.AccessError{Reason: clusterv1alpha1.CredentialsNotUsableReason, Message: fmt.Sprintf(format, args...)}
}
