package clusters_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/clusters"
)

// fleet is one cluster and the Secrets of its credentials.
type fleet struct {
	cluster *clusterv1alpha1.Cluster
	secrets map[string]map[string]string
	// edit changes a Secret that is read.
	edit func(*corev1.Secret)
	// remote refuses loopback addresses.
	remote bool
}

func newFleet(member *httptest.Server) *fleet {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: member.Certificate().Raw})
	return &fleet{
		cluster: &clusterv1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"},
			Spec: clusterv1alpha1.ClusterSpec{
				APIEndpoint:           member.URL,
				SecretRef:             &clusterv1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: "full"},
				ImpersonatorSecretRef: &clusterv1alpha1.LocalSecretReference{Namespace: "karmada-cluster", Name: "impersonator"},
			},
		},
		secrets: map[string]map[string]string{
			"full":         {"caBundle": string(authority)},
			"impersonator": {"token": "t1"},
		},
	}
}

func (f *fleet) dialer() *clusters.Dialer {
	return clusters.NewDialer(
		func(context.Context, string) (*clusterv1alpha1.Cluster, error) {
			if f.cluster == nil {
				return nil, apierrors.NewNotFound(clusterv1alpha1.Resource("clusters"), "m")
			}
			return f.cluster, nil
		},
		func(_ context.Context, _, name string) (*corev1.Secret, error) {
			data, ok := f.secrets[name]
			if !ok {
				return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
			}
			use := clusterv1alpha1.ControllerCredential
			if name == "impersonator" {
				use = clusterv1alpha1.ImpersonatorCredential
			}
			var authority []byte
			if f.cluster.Spec.SecretRef != nil {
				authority = []byte(f.secrets["full"]["caBundle"])
			}
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Annotations:     map[string]string{clusterv1alpha1.CredentialForAnnotation: clusterv1alpha1.CredentialDigest(use, &f.cluster.Spec, authority)},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1alpha1.GroupVersion.String(), Kind: "Cluster", UID: f.cluster.UID}},
				},
				Data: map[string][]byte{},
			}
			if f.edit != nil {
				f.edit(secret)
			}
			for key, value := range data {
				secret.Data[key] = []byte(value)
			}
			return secret, nil
		}, dial.Rules{AllowLoopback: !f.remote}, nil)
}

func member(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }))
	t.Cleanup(server.Close)
	return server
}

func fetch(t *testing.T, endpoint clusters.Endpoint) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint.URL.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := endpoint.Transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestDialFollowsTheCluster(t *testing.T) {
	f := newFleet(member(t))
	dialer := f.dialer()
	first, err := dialer.Dial(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := fetch(t, first); err != nil || body != "hello" || first.Token != "t1" {
		t.Errorf("got %q, %v with token %q", body, err, first.Token)
	}

	f.secrets["impersonator"]["token"] = "t2"
	second, err := dialer.Dial(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if second.Token != "t2" || second.Transport != first.Transport {
		t.Errorf("a renewed token: got %q, want t2 over the same connections", second.Token)
	}

	other := member(t)
	moved := newFleet(other)
	f.cluster, f.secrets["full"] = moved.cluster, moved.secrets["full"]
	third, err := dialer.Dial(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if third.Transport == first.Transport || third.URL.Host != other.Listener.Addr().String() {
		t.Errorf("a moved member is reached at %s by old connections", third.URL)
	}

	f.cluster = nil
	if _, err := dialer.Dial(t.Context(), "m"); !apierrors.IsNotFound(err) {
		t.Errorf("a cluster that is gone: %v", err)
	}
}

func TestDialVerifies(t *testing.T) {
	f := newFleet(member(t))
	f.cluster.Spec.SecretRef = nil
	endpoint, err := f.dialer().Dial(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t, endpoint); err == nil {
		t.Error("a certificate of an unknown authority is trusted")
	}
	f.cluster.Spec.InsecureSkipTLSVerification = true
	if endpoint, err = f.dialer().Dial(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t, endpoint); err != nil {
		t.Errorf("without verification: %v", err)
	}
}

// connector is an HTTP proxy that supports CONNECT only.
func connector(t *testing.T, refuse bool) (*httptest.Server, *[]string) {
	t.Helper()
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, fmt.Sprintf("%s %s %s %v", r.Method, r.Host, r.Header.Get("Proxy-Authorization"), r.Header.Values("X-Team")))
		if refuse {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		upstream, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		// The client may have sent its first byte already, which is in the buffer then.
		conn, received, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(upstream, received); _ = upstream.Close() }()
		_, _ = io.Copy(conn, upstream)
		_ = conn.Close()
	}))
	t.Cleanup(proxy.Close)
	return proxy, &asked
}

