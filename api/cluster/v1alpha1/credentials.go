package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CredentialForAnnotation on a Secret with a credential of a Cluster holds the result of CredentialDigest for which the
// credential was issued. A credential is used only while the Cluster still has this digest.
const CredentialForAnnotation = "flagship.io/credential-for"

// CredentialOfAnnotation on a Secret in ClusterNamespace declares the Cluster that its credential is for, as "NAME ADDRESS": the name of the
// Cluster and its spec.apiEndpoint, such as "east https://10.0.0.1:6443". That Cluster then becomes the owner of the Secret.
const CredentialOfAnnotation = "flagship.io/credential-of"

// TokenLifetimeAnnotation on a Secret with a credential of a Cluster holds the lifetime that was requested for the token, such
// as 1440h0m0s. The member may have granted less. Absent on Secrets of earlier versions, which requested 24h.
const TokenLifetimeAnnotation = "flagship.io/requested-token-lifetime"

// CredentialUse is what a credential of a Cluster is used for.
type CredentialUse string

// The uses of a credential.
const (
	// ControllerCredential is the credential of spec.secretRef.
	ControllerCredential CredentialUse = "controller"
	// ImpersonatorCredential is the credential of spec.impersonatorSecretRef.
	ImpersonatorCredential CredentialUse = "impersonator"
)

// AccessError reports why the control plane does not use a credential of a Cluster, or cannot.
//
// +kubebuilder:object:generate=false
// +k8s:openapi-gen=false
// +k8s:deepcopy-gen=false
type AccessError struct {
	// Reason is the reason of the Ready condition.
	Reason string
	// Message is the message of the Ready condition. It names no value of a Secret.
	Message string
}

// Error implements error.
func (e *AccessError) Error() string { return e.Message }

// CredentialDigest identifies where a credential is sent and how the receiver is verified: spec.apiEndpoint, spec.proxyURL,
// spec.insecureSkipTLSVerification and caBundle, the certificates in the Secret that spec.secretRef names.
func CredentialDigest(use CredentialUse, spec *ClusterSpec, caBundle []byte) string {
	target := struct {
		Use                CredentialUse
		Endpoint, ProxyURL string
		Insecure           bool
		CA                 []byte
	}{use, spec.APIEndpoint, spec.ProxyURL, spec.InsecureSkipTLSVerification, caBundle}
	if spec.InsecureSkipTLSVerification {
		target.CA = nil // not used
	}
	text, _ := json.Marshal(target) // strings and bytes: cannot fail
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// CheckCredentialRef refuses a reference to a Secret outside ClusterNamespace.
func CheckCredentialRef(cluster *Cluster, ref *LocalSecretReference) error {
	if ref.Namespace == ClusterNamespace {
		return nil
	}
	return &AccessError{CredentialsNotUsableReason, fmt.Sprintf(
		"cluster %s names the Secret %s/%s: credentials are read from the namespace %s only", cluster.Name, ref.Namespace, ref.Name, ClusterNamespace)}
}

// CheckCredential returns a AccessError unless the secret holds a credential of this very Cluster that was issued for its
// present address and trust. The caBundle is that of the Secret that spec.secretRef names.
func CheckCredential(cluster *Cluster, use CredentialUse, secret *corev1.Secret, caBundle []byte) error {
	if !OwnsCredential(cluster, secret) {
		return &AccessError{CredentialsNotUsableReason, fmt.Sprintf(
			"the Secret %s/%s is not owned by cluster %s: run flagship join again, or annotate the Secret with %s: \"%s %s\"",
			secret.Namespace, secret.Name, cluster.Name, CredentialOfAnnotation, cluster.Name, cluster.Spec.APIEndpoint)}
	}
	switch secret.Annotations[CredentialForAnnotation] {
	case CredentialDigest(use, &cluster.Spec, caBundle):
		return nil
	case "":
		return &AccessError{CredentialsNotUsableReason, fmt.Sprintf(
			"the Secret %s/%s has no annotation %s yet; the control plane adds it", secret.Namespace, secret.Name, CredentialForAnnotation)}
	default:
		return &AccessError{ClusterAddressChangedReason, fmt.Sprintf(
			"spec.apiEndpoint, spec.proxyURL, spec.insecureSkipTLSVerification, the caBundle or the Secrets of cluster %[1]s changed after it joined, so the Secret %[2]s/%[3]s "+
				"is not used: undo the change, or run flagship join %[1]s again with the kubeconfig of the cluster", cluster.Name, secret.Namespace, secret.Name)}
	}
}

// OwnsCredential returns whether the secret has an ownerReference to this very Cluster.
func OwnsCredential(cluster *Cluster, secret *corev1.Secret) bool {
	for _, owner := range secret.OwnerReferences {
		if isCluster(owner.APIVersion, owner.Kind) && owner.UID == cluster.UID && owner.UID != "" {
			return true
		}
	}
	return false
}

// DeclaredFor returns whether whoever wrote the secret has declared that its credential is for this Cluster at its present address. A
// Cluster that is reached through a proxy, or whose certificate is not verified, has no such declaration: they would have to be declared, too.
func DeclaredFor(cluster *Cluster, secret *corev1.Secret) bool {
	spec := &cluster.Spec
	return spec.APIEndpoint != "" && spec.ProxyURL == "" && !spec.InsecureSkipTLSVerification &&
		secret.Annotations[CredentialOfAnnotation] == cluster.Name+" "+spec.APIEndpoint
}

// OwnedByOtherCluster returns the name of the first other Cluster that the secret has an ownerReference to. A Cluster without
// a uid does not exist yet and owns nothing.
func OwnedByOtherCluster(cluster *Cluster, secret *corev1.Secret) (name string, owned bool) {
	for _, owner := range secret.OwnerReferences {
		if isCluster(owner.APIVersion, owner.Kind) && owner.UID != cluster.UID {
			return owner.Name, true
		}
	}
	return "", false
}

func isCluster(apiVersion, kind string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && gv.Group == GroupName && kind == "Cluster"
}
