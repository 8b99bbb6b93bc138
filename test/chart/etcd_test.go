package chart

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// etcdCluster is an etcd cluster of three, which accepts clients with a certificate only.
type etcdCluster struct {
	endpoints []any
	// secret is what server.etcd.secret is to have.
	secret files
	client *clientv3.Client
}

// startEtcd runs a cluster until the test ends.
func startEtcd(t *testing.T) *etcdCluster {
	t.Helper()
	dir := t.TempDir()
	c := &etcdCluster{secret: newCertificate(t)}
	for name, content := range c.secret {
		writeFile(t, filepath.Join(dir, name), content)
	}
	info := transport.TLSInfo{
		TrustedCAFile: filepath.Join(dir, "ca.crt"), CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"), ClientCertAuth: true,
	}
	at := func(scheme string) []url.URL {
		return []url.URL{{Scheme: scheme, Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}}
	}
	var configs []*embed.Config
	var peers, endpoints []string
	for n := range 3 {
		config := embed.NewConfig()
		config.Name, config.Dir = fmt.Sprintf("etcd%d", n), filepath.Join(dir, strconv.Itoa(n))
		config.LogLevel, config.UnsafeNoFsync = "fatal", true
		config.ListenClientUrls, config.ListenPeerUrls, config.ClientTLSInfo = at("https"), at("http"), info
		config.AdvertiseClientUrls, config.AdvertisePeerUrls = config.ListenClientUrls, config.ListenPeerUrls
		configs, peers = append(configs, config), append(peers, config.Name+"="+config.ListenPeerUrls[0].String())
		endpoints = append(endpoints, config.ListenClientUrls[0].String())
		c.endpoints = append(c.endpoints, endpoints[n])
	}
	var running []*embed.Etcd
	for _, config := range configs {
		config.InitialCluster = strings.Join(peers, ",")
		server, err := embed.StartEtcd(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		running = append(running, server)
	}
	for _, server := range running {
		select {
		case <-server.Server.ReadyNotify():
		case <-time.After(patience):
			t.Fatal("etcd has no leader")
		}
	}
	config, err := info.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c.client, err = clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: config, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.client.Close() })
	return c
}

// newCertificate returns a certificate for servers of this machine and for clients, its key, and its authority, with the names of a Secret for TLS.
func newCertificate(t *testing.T) files {
	t.Helper()
	key := func() *ecdsa.PrivateKey {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	authorityKey, leafKey := key(), key()
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "etcd"}, authorityKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "flagship"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, authority, leafKey.Public(), crypto.Signer(authorityKey))
	if err != nil {
		t.Fatal(err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
	}
	return files{"ca.crt": encode(authority.Raw), "tls.crt": encode(signed), "tls.key": private}
}