func TestDialThroughProxy(t *testing.T) {
	server := member(t)
	proxy, asked := connector(t, false)
	f := newFleet(server)
	f.cluster.Spec.ProxyURL = "http://user:pass@" + proxy.Listener.Addr().String()
	f.cluster.Spec.ProxyHeader = map[string]string{"X-Team": "a, b"}
	endpoint, err := f.dialer().Dial(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := fetch(t, endpoint); err != nil || body != "hello" {
		t.Errorf("got %q, %v", body, err)
	}
	want := fmt.Sprintf("CONNECT %s Basic %s [a b]", server.Listener.Addr(), base64.StdEncoding.EncodeToString([]byte("user:pass")))
	if len(*asked) != 1 || (*asked)[0] != want {
		t.Errorf("the proxy was asked %q, want %q once", *asked, want)
	}
}

func TestDialRefusedByProxy(t *testing.T) {
	proxy, _ := connector(t, true)
	f := newFleet(member(t))
	f.cluster.Spec.ProxyURL = proxy.URL
	endpoint, err := f.dialer().Dial(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t, endpoint); err == nil {
		t.Error("the member was reached past a proxy that refused")
	}
}

func TestDialSocks(t *testing.T) {
	server := member(t)
	f := newFleet(server)
	f.cluster.Spec.ProxyURL = "socks5://" + socks(t)
	endpoint, err := f.dialer().Dial(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := fetch(t, endpoint); err != nil || body != "hello" {
		t.Errorf("got %q, %v", body, err)
	}
}

// socks is a SOCKS5 proxy for one connection to an IPv4 address without authentication.
func socks(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		greeting, request := make([]byte, 3), make([]byte, 10)
		_, _ = io.ReadFull(conn, greeting)
		_, _ = conn.Write([]byte{5, 0})
		_, _ = io.ReadFull(conn, request)
		port := int(request[8])<<8 | int(request[9])
		upstream, err := net.Dial("tcp", net.JoinHostPort(net.IP(request[4:8]).String(), strconv.Itoa(port)))
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		go func() { _, _ = io.Copy(upstream, conn); _ = upstream.Close() }()
		_, _ = io.Copy(conn, upstream)
		_ = conn.Close()
	}()
	return listener.Addr().String()
}

// TestDialRefuses: a credential is used for the Cluster that owns it, where it was issued for, and nowhere else.
func TestDialRefuses(t *testing.T) {
	cases := map[string]func(*fleet){
		"a Secret of another cluster": func(f *fleet) { f.edit = func(s *corev1.Secret) { s.OwnerReferences[0].UID = "other" } },
		"a Secret without an owner":   func(f *fleet) { f.edit = func(s *corev1.Secret) { s.OwnerReferences = nil } },
		"a Secret without a note":     func(f *fleet) { f.edit = func(s *corev1.Secret) { s.Annotations = nil } },
		"a Secret for another address": func(f *fleet) {
			f.edit = func(s *corev1.Secret) { s.Annotations[clusterv1alpha1.CredentialForAnnotation] = "sha256:00" }
		},
		"the controllers' Secret": func(f *fleet) { f.cluster.Spec.ImpersonatorSecretRef = f.cluster.Spec.SecretRef },
		"a Secret elsewhere":      func(f *fleet) { f.cluster.Spec.ImpersonatorSecretRef.Namespace = "shop" },
		"plain http":              func(f *fleet) { f.cluster.Spec.APIEndpoint = "http://10.0.0.1" },
		"a loopback address":      func(f *fleet) { f.remote = true },
		"the metadata service behind a proxy": func(f *fleet) {
			f.remote, f.cluster.Spec.APIEndpoint, f.cluster.Spec.ProxyURL = true, "https://169.254.169.254", "http://10.0.0.1"
		},
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFleet(member(t))
			edit(f)
			if _, err := f.dialer().Dial(t.Context(), "m"); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("got %v, want a refusal", err)
			}
		})
	}
}
