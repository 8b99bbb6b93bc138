package credentials

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/serviceaccount"
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

	// issuer names the signer of service account tokens; servers that share one etcd share it.
	issuer = "https://kubernetes.default.svc.cluster.local"
	// proxyClient is the name under which the aggregator calls API servers behind it.
	proxyClient = "front-proxy-client"
)

// Keyring is everything the server signs, proves and encrypts with.
type Keyring struct {
	dir *pki.Dir
	// authorities are by the names of their files. Renewal replaces them.
	authorities                           map[string]*atomic.Pointer[pki.Authority]
	tokenPrivate, tokenPublic, tokenKeyID string
	secretKeys                            encryption.Keys
	leaves                                []leaf
	options                               Options

	mu sync.Mutex
	// kubeconfigs are the files that renewal writes again.
	kubeconfigs sets.Set[string]
}

// leaf is a certificate that is renewed while the server runs.
type leaf struct {
	name    string
	issuer  string // the name of an authority
	profile pki.Profile
}

// Options say whose keys to load.
type Options struct {
	// Name is that of the cluster, the user and the context in kubeconfigs.
	Name string
	// Dir is the directory of the keys.
	Dir string
	// URL is where clients reach the server.
	URL string
	// Shared is true if several servers use the authorities. None of them may replace an authority alone.
	Shared bool
	// Operator adds the client certificate of a user whose rights come from RBAC.
	Operator bool
	// ServiceCIDR is the range, or ranges, of cluster IPs: the first address is that of the API server's own Service.
	ServiceCIDR string
	// Names are further DNS names and IPs of the server.
	Names []string
	// InUse is true if storage has the data of servers that ran before: keys that are missing are then an error, and not made.
	InUse bool
	// Encrypted is true if that data is encrypted with the keys in encryption.KeyFile.
	Encrypted bool
	// Clock decides when certificates are renewed.
	Clock clock.Clock
}

// required are the files without which data of former servers cannot be used.
func (o Options) required() []string {
	if !o.InUse {
		return nil
	}
	files := []string{authorityName + ".key", proxyAuthorityName + ".key", tokenKeyName + ".key"}
	if o.Encrypted {
		files = append(files, encryption.KeyFile)
	}
	return files
}

