package attacks_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestABootstrapTokenIsNotAccepted: nothing uses bootstrap tokens, so a Secret of that type in kube-system makes no user.
func TestABootstrapTokenIsNotAccepted(t *testing.T) {
	fleet := shared.Start(t)
	const id, secret = "abcdef", "0123456789abcdef"
	token := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true"},
	}
	fleettest.Create(t, fleet.Hub, token)
	defer fleettest.Delete(t, fleet.Hub, token)
	stranger := rest.AnonymousClientConfig(fleet.Hub.Config)
	stranger.BearerToken = id + "." + secret
	if code, body := get(t, &fleettest.Cluster{Config: stranger}, "/api"); code != http.StatusUnauthorized {
		t.Errorf("the bootstrap token is accepted: %d %s", code, body)
	}
}

// TestTheServerListensOnLoopback: unless a flag says otherwise, only clients on its machine reach it.
func TestTheServerListensOnLoopback(t *testing.T) {
	for line := range strings.SplitSeq(fleettest.Flagship(t, "server", "--help").Stdout, "\n") {
		if strings.Contains(line, "--bind-address string") && !strings.Contains(line, `(default "127.0.0.1")`) {
			t.Errorf("the default is another one: %s", line)
		}
	}
}
