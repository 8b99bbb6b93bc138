package apiserver

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	netutils "k8s.io/utils/net"

	"github.com/flagship-k8s/flagship/internal/apiserver/pki"
)

// File names in the key directory, without their ending.
const (
	authorityName      = "ca"
	proxyAuthorityName = "front-proxy-ca"
	servingName        = "apiserver"
	adminName          = "admin"
	proxyClientName    = "front-proxy-client"
	tokenKeyName       = "service-account"
	secretKeyFile      = "secret-encryption.key"

	// proxyClient is the name under which the aggregator calls API servers behind it.
	proxyClient = "front-proxy-client"
)

// keyring is everything the server signs, proves and encrypts with.
type keyring struct {
	dir                       *pki.Dir
	authority, proxyAuthority *pki.Authority
	tokenPrivate, tokenPublic string
	secretKey                 string
	leaves                    []leaf
}

// leaf is a certificate that is renewed while the server runs.
type leaf struct {
	name    string
	issuer  *pki.Authority
	profile pki.Profile
}

// openKeyring loads the keys of a server, making what is missing.
func openKeyring(cfg Config) (*keyring, error) {
	dir, err := pki.Open(cfg.PKIDir, cfg.Clock)
	if err != nil {
		return nil, err
	}
	keys := &keyring{dir: dir}
	if keys.authority, err = dir.Authority(authorityName, "flagship-ca"); err != nil {
		return nil, fmt.Errorf("loading the authority: %w", err)
	}
	if keys.proxyAuthority, err = dir.Authority(proxyAuthorityName, "flagship-front-proxy-ca"); err != nil {
		return nil, fmt.Errorf("loading the front proxy authority: %w", err)
	}
	if keys.tokenPrivate, keys.tokenPublic, err = dir.SigningKey(tokenKeyName); err != nil {
		return nil, fmt.Errorf("loading the service account key: %w", err)
	}
	if keys.secretKey, err = dir.SecretKey(secretKeyFile); err != nil {
		return nil, fmt.Errorf("loading the encryption key: %w", err)
	}
	serving, err := servingProfile(cfg)
	if err != nil {
		return nil, err
	}
	keys.leaves = []leaf{
		{servingName, keys.authority, serving},
		{adminName, keys.authority, pki.Profile{CommonName: "flagship-admin", Groups: []string{"system:masters"}}},
		{proxyClientName, keys.proxyAuthority, pki.Profile{CommonName: proxyClient}},
	}
	_, _, err = keys.renew()
	return keys, err
}

// renew replaces the certificates that are due, names them, and says when to look again.
func (k *keyring) renew() (renewed []string, next time.Time, err error) {
	for _, leaf := range k.leaves {
		pair, fresh, err := k.dir.Leaf(leaf.name, leaf.issuer, leaf.profile)
		if err != nil {
			return renewed, time.Time{}, fmt.Errorf("renewing certificate %q: %w", leaf.name, err)
		}
		if fresh {
			renewed = append(renewed, leaf.name)
		}
		if next.IsZero() || pair.RenewAt.Before(next) {
			next = pair.RenewAt
		}
	}
	return renewed, next, nil
}

// kubeconfig is a client certificate kubeconfig with all rights for the server at url.
func (k *keyring) kubeconfig(url string) ([]byte, error) {
	admin := slices.IndexFunc(k.leaves, func(l leaf) bool { return l.name == adminName })
	pair, _, err := k.dir.Leaf(adminName, k.leaves[admin].issuer, k.leaves[admin].profile)
	if err != nil {
		return nil, fmt.Errorf("loading the admin certificate: %w", err)
	}
	const name = "flagship"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: k.authority.PEM}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.Cert, ClientKeyData: pair.Key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding kubeconfig: %w", err)
	}
	return data, nil
}

// servingProfile lists every name and address under which clients may reach the server.
func servingProfile(cfg Config) (pki.Profile, error) {
	profile := pki.Profile{
		CommonName: "flagship-apiserver",
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local",
		},
		IPs: []string{"127.0.0.1", "::1"},
	}
	if hostname, err := os.Hostname(); err == nil && hostname != "" {
		profile.DNSNames = append(profile.DNSNames, hostname)
	}
	primary, _, _ := strings.Cut(cfg.ServiceCIDR, ",") // the API server's own Service has one address
	_, services, err := netutils.ParseCIDRSloppy(primary)
	if err != nil {
		return profile, fmt.Errorf("service CIDR %q: %w", cfg.ServiceCIDR, err)
	}
	first, err := netutils.GetIndexedIP(services, 1)
	if err != nil {
		return profile, fmt.Errorf("service CIDR %q: %w", cfg.ServiceCIDR, err)
	}
	for _, name := range append([]string{first.String(), cfg.AdvertiseAddress, cfg.BindAddress}, cfg.ServerNames...) {
		ip := net.ParseIP(name)
		switch {
		case ip == nil:
			profile.DNSNames = append(profile.DNSNames, name)
		case !ip.IsUnspecified():
			profile.IPs = append(profile.IPs, ip.String())
		}
	}
	slices.Sort(profile.DNSNames)
	slices.Sort(profile.IPs)
	profile.DNSNames, profile.IPs = slices.Compact(profile.DNSNames), slices.Compact(profile.IPs)
	return profile, nil
}

// longestNap bounds how long renewal sleeps, so that a clock set forward is noticed.
const longestNap = 12 * time.Hour

// napUntil is how long to sleep before certificates due at next are renewed.
func napUntil(clk clock.PassiveClock, next time.Time) time.Duration {
	return min(max(next.Sub(clk.Now()), time.Minute), longestNap)
}
