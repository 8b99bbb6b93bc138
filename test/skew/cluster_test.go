package skew_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// etcdVar names the environment variable with which this program is a server of etcd instead of a test: its directory.
	etcdVar = "FLAGSHIP_TEST_ETCD_DIR"
	// etcdAddressVar names the one with the address that it listens at.
	etcdAddressVar = "FLAGSHIP_TEST_ETCD_ADDRESS"
	// administrator is the token of the user with all rights.
	administrator = "administrator"
)

// TestMain runs the tests, or a server of etcd until its standard input ends, which it does with the test.
func TestMain(m *testing.M) {
	dir := os.Getenv(etcdVar)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serveEtcd(dir, os.Getenv(etcdAddressVar)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveEtcd(dir, address string) error {
	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = dir, "fatal", true // the data go with the test
	config.ListenClientUrls = []url.URL{{Scheme: "http", Host: address}}
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")}}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	server.Close()
	return err
}

// startEtcd runs a server of etcd until the test ends, and returns its URL.
func startEtcd(t *testing.T) string {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", fleettest.FreePort(t))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), etcdVar+"="+t.TempDir(), etcdAddressVar+"="+address)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	fleettest.RunProgram(t, "etcd", cmd)
	return "http://" + address
}

// startCluster runs kube-apiserver and kube-controller-manager of the version, with simulated nodes, until the test ends.
func startCluster(t *testing.T, name string, v version, programs string) (*fleettest.Cluster, audit) {
	t.Helper()
	dir := t.TempDir()
	path := func(file string) string { return filepath.Join(dir, file) }
	write := func(file string, content []byte) string {
		t.Helper()
		if err := os.WriteFile(path(file), content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path(file)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signing, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signingKey, err := keyutil.MarshalPrivateKeyToPEM(signing)
	if err != nil {
		t.Fatal(err)
	}
	port := fleettest.FreePort(t)
	server := "https://" + net.JoinHostPort("127.0.0.1", port)
	accounts, authority := write("accounts.key", signingKey), write("server.crt", certificate)
	run := func(program string, args ...string) {
		fleettest.RunProgram(t, program+" of "+name, exec.Command(filepath.Join(programs, program), args...))
	}
	run("kube-apiserver", append([]string{
		"--etcd-servers", startEtcd(t), "--secure-port", port, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--endpoint-reconciler-type", "none", "--cert-dir", dir,
		"--tls-cert-file", authority, "--tls-private-key-file", write("server.key", key),
		"--token-auth-file", write("tokens.csv", []byte(administrator+",administrator,administrator,system:masters\n")),
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.120.0.0/16",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", accounts, "--service-account-signing-key-file", accounts,
		"--service-account-extend-token-expiration=false", "--service-account-max-token-expiration", longestToken.String(),
		"--audit-policy-file", write("audit.json", []byte(auditPolicy)), "--audit-log-path", path("audit.log"),
		// Nothing takes the taint of a new node away, since no node sends heartbeats.
		"--disable-admission-plugins", "TaintNodesByCondition",
	}, v.flags...)...)

	access := clientcmdapi.NewConfig()
	access.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: certificate}
	access.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: administrator}
	access.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	access.CurrentContext = name
	if err := clientcmd.WriteToFile(*access, path("kubeconfig")); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, path("kubeconfig"))
	run("kube-controller-manager", append([]string{
		"--kubeconfig", path("kubeconfig"), "--service-account-private-key-file", accounts, "--root-ca-file", authority, "--leader-elect=false",
		"--secure-port", "0", "--controllers", "*,-node-lifecycle-controller,-node-ipam-controller",
	}, v.controllerFlags...)...)
	c := fleettest.Connect(t, name, path("kubeconfig"))
	startNodes(t, c)
	return c, audit{path("audit.log")}
}

// awaitReady waits until an API server can be reached and is ready.
func awaitReady(t *testing.T, kubeconfig string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.NegotiatedSerializer = unversioned
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, "the API server is ready", func() bool {
		return client.Get().AbsPath("/readyz").Do(t.Context()).Error() == nil
	})
}