// Open loads the keys of a server, making what is missing. It returns a pki.MissingError for keys that data of former servers needs.
func Open(ctx context.Context, o Options) (*Keyring, error) {
	dir, err := pki.Open(o.Dir, o.Clock)
	if err != nil {
		return nil, err
	}
	if err := dir.Require(o.required()...); err != nil {
		return nil, err
	}
	keys := &Keyring{dir: dir, options: o, kubeconfigs: sets.New[string](), authorities: map[string]*atomic.Pointer[pki.Authority]{
		authorityName: {}, proxyAuthorityName: {},
	}}
	if _, err := keys.renewAuthorities(); err != nil {
		return nil, err
	}
	if keys.tokenPrivate, keys.tokenPublic, err = dir.SigningKey(tokenKeyName); err != nil {
		return nil, fmt.Errorf("loading the service account key: %w", err)
	}
	if keys.tokenKeyID, err = keyIDOf(ctx, keys.tokenPublic); err != nil {
		return nil, fmt.Errorf("reading the id of the service account key: %w", err)
	}
	text, err := dir.SecretKeys(encryption.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("loading the encryption keys: %w", err)
	}
	if keys.secretKeys, err = encryption.ParseKeys(text); err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir.File(encryption.KeyFile), err)
	}
	serving, err := servingProfile(o.ServiceCIDR, o.Names)
	if err != nil {
		return nil, err
	}
	keys.leaves = []leaf{
		{servingName, authorityName, serving},
		{adminName, authorityName, pki.Profile{CommonName: "flagship-admin", Groups: []string{user.SystemPrivilegedGroup}}},
		{proxyClientName, proxyAuthorityName, pki.Profile{CommonName: proxyClient}},
	}
	if o.Operator {
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
func (k *Keyring) renewAuthorities() (changed []string, err error) {
	for name, commonName := range commonNames() {
		if !k.options.Shared {
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
func (k *Keyring) authority() *pki.Authority { return k.authorities[authorityName].Load() }

// CA are the certificates, as PEM, that verify the server. Years before an authority ends there are those of its successor, too.
func (k *Keyring) CA() []byte { return k.authority().PEM }

// AuthorityFiles are the files of the authority's certificate and key.
func (k *Keyring) AuthorityFiles() (cert, key string) {
	return k.dir.File(authorityName + ".crt"), k.dir.File(authorityName + ".key")
}

// TokenKey is the file of the key that signs service account tokens.
func (k *Keyring) TokenKey() string { return k.tokenPrivate }

// TokenKeyID is the id of that key in the headers of tokens.
func (k *Keyring) TokenKeyID() string { return k.tokenKeyID }

// keyIDOf returns the id of the public key in a file, as the API server writes it into tokens.
func keyIDOf(ctx context.Context, file string) (string, error) {
	parsed, err := keyutil.PublicKeysFromFile(file)
	if err != nil {
		return "", err
	}
	getter, err := serviceaccount.StaticPublicKeysGetter(parsed)
	if err != nil {
		return "", err
	}
	found := getter.GetPublicKeys(ctx, "")
	if len(found) != 1 {
		return "", fmt.Errorf("%s has %d keys, want one", file, len(found))
	}
	return found[0].KeyID, nil
}

// EncryptionKeys are the keys that encrypt what is stored.
func (k *Keyring) EncryptionKeys() encryption.Keys { return k.secretKeys }

// renew replaces the certificates that are due, and returns their names and the time of the next check.
func (k *Keyring) renew() (renewed []string, next time.Time, err error) {
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

// Ends are the times at which certificates end, those of authorities included, by the names of their files without ending. A file that
// cannot be read is left out.
func (k *Keyring) Ends() map[string]time.Time {
	names := slices.Collect(maps.Keys(k.authorities))
	for _, leaf := range k.leaves {
		names = append(names, leaf.name)
	}
	ends := map[string]time.Time{}
	for _, name := range names {
		if end, err := k.dir.Ends(name); err == nil {
			ends[name] = end
		}
	}
	return ends
}

// Apply sets the options of the API server.
func (k *Keyring) Apply(o *options.ServerRunOptions) {
	o.SecureServing.ServerCert.CertKey.CertFile = k.dir.File(servingName + ".crt")
	o.SecureServing.ServerCert.CertKey.KeyFile = k.dir.File(servingName + ".key")
	o.Authentication.ClientCert.ClientCA = k.dir.Bundle(authorityName)
	o.Authentication.ServiceAccounts.Issuers = []string{issuer}
	o.Authentication.ServiceAccounts.KeyFiles = []string{k.tokenPublic}
	o.ServiceAccountSigningKeyFile = k.tokenPrivate

	header := o.Authentication.RequestHeader
	header.ClientCAFile = k.dir.Bundle(proxyAuthorityName)
	header.AllowedNames = []string{proxyClient}
	header.UsernameHeaders = []string{"X-Remote-User"}
	header.UIDHeaders = []string{"X-Remote-Uid"}
	header.GroupHeaders = []string{"X-Remote-Group"}
	header.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	o.ProxyClientCertFile = k.dir.File(proxyClientName + ".crt")
	o.ProxyClientKeyFile = k.dir.File(proxyClientName + ".key")
}

// servingProfile lists every name and address under which clients may reach the server.
func servingProfile(serviceCIDR string, names []string) (pki.Profile, error) {
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
	primary, _, _ := strings.Cut(serviceCIDR, ",") // the API server's own Service has one address
	_, services, err := netutils.ParseCIDRSloppy(primary)
	if err != nil {
		return profile, fmt.Errorf("service CIDR %q: %w", serviceCIDR, err)
	}
	first, err := netutils.GetIndexedIP(services, 1)
	if err != nil {
		return profile, fmt.Errorf("service CIDR %q: %w", serviceCIDR, err)
	}
	for _, name := range append([]string{first.String()}, names...) {
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
