package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// signPatience bounds how long the control plane may take to sign what is published. It takes less than a second.
const signPatience = time.Minute

// RegisterCommand returns the command with which karmadactl registers a cluster at a URL of the control plane with a token. It publishes
// what karmadactl reads without a credential, in the ConfigMap cluster-info, and waits until the control plane has signed that with the
// token. A token with which that fails is deleted.
func RegisterCommand(ctx context.Context, hub *rest.Config, server, cluster, token string) (command string, err error) {
	kube, err := kubernetes.NewForConfig(hub)
	if err != nil {
		return "", fmt.Errorf("building a client for the control plane: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, DeleteToken(context.WithoutCancel(ctx), kube, token))
		}
	}()
	at, err := url.Parse(server)
	if err != nil || at.Scheme != "https" || at.Host == "" || strings.Trim(at.Path, "/") != "" {
		return "", fmt.Errorf("karmadactl reaches a control plane at https://HOST:PORT only, not at %q", server)
	}
	hub = rest.CopyConfig(hub)
	if err := rest.LoadTLSFiles(hub); err != nil {
		return "", fmt.Errorf("reading the certificate authority of the control plane: %w", err)
	}
	authorities, err := cert.ParseCertsPEM(hub.CAData)
	if err != nil {
		return "", fmt.Errorf("the kubeconfig has no certificate authority that karmadactl could check: %w", err)
	}
	content, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: server, CertificateAuthorityData: hub.CAData}}})
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	id, _, _ := strings.Cut(token, ".")
	signs := fmt.Appendf(nil, `{"stringData":{%q:"true"}}`, bootstrapapi.BootstrapTokenUsageSigningKey)
	_, err = kube.CoreV1().Secrets(metav1.NamespaceSystem).Patch(ctx, bootstrapapi.BootstrapTokenSecretPrefix+id, types.MergePatchType, signs, metav1.PatchOptions{})
	if err != nil {
		return "", fmt.Errorf("changing the token: %w", err)
	}
	if err := publishClusterInfo(ctx, kube, string(content), id); err != nil {
		return "", err
	}
	host := at.Host
	if at.Port() == "" {
		host += ":443"
	}
	words := []string{"karmadactl", "register", host, "--cluster-name", cluster, "--token", token}
	for _, authority := range authorities {
		sum := sha256.Sum256(authority.RawSubjectPublicKeyInfo)
		words = append(words, "--discovery-token-ca-cert-hash", "sha256:"+hex.EncodeToString(sum[:]))
	}
	return strings.Join(words, " "), nil
}

// publishClusterInfo writes the ConfigMap and waits until it is signed with the token of an id.
func publishClusterInfo(ctx context.Context, kube kubernetes.Interface, content, id string) error {
	public := kube.CoreV1().ConfigMaps(metav1.NamespacePublic)
	err := wait.PollUntilContextTimeout(ctx, tokenPoll, signPatience, true, func(ctx context.Context) (bool, error) {
		info, err := public.Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = public.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.ConfigMapClusterInfo}, Data: map[string]string{bootstrapapi.KubeConfigKey: content},
			}, metav1.CreateOptions{})
		case err == nil && info.Data[bootstrapapi.KubeConfigKey] != content:
			info.Data = map[string]string{bootstrapapi.KubeConfigKey: content} // without signatures of what was there
			_, err = public.Update(ctx, info, metav1.UpdateOptions{})
		case err == nil && info.Data[bootstrapapi.JWSSignatureKeyPrefix+id] != "":
			return true, nil
		}
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			err = nil
		}
		return false, err
	})
	switch {
	case wait.Interrupted(err):
		return fmt.Errorf("the control plane does not sign %s with the token: start it with --enable-bootstrap-token-auth", bootstrapapi.ConfigMapClusterInfo)
	case err != nil:
		return fmt.Errorf("publishing %s: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	return nil
}
