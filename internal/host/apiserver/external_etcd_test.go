package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// startExternalEtcd runs an etcd that requires client certificates, and returns how to reach it.
func startExternalEtcd(t *testing.T) (*embed.Etcd, etcd.External) {
	t.Helper()
	dir := t.TempDir()
	keys, err := pki.Open(filepath.Join(dir, "pki"), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := keys.Authority("ca", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	server, _, err := keys.Leaf("server", authority, pki.Profile{CommonName: "etcd", IPs: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	client, _, err := keys.Leaf("client", authority, pki.Profile{CommonName: "flagship"})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := url.URL{Scheme: "https", Host: fmt.Sprintf("127.0.0.1:%s", fleettest.FreePort(t))}

	config := embed.NewConfig()
	config.Dir, config.LogLevel, config.UnsafeNoFsync = filepath.Join(dir, "data"), "panic", true
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{endpoint}, []url.URL{endpoint}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer.sock")}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo.CertFile, config.ClientTLSInfo.KeyFile = server.CertFile, server.KeyFile
	config.ClientTLSInfo.TrustedCAFile, config.ClientTLSInfo.ClientCertAuth = keys.File("ca.crt"), true
	elsewhere, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(elsewhere.Close)
	<-elsewhere.Server.ReadyNotify()
	return elsewhere, etcd.External{
		Endpoints: []string{endpoint.String()}, CAFile: keys.File("ca.crt"), CertFile: client.CertFile, KeyFile: client.KeyFile,
	}
}

// TestExternalEtcd: kinds of every server, built-in, native and custom, are kept in an etcd elsewhere.
func TestExternalEtcd(t *testing.T) {
	elsewhere, external := startExternalEtcd(t)
	environment, err := json.Marshal(external)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	running := startChild(t, dir, childEtcd+"="+string(environment))
	_, err = running.client(t, dir).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	works := dynamic.NewForConfigOrDie(config).Resource(worksResource).Namespace("default")
	stored(t, works, workHead, "kept", manifests)

	if _, err := running.client(t, dir).CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"}, InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "kept"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Not all Events: the controllers of the server publish some, too.
	events, err := running.client(t, dir).CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=kept"})
	if err != nil || len(events.Items) != 1 || len(events.ResourceVersion) < 9 { // with the versions of Events in memory
		t.Errorf("Events are %v, %v", events, err)
	}

	keys := v3client.New(elsewhere.Server)
	for _, key := range []string{"/registry/configmaps/default/kept", "/registry/events/default/kept", "/registry/work.karmada.io/works/default/kept"} {
		found, err := keys.Get(t.Context(), key)
		if err != nil || found.Count != 1 {
			t.Errorf("%s is not in the etcd elsewhere: %v", key, err)
		}
	}
}
