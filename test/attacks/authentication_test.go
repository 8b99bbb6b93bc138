package attacks_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// issuer issues JWTs, reviews tokens, and takes audit events.
type issuer struct {
	*httptest.Server
	key    *rsa.PrivateKey
	audits atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"}})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()),
			"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("/review", func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		if json.NewDecoder(r.Body).Decode(&review) == nil && review.Spec.Token == "reviewed" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "reviewed:eve"}}
		}
		answer(w, review)
	})
	mux.HandleFunc("/audit", func(_ http.ResponseWriter, r *http.Request) {
		var list auditv1.EventList
		if json.NewDecoder(r.Body).Decode(&list) == nil {
			i.audits.Add(int64(len(list.Items)))
		}
	})
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

// authority is the certificate that verifies the issuer, as PEM.
func (i *issuer) authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
}

// token is a JWT of a user.
func (i *issuer) token(t *testing.T, user string) string {
	t.Helper()
	part := func(value any) string {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	now := time.Now()
	signed := part(map[string]any{"alg": "RS256", "kid": "one"}) + "." + part(map[string]any{
		"iss": i.URL, "aud": "hub", "sub": user, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// kubeconfig is a file that leads to a path of the issuer, as the API server requires it for its webhooks.
func (i *issuer) kubeconfig(t *testing.T, path string) string {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]\n"+
		"users: [{name: u}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n",
		i.URL+path, base64.StdEncoding.EncodeToString(i.authority()))
	return writeFile(t, text)
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// expectForbidden fails if a request succeeds, and sends it again if it fails for another reason than a missing right.
func expectForbidden(t *testing.T, what string, request func() error) {
	t.Helper()
	until(t, func() error {
		err := request()
		switch {
		case err == nil:
			t.Fatalf("%s: it is allowed", what)
		case apierrors.IsForbidden(err):
			return nil
		}
		return fmt.Errorf("%s: %w", what, err)
	})
}

// until waits until check says nothing more.
func until(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.After(fleettest.Patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

// TestIdentitiesOfOthers: users come from the operator's own issuer or webhook, with the rights that RBAC gives them, and
// other users are not authenticated. It takes 35 s beside other tests, for its control planes.
func TestIdentitiesOfOthers(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	trusted := head + fmt.Sprintf("jwt:\n- issuer:\n    url: %s\n    audiences: [hub]\n    certificateAuthority: |\n      %s\n  claimMappings: {username: {claim: sub, prefix: \"oidc:\"}}\n",
		i.URL, strings.ReplaceAll(strings.TrimSpace(string(i.authority())), "\n", "\n      "))
	config := writeFile(t, trusted)
	hub := fleettest.StartHub(t, "--authentication-config", config,
		"--authentication-token-webhook-config-file", i.kubeconfig(t, "/review"), "--audit-webhook-config-file", i.kubeconfig(t, "/audit"),
		"--audit-policy-file", writeFile(t, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Request\n  users: [\"oidc:alice\"]\n"))

	as := func(token string) kubernetes.Interface {
		anonymous := rest.AnonymousClientConfig(hub.Config)
		anonymous.BearerToken = token
		return kubernetes.NewForConfigOrDie(anonymous)
	}
	for user, token := range map[string]string{"oidc:alice": i.token(t, "alice"), "reviewed:eve": "reviewed"} {
		until(t, func() error { // the keys of the issuer are fetched once the server runs
			review, err := as(token).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err == nil && review.Status.UserInfo.Username != user {
				t.Fatalf("the token makes its holder %q, want %q", review.Status.UserInfo.Username, user)
			}
			return err
		})
		expectForbidden(t, user+" reads Secrets", func() error {
			_, err := as(token).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
			return err
		})
	}
	fleettest.Create(t, hub.Cluster, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "alice"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "oidc:alice"}},
	})
	alice := as(i.token(t, "alice"))
	until(t, func() error {
		_, err := alice.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "of-alice-"}}, metav1.CreateOptions{})
		return err
	})
	record := expectRecord(t, filepath.Join(hub.Dir, "audit", "audit.log"), func(e auditv1.Event) bool {
		return e.User.Username == "oidc:alice" && e.Verb == "create" && e.ObjectRef != nil && e.ObjectRef.Resource == "configmaps" &&
			e.ResponseStatus != nil && e.ResponseStatus.Code == 201
	})
	if record.Level != auditv1.LevelRequest {
		t.Errorf("the level is %s, not that of the operator's policy", record.Level)
	}
	// Others may read whether the server lives, and nothing else.
	anonymous := func(path string) error {
		return as("").Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).Error()
	}
	healthy := func() error { // a check may fail for a moment
		err := anonymous("/readyz")
		if apierrors.IsUnauthorized(err) {
			t.Fatalf("anonymous users cannot see the health: %v", err)
		}
		return err
	}
	until(t, healthy)
	for _, path := range []string{"/api", "/version"} {
		if err := anonymous(path); !apierrors.IsUnauthorized(err) {
			t.Errorf("anonymous, %s: %v", path, err)
		}
	}

	// An issuer that is not trusted any more is out without a restart.
	if err := os.WriteFile(config, []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		_, err := alice.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the token of an issuer that is not trusted any more: %v", err)
		}
		return nil
	})
	until(t, healthy)

	until(t, func() error { // last, since the server gathers audit events for half a minute
		if i.audits.Load() == 0 {
			return fmt.Errorf("the webhook has got no audit event")
		}
		return nil
	})
}

// TestTheOperatorCanBeBoundedAndRevoked: the default kubeconfig has the rights that RBAC gives, and loses them there for
// good. Only the break-glass file is beyond RBAC.
func TestTheOperatorCanBeBoundedAndRevoked(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	operator := kubernetes.NewForConfigOrDie(hub.Config)
	review, err := operator.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range review.Status.UserInfo.Groups {
		if group == "system:masters" {
			t.Errorf("the default kubeconfig is beyond RBAC: %v", review.Status.UserInfo)
		}
	}
	if err := operator.RbacV1().ClusterRoleBindings().Delete(t.Context(), clusterv1alpha1.OperatorsGroup, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		if _, err := operator.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("an operator without a binding reads Secrets: %v", err)
		}
		return nil
	})

	hub.Kill()
	hub.Start(t)
	secrets := func() error {
		_, err := operator.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	expectForbidden(t, "an operator without a binding reads Secrets after a restart", secrets)

	path := filepath.Join(hub.Dir, "pki", "break-glass.kubeconfig")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the break-glass file: %v, %v, want mode 0600", info, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kubernetes.NewForConfigOrDie(config).RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators-may-look"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1alpha1.OperatorsGroup}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("the break-glass file does not help: %v", err)
	}
	until(t, func() error {
		_, err := operator.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	})
	expectForbidden(t, "an operator who may look at objects reads Secrets", secrets)
}
