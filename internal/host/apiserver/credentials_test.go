package apiserver_test

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.kubeconfig")
	if err := hub.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600: the file holds a private key", info.Mode())
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{}); err != nil {
		t.Errorf("the kubeconfig is refused: %v", err)
	}
	merged, err := (&clientcmd.ClientConfigLoadingRules{Precedence: []string{path, filepath.Join(hub.PKIDir(), "break-glass.kubeconfig")}}).Load()
	if err != nil {
		t.Fatal(err)
	}
	if merged.CurrentContext != "flagship" || merged.Contexts["flagship"].AuthInfo != "flagship" ||
		merged.Contexts["flagship-break-glass"].AuthInfo != "flagship-break-glass" || merged.Contexts["flagship-break-glass"].Cluster != "flagship" {
		t.Errorf("merged kubeconfigs have the contexts %v", merged.Contexts)
	}
}

func TestKeysArePrivate(t *testing.T) {
	entries, err := os.ReadDir(hub.PKIDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(entry.Name()) == ".key" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", entry.Name(), info.Mode())
		}
	}
	for _, name := range []string{"encryption.yaml", "authentication.yaml"} {
		if info, err := os.Stat(filepath.Join(hubDir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want mode 0600", name, info, err)
		}
	}
}

func TestServiceAccountToken(t *testing.T) {
	account, err := clients.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "robot-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := clients.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	robot := kubernetes.NewForConfigOrDie(&rest.Config{
		Host: hub.URL(), BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA()},
	})
	review, err := robot.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := review.Status.UserInfo.Username, "system:serviceaccount:default:"+account.Name; got != want {
		t.Errorf("the token makes its holder %q, want %q", got, want)
	}
	if _, err := robot.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an account without roles lists Secrets: %v, want forbidden", err)
	}
}

func TestSecretsAreEncryptedAtRest(t *testing.T) {
	const plain = "correct horse battery staple"
	_, err := clients.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"password": plain},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(hubDir, "sockets", "client.sock")}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	stored, err := etcd.Get(t.Context(), "/registry/secrets/default/hidden")
	if err != nil || len(stored.Kvs) != 1 {
		t.Fatalf("reading storage: %v, %v", stored, err)
	}
	value := stored.Kvs[0].Value
	if bytes.Contains(value, []byte(plain)) || !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:generated:")) {
		t.Errorf("stored as %q, want it encrypted", value[:min(60, len(value))])
	}
}

// servingSerial is the serial number of the certificate the hub shows to a new client.
func servingSerial(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", hub.URL()[len("https://"):], &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestCertificatesAreRenewedWhileRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.kubeconfig")
	if err := hub.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	serial := servingSerial(t)
	eventually(t, func() string {
		if !hubClock.HasWaiters() {
			return "no timer waits for certificates to be due"
		}
		return ""
	})
	hubClock.Step(early)
	eventually(t, func() string {
		if servingSerial(t) == serial {
			return "the hub still shows its old certificate"
		}
		return ""
	})
	eventually(t, func() string {
		if after, err := os.ReadFile(path); err != nil || bytes.Equal(before, after) {
			return "the kubeconfig still holds the old certificate"
		}
		return ""
	})
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the renewed kubeconfig is refused: %v", err)
	}
}

// powerful is a token of a new service account with all rights.
func powerful(t *testing.T, name string) string {
	t.Helper()
	if _, err := clients.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := clients.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holder := kubernetes.NewForConfigOrDie(&rest.Config{
		Host: hub.URL(), BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA()},
	})
	eventually(t, func() string {
		if _, err := holder.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return token.Status.Token
}
