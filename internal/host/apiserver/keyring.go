package apiserver

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	netutils "k8s.io/utils/net"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/encryption"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
)

// File names in the key directory, without their ending.
const (
	authorityName      = "ca"
	proxyAuthorityName = "front-proxy-ca"
	servingName        = "apiserver"
	adminName          = "admin"
	operatorName       = "operator"
	breakGlassFile     = "break-glass.kubeconfig"
	proxyClientName    = "front-proxy-client"
	tokenKeyName       = "service-account"
	secretKeyFile      = "secret-encryption.key"

	// proxyClient is the name under which the aggregator calls API servers behind it.
	proxyClient = "front-proxy-client"
)

// keyring is everything the server signs, proves and encrypts with.
type keyring struct {
	dir *pki.Dir
	// authorities are by the names of their files. Renewal replaces them.
	authorities map[string]*atomic.Pointer[pki.Authority]
	// succeeds says that authorities get their successors here. Of several servers on one etcd none may do that alone.
	succeeds                  bool
	tokenPrivate, tokenPublic string
	secretKeys                encryption.Keys
	leaves                    []leaf
}

// leaf is a certificate that is renewed while the server runs.
type leaf struct {
	name    string
	issuer  string // the name of an authority
	profile pki.Profile
}

// openKeyring loads the keys of a server, making what is missing.
func openKeyring(cfg Config) (*keyring, error) {
	dir, err := pki.Open(cfg.PKIDir, cfg.Clock)
	if err != nil {
		return nil, err
	}
	keys := &keyring{dir: dir, succeeds: cfg.ExternalEtcd == nil, authorities: map[string]*atomic.Pointer[pki.Authority]{
		authorityName: {}, proxyAuthorityName: {},
	}}
	if _, err := keys.renewAuthorities(); err != nil {
		return nil, err
	}
	if keys.tokenPrivate, keys.tokenPublic, err = dir.SigningKey(tokenKeyName); err != nil {
		return nil, fmt.Errorf("loading the service account key: %w", err)
	}
	text, err := dir.SecretKeys(secretKeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the encryption keys: %w", err)
	}
	if keys.secretKeys, err = encryption.ParseKeys(text); err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir.File(secretKeyFile), err)
	}
	serving, err := servingProfile(cfg)
	if err != nil {
		return nil, err
	}
	keys.leaves = []leaf{
		{servingName, authorityName, serving},
		{adminName, authorityName, pki.Profile{CommonName: "flagship-admin", Groups: []string{user.SystemPrivilegedGroup}}},
		{proxyClientName, proxyAuthorityName, pki.Profile{CommonName: proxyClient}},
	}
	if cfg.Role == Hub {
		operator := pki.Profile{CommonName: clusterv1alpha1.OperatorUser, Groups: []string{clusterv1alpha1.OperatorsGroup}}
		keys.leaves = append(keys.leaves, leaf{operatorName, authorityName, operator})
	}
	_, _, err = keys.renew()
	return keys, err
}

// commonNames are those of the authorities, by the names of their files.
func commonNames() map[string]string {
	return map[string]string{authorityName: "flagship-ca", proxyAuthorityName: "flagship-front-proxy-ca"}
}

// renewAuthorities loads the authorities, and takes the steps that are due in their lives. It names those that have changed.
func (k *keyring) renewAuthorities() (changed []string, err error) {
	for name, commonName := range commonNames() {
		if k.succeeds {
			took, err := k.dir.Renew(name, commonName)
			if err != nil {
				return changed, fmt.Errorf("renewing the authority %q: %w", name, err)
			}
			if took {
				changed = append(changed, name)
			}
		}
		authority, err := k.dir.Authority(name, commonName)
		if err != nil {
			return changed, fmt.Errorf("loading the authority %q: %w", name, err)
		}
		k.authorities[name].Store(authority)
	}
	return changed, nil
}

// authority is the one that signs what clients and servers show.
func (k *keyring) authority() *pki.Authority { return k.authorities[authorityName].Load() }

// renew replaces the certificates that are due, names them, and says when to look again.
func (k *keyring) renew() (renewed []string, next time.Time, err error) {
	if renewed, err = k.renewAuthorities(); err != nil {
		return renewed, time.Time{}, err
	}
	for _, leaf := range k.leaves {
		pair, fresh, err := k.dir.Leaf(leaf.name, k.authorities[leaf.issuer].Load(), leaf.profile)
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

// kubeconfig leads to the server at url with the client certificate of this name.
func (k *keyring) kubeconfig(url, client string) ([]byte, error) {
	at := slices.IndexFunc(k.leaves, func(l leaf) bool { return l.name == client })
	pair, _, err := k.dir.Leaf(client, k.authorities[k.leaves[at].issuer].Load(), k.leaves[at].profile)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate %q: %w", client, err)
	}
	const name = "flagship"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: k.authority().PEM}
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
