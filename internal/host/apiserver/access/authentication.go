package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

const (
	// authenticationFile is the AuthenticationConfiguration in a data directory that the server loads.
	authenticationFile = "authentication.yaml"
	// authenticationPeriod is how often the one it is made of is read again.
	authenticationPeriod = 10 * time.Second
)

// Authentication configures who else is accepted by a hub, besides holders of its certificates and service accounts, and who else
// decides what they may do.
type Authentication struct {
	// ConfigFile is the path of an AuthenticationConfiguration: issuers of JWTs (OIDC), and what anonymous users may reach. It is
	// read again when it changes.
	ConfigFile string
	// TokenWebhookConfigFile is the path of a kubeconfig that leads to a webhook for TokenReviews.
	TokenWebhookConfigFile string
	// AuthorizationWebhookConfigFile is the path of a kubeconfig that leads to a webhook for SubjectAccessReviews. It is asked
	// about what RBAC does not allow.
	AuthorizationWebhookConfigFile string
	// BootstrapTokens accepts bootstrap tokens (Secrets in kube-system), with which agents are registered, and runs their controllers.
	BootstrapTokens bool
}

// clusterInfoPath is the ConfigMap from which a client that has a bootstrap token, such as karmadactl, reads the certificate authority
// of the server. It is signed with the token.
const clusterInfoPath = "/api/v1/namespaces/" + metav1.NamespacePublic + "/configmaps/" + bootstrapapi.ConfigMapClusterInfo

// publicPaths are what anonymous users may reach unless a configuration names others: whether the server is healthy. Everywhere
// else they get 401.
func publicPaths(bootstrapTokens bool) map[string]any {
	var conditions []any
	paths := []string{"/livez", "/readyz", "/healthz"}
	if bootstrapTokens {
		paths = append(paths, clusterInfoPath)
	}
	for _, path := range paths {
		conditions = append(conditions, map[string]any{"path": path})
	}
	return map[string]any{"enabled": true, "conditions": conditions}
}

// authenticationConfig is an AuthenticationConfiguration, as YAML, with what a server needs besides what the given one has.
// Empty is one without any content.
func authenticationConfig(given []byte, bootstrapTokens bool) ([]byte, error) {
	config := map[string]any{"apiVersion": apiserverv1.SchemeGroupVersion.String(), "kind": "AuthenticationConfiguration"}
	if len(bytes.TrimSpace(given)) > 0 {
		config = map[string]any{}
		if err := yaml.UnmarshalStrict(given, &config); err != nil {
			return nil, fmt.Errorf("reading the authentication configuration: %w", err)
		}
		if config["kind"] != "AuthenticationConfiguration" {
			return nil, errors.New("the authentication configuration is not of kind AuthenticationConfiguration")
		}
	}
	if config["anonymous"] == nil {
		config["anonymous"] = publicPaths(bootstrapTokens)
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the authentication configuration: %w", err)
	}
	return text, nil
}

// write makes the file that the server loads. A file that is as it should be is not touched.
func (a Authentication) write(dataDir string) error {
	var given []byte
	if file := a.ConfigFile; file != "" {
		var err error
		if given, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("reading the authentication configuration: %w", err)
		}
	}
	text, err := authenticationConfig(given, a.BootstrapTokens)
	if err != nil {
		return err
	}
	file := filepath.Join(dataDir, authenticationFile)
	if present, err := os.ReadFile(file); err == nil && bytes.Equal(present, text) {
		return nil
	}
	if err := atomicfile.Write(file, text, 0o600); err != nil {
		return fmt.Errorf("writing the authentication configuration: %w", err)
	}
	return nil
}

// Apply sets the options of the API server. Modes are its authorizers besides a webhook.
func (a Authentication) Apply(o *options.ServerRunOptions, dataDir string, modes ...string) error {
	if err := a.write(dataDir); err != nil {
		return err
	}
	o.Authentication.AuthenticationConfigFile = filepath.Join(dataDir, authenticationFile)
	o.Authentication.WebHook.ConfigFile = a.TokenWebhookConfigFile
	o.Authentication.BootstrapToken.Enable = a.BootstrapTokens
	o.Authorization.Modes = modes
	if a.AuthorizationWebhookConfigFile != "" {
		o.Authorization.Modes = append(o.Authorization.Modes, "Webhook")
		o.Authorization.WebhookConfigFile = a.AuthorizationWebhookConfigFile
	}
	return nil
}

// Watch writes the file that the server loads again when the one it is made of changes, until the context ends. The server
// keeps its configuration while the new one is invalid.
func (a Authentication) Watch(ctx context.Context, dataDir string, clk clock.WithTicker) {
	tick := clk.NewTicker(authenticationPeriod)
	defer tick.Stop()
	failed := ""
	for {
		select {
		case <-tick.C():
		case <-ctx.Done():
			return
		}
		err := a.write(dataDir)
		switch {
		case err == nil:
			failed = ""
		case err.Error() != failed: // once, not every few seconds
			failed = err.Error()
			log.FromContext(ctx).WithName("apiserver").Error(err, "The authentication configuration stays as it is")
		}
	}
}
