package enroll

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
)

// claim makes a Cluster the owner of the Secrets that are declared to be for it at its address, and notes for which address and trust they
// are, in one write: between two, the address of the Cluster could change.
func (r *Reconciler) claim(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	main, claimed, err := r.claimSecret(ctx, cluster, clusterv1alpha1.ControllerCredential, cluster.Spec.SecretRef, nil)
	if err != nil || main == nil {
		return err
	}
	_, also, err := r.claimSecret(ctx, cluster, clusterv1alpha1.ImpersonatorCredential, cluster.Spec.ImpersonatorSecretRef, main)
	if claimed || also {
		r.deps.Refresh(cluster.Name)
	}
	return err
}

// claimSecret returns the Secret if the Cluster owns it, and whether it does so from now on. The certificate authority is that of main, or
// its own if main is nil.
func (r *Reconciler) claimSecret(
	ctx context.Context, cluster *clusterv1alpha1.Cluster, use clusterv1alpha1.CredentialUse, ref *clusterv1alpha1.LocalSecretReference, main *corev1.Secret,
) (secret *corev1.Secret, claimed bool, err error) {
	if secret, err = r.secretOf(ctx, cluster, ref); err != nil || secret == nil || clusterv1alpha1.OwnsCredential(cluster, secret) {
		return secret, false, err
	}
	if _, owned := clusterv1alpha1.OwnedByOtherCluster(cluster, secret); owned || !clusterv1alpha1.DeclaredFor(cluster, secret) {
		return nil, false, nil
	}
	before := secret.DeepCopy()
	secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{
		APIVersion: clusterv1alpha1.SchemeGroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	})
	trusted := secret
	if main != nil {
		trusted = main
	}
	membership.StampSecret(secret, use, &cluster.Spec, trusted.Data[clusterv1alpha1.SecretCADataKey])
	if _, err := hubclient.PatchLocked(ctx, r.client, before, secret, client.FieldOwner(memberaccount.FieldManager)); err != nil {
		return nil, false, err
	}
	return secret, true, nil
}

// stamp notes on Secrets without such a note for which address and trust their credentials were issued: those of an earlier
// version, of karmadactl, and of agents. It takes the Cluster as it is now, once; from then on a change of the Cluster makes
// the credential unusable. Only who may write Secrets of members can remove the note.
func (r *Reconciler) stamp(ctx context.Context, cluster *clusterv1alpha1.Cluster) error {
	main, err := r.credentialSecret(ctx, cluster, cluster.Spec.SecretRef)
	if err != nil {
		return err
	}
	impersonator, err := r.credentialSecret(ctx, cluster, cluster.Spec.ImpersonatorSecretRef)
	if err != nil {
		return err
	}
	if main == nil && cluster.Spec.SecretRef != nil {
		return nil // Its CA belongs to the note; when the Cluster becomes its owner, we are called again.
	}
	var ca []byte
	if main != nil {
		ca = main.Data[clusterv1alpha1.SecretCADataKey]
	}
	stamped := false
	var faults []error
	for use, secret := range map[clusterv1alpha1.CredentialUse]*corev1.Secret{
		clusterv1alpha1.ControllerCredential: main, clusterv1alpha1.ImpersonatorCredential: impersonator,
	} {
		if secret == nil || secret.Annotations[clusterv1alpha1.CredentialForAnnotation] != "" {
			continue
		}
		before := secret.DeepCopy()
		membership.StampSecret(secret, use, &cluster.Spec, ca)
		if _, err := hubclient.PatchLocked(ctx, r.client, before, secret, client.FieldOwner(memberaccount.FieldManager)); err != nil {
			faults = append(faults, err)
			continue
		}
		stamped = true
	}
	if stamped {
		r.deps.Refresh(cluster.Name)
	}
	return errors.Join(faults...)
}

// credentialSecret reads a Secret that the cluster names and owns; nil if there is none.
func (r *Reconciler) credentialSecret(ctx context.Context, cluster *clusterv1alpha1.Cluster, ref *clusterv1alpha1.LocalSecretReference) (*corev1.Secret, error) {
	secret, err := r.secretOf(ctx, cluster, ref)
	if err != nil || secret == nil || !clusterv1alpha1.OwnsCredential(cluster, secret) {
		return nil, err
	}
	return secret, nil
}

// secretOf reads a Secret that the cluster names; nil if there is none.
func (r *Reconciler) secretOf(ctx context.Context, cluster *clusterv1alpha1.Cluster, ref *clusterv1alpha1.LocalSecretReference) (*corev1.Secret, error) {
	if ref == nil || clusterv1alpha1.CheckCredentialRef(cluster, ref) != nil {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret %s: %w", ref.Name, err)
	}
	return secret, nil
}
