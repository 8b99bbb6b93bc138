package credential

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Token is a bootstrap token for the agent of one cluster.
type Token struct {
	// ID is the public part of the token.
	ID      string    `json:"id"`
	Cluster string    `json:"cluster"`
	Expires time.Time `json:"expires"`
}

// CreateToken makes a token with which the agent of a cluster can be registered until it expires. It returns the token itself, which is
// stored on the control plane in the Secret of its id in kube-system.
func CreateToken(ctx context.Context, hub *rest.Config, cluster string, expires time.Time) (secret string, err error) {
	kube, err := kubernetes.NewForConfig(hub)
	if err != nil {
		return "", fmt.Errorf("building a client for the control plane: %w", err)
	}
	token, err := bootstraputil.GenerateBootstrapToken()
	if err != nil {
		return "", fmt.Errorf("generating a token: %w", err)
	}
	id, key, _ := strings.Cut(token, ".")
	name := bootstrapapi.BootstrapTokenSecretPrefix + id
	_, err = kube.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{clusterv1alpha1.TokenClusterAnnotation: cluster}},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey: id, bootstrapapi.BootstrapTokenSecretKey: key,
			bootstrapapi.BootstrapTokenExpirationKey:       expires.UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      clusterv1alpha1.AgentBootstrappersGroup,
			bootstrapapi.BootstrapTokenDescriptionKey:      "registers the agent of cluster " + cluster,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("storing the token: %w", err)
	}
	if err := tryToken(ctx, hub, token); err != nil {
		_ = kube.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, name, metav1.DeleteOptions{})
		return "", err
	}
	return token, nil
}

// tokenPatience bounds how long the API server may take to accept a new token, and tokenPoll is how often that is checked.
const tokenPatience, tokenPoll = 5 * time.Second, 100 * time.Millisecond

// tryToken checks that the control plane accepts a new token.
func tryToken(ctx context.Context, hub *rest.Config, token string) error {
	cfg := rest.AnonymousClientConfig(hub)
	cfg.BearerToken = token
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("building a client with the token: %w", err)
	}
	var refused error
	err = wait.PollUntilContextTimeout(ctx, tokenPoll, tokenPatience, true, func(ctx context.Context) (bool, error) {
		_, err := kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) {
			refused = err
			return false, nil
		}
		return err == nil, err
	})
	if refused != nil && wait.Interrupted(err) {
		err = refused
	}
	if err != nil {
		return fmt.Errorf("the control plane does not accept bootstrap tokens: %w\nstart it with --enable-bootstrap-token-auth", err)
	}
	return nil
}

// ListTokens lists the tokens for agents, by cluster.
func ListTokens(ctx context.Context, kube kubernetes.Interface) ([]Token, error) {
	secrets, err := kube.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeBootstrapToken)})
	if err != nil {
		return nil, fmt.Errorf("listing tokens: %w", err)
	}
	tokens := []Token{}
	for _, secret := range secrets.Items {
		cluster := secret.Annotations[clusterv1alpha1.TokenClusterAnnotation]
		if cluster == "" {
			continue
		}
		// One that cannot be parsed counts as expired, as it does for the API server.
		expires, _ := time.Parse(time.RFC3339, string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey]))
		tokens = append(tokens, Token{ID: string(secret.Data[bootstrapapi.BootstrapTokenIDKey]), Cluster: cluster, Expires: expires})
	}
	slices.SortFunc(tokens, func(a, b Token) int { return strings.Compare(a.Cluster+"/"+a.ID, b.Cluster+"/"+b.ID) })
	return tokens, nil
}

// DeleteToken deletes the token for an agent that an id names.
func DeleteToken(ctx context.Context, kube kubernetes.Interface, id string) error {
	id, _, _ = strings.Cut(id, ".")
	secrets := kube.CoreV1().Secrets(metav1.NamespaceSystem)
	name := bootstrapapi.BootstrapTokenSecretPrefix + id
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && secret.Annotations[clusterv1alpha1.TokenClusterAnnotation] == "" {
		return fmt.Errorf("there is no token %q for an agent: see 'flagship token list'", id)
	}
	if err == nil {
		err = secrets.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
	}
	if err != nil {
		return fmt.Errorf("deleting token %s: %w", id, err)
	}
	return nil
}
