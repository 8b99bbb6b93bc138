package memberaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// RenewalSecret reads the account's service account token Secret in a member, and creates it if it does not exist. The token
// controller of the member fills it with a token without expiry.
func (a Account) RenewalSecret(ctx context.Context, member kubernetes.Interface) (*corev1.Secret, error) {
	secrets := member.CoreV1().Secrets(clusterv1alpha1.ClusterNamespace)
	secret, err := secrets.Get(ctx, a.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		annotations := a.annotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[corev1.ServiceAccountNameKey] = a.Name
		secret, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: a.Name, Annotations: annotations,
				Labels: map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
			},
			Type: corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{FieldManager: FieldManager})
	}
	if err != nil {
		return nil, fmt.Errorf("creating the service account token Secret %s/%s in the member: %w", clusterv1alpha1.ClusterNamespace, a.Name, err)
	}
	if !a.ownsRenewalSecret(secret) {
		return nil, fmt.Errorf("the Secret %s/%s in the member is not a service account token Secret of the control plane", secret.Namespace, secret.Name)
	}
	return secret, nil
}

func (a Account) ownsRenewalSecret(secret *corev1.Secret) bool {
	return secret.Type == corev1.SecretTypeServiceAccountToken && secret.Annotations[corev1.ServiceAccountNameKey] == a.Name &&
		secret.Labels[clusterv1alpha1.SystemLabel] == clusterv1alpha1.SystemLabelValue
}

// RemoveRenewalSecret deletes the account's service account token Secret from a member, which revokes the token. An account
// that may not read the Secret did not create it either.
func (a Account) RemoveRenewalSecret(ctx context.Context, member kubernetes.Interface) error {
	secrets := member.CoreV1().Secrets(clusterv1alpha1.ClusterNamespace)
	secret, err := secrets.Get(ctx, a.Name, metav1.GetOptions{})
	if err == nil && a.ownsRenewalSecret(secret) {
		err = secrets.Delete(ctx, a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	}
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return fmt.Errorf("deleting the service account token Secret %s/%s in the member: %w", clusterv1alpha1.ClusterNamespace, a.Name, err)
}
