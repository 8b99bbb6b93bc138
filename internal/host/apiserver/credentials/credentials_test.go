package credentials_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
)

const day = 24 * time.Hour

// setting is a directory of keys and a clock, for one server after another.
type setting struct {
	options credentials.Options
	clock   *clocktesting.FakeClock
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &setting{clock: clock, options: credentials.Options{
		Name: "flagship", Dir: filepath.Join(t.TempDir(), "pki"), URL: "https://127.0.0.1:6443", Operator: true,
		ServiceCIDR: "10.96.0.0/16", Clock: clock,
	}}
}

func (s *setting) open(t *testing.T) *credentials.Keyring {
	t.Helper()
	keys, err := credentials.Open(t.Context(), s.options)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// read is the content of a file in the directory of keys.
func (s *setting) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.options.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func certificate(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("%q is no certificate", data)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func load(t *testing.T, data []byte) *clientcmdapi.Config {
	t.Helper()
	config, err := clientcmd.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// client is the certificate in a kubeconfig.
func client(t *testing.T, config *clientcmdapi.Config) *x509.Certificate {
	t.Helper()
	return certificate(t, config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].ClientCertificateData)
}

func TestOnlyTheOwnerReadsKeysAndKubeconfigs(t *testing.T) {
	s := newSetting(t)
	keys := s.open(t)
	kubeconfig := filepath.Join(t.TempDir(), "hub.kubeconfig")
	if err := os.WriteFile(kubeconfig, nil, 0o644); err != nil { // a file that others may read is replaced
		t.Fatal(err)
	}
	if err := errors.Join(keys.WriteKubeconfig(kubeconfig), keys.WriteBreakGlass()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.options.Dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	public := 0
	for _, file := range append(files, kubeconfig) {
		want := os.FileMode(0o600)
		if ext := filepath.Ext(file); ext == ".crt" || ext == ".pub" {
			want = 0o644
			public++
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", file, info.Mode(), err, want)
		}
	}
	if len(files) <= public || public == 0 {
		t.Errorf("%d of %v are public", public, files)
	}
	if info, err := os.Stat(s.options.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
}

func TestKubeconfigs(t *testing.T) {
	s := newSetting(t)
	s.options.Name = "eu"
	keys := s.open(t)
	text, err := keys.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.WriteBreakGlass(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text         []byte
		context      string
		user, groups string
	}{
		"Operator":   {text, "eu", clusterv1alpha1.OperatorUser, clusterv1alpha1.OperatorsGroup},
		"BreakGlass": {s.read(t, "break-glass.kubeconfig"), "eu-break-glass", "flagship-admin", "system:masters"},
	} {
		t.Run(name, func(t *testing.T) {
			config := load(t, tc.text)
			if config.CurrentContext != tc.context || config.Contexts[tc.context].Cluster != "eu" || config.Contexts[tc.context].AuthInfo != tc.context {
				t.Errorf("the contexts are %v, current is %s; want %s, and that others with it in one list do not replace it", config.Contexts, config.CurrentContext, tc.context)
			}
			cluster := config.Clusters["eu"]
			if cluster.Server != s.options.URL || cluster.InsecureSkipTLSVerify || !bytes.Equal(cluster.CertificateAuthorityData, keys.CA()) {
				t.Errorf("the cluster is %v", cluster)
			}
			cert := client(t, config)
			if cert.Subject.CommonName != tc.user || strings.Join(cert.Subject.Organization, " ") != tc.groups {
				t.Errorf("the client is %s in %v, want %s in %s", cert.Subject.CommonName, cert.Subject.Organization, tc.user, tc.groups)
			}
			if !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
				t.Errorf("the certificate is for %v", cert.ExtKeyUsage)
			}
		})
	}
}

// TestAMemberHasNoOperator: only a control plane has a user whose rights come from RBAC.
func TestAMemberHasNoOperator(t *testing.T) {
	s := newSetting(t)
	s.options.Operator = false
	text, err := s.open(t).Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if got := client(t, load(t, text)).Subject; got.CommonName != "flagship-admin" || !slices.Equal(got.Organization, []string{"system:masters"}) {
		t.Errorf("the user of a member's kubeconfig is %v", got)
	}
	if _, err := os.Stat(filepath.Join(s.options.Dir, "operator.crt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the certificate of an operator: %v", err)
	}
}

func TestTheServingCertificateHasEveryNameOfTheServer(t *testing.T) {
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cidr   string
		names  []string
		valid  []string
		absent []string
	}{
		"Defaults":  {cidr: "10.96.0.0/16", valid: []string{"localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "10.96.0.1", hostname}},
		"OtherCIDR": {cidr: "172.30.0.0/24", valid: []string{"172.30.0.1"}, absent: []string{"10.96.0.1"}},
		"TwoCIDRs":  {cidr: "10.96.0.0/16,fd00::/108", valid: []string{"10.96.0.1"}, absent: []string{"fd00::1"}},
		"IPv6First": {cidr: "fd00::/108,10.96.0.0/16", valid: []string{"fd00::1"}, absent: []string{"10.96.0.1"}},
		"Names": {
			cidr: "10.96.0.0/16", names: []string{"hub.example.io", "192.0.2.1", "0.0.0.0", "localhost"},
			valid: []string{"hub.example.io", "192.0.2.1", "localhost"}, absent: []string{"0.0.0.0", "other.example.io"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t)
			s.options.ServiceCIDR, s.options.Names = tc.cidr, tc.names
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(s.open(t).CA())
			cert := certificate(t, s.read(t, "apiserver.crt"))
			for _, host := range append(tc.valid, tc.absent...) {
				_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: s.clock.Now()})
				if want := slices.Contains(tc.valid, host); (err == nil) != want {
					t.Errorf("the certificate is valid for %s: %v, want %v", host, err, want)
				}
			}
		})
	}
	for _, cidr := range []string{"", "10.96.0.0", "10.96.0.1/32"} { // the last has no first address for the API server
		s := newSetting(t)
		s.options.ServiceCIDR = cidr
		if _, err := credentials.Open(t.Context(), s.options); err == nil || !strings.Contains(err.Error(), "service CIDR "+`"`+cidr+`"`) {
			t.Errorf("with the CIDR %q: %v, want it refused", cidr, err)
		}
	}
}

func TestARestartKeepsWhatClientsTrust(t *testing.T) {
	s := newSetting(t)
	first := s.open(t)
	kubeconfig, err := first.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	token := s.read(t, "service-account.key")
	again := s.open(t)
	text, err := again.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.CA(), again.CA()) || !bytes.Equal(kubeconfig, text) || !bytes.Equal(token, s.read(t, "service-account.key")) ||
		first.EncryptionKeys()[0] != again.EncryptionKeys()[0] {
		t.Error("a restart makes new keys: kubeconfigs, tokens or what is stored would be void")
	}
}

func TestDamagedKeysAreNotReplaced(t *testing.T) {
	for _, name := range []string{"ca.key", "front-proxy-ca.key", "service-account.key", "secret-encryption.key"} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t)
			s.open(t)
			path := filepath.Join(s.options.Dir, name)
			if err := os.WriteFile(path, []byte("two words more\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := credentials.Open(t.Context(), s.options); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v, want the file named", err)
			}
			if got := s.read(t, name); string(got) != "two words more\n" {
				t.Errorf("%s is now %q: a person may still repair it", name, got)
			}
		})
	}
}

func TestTheAPIServerUsesTheKeys(t *testing.T) {
	s := newSetting(t)
	keys := s.open(t)
	o := options.NewServerRunOptions()
	keys.Apply(o)
	for name, file := range map[string]string{
		"serving certificate": o.SecureServing.ServerCert.CertKey.CertFile, "serving key": o.SecureServing.ServerCert.CertKey.KeyFile,
		"client CA": o.Authentication.ClientCert.ClientCA, "token key": o.ServiceAccountSigningKeyFile,
		"token public key": o.Authentication.ServiceAccounts.KeyFiles[0], "proxy CA": o.Authentication.RequestHeader.ClientCAFile,
		"proxy certificate": o.ProxyClientCertFile, "proxy key": o.ProxyClientKeyFile,
	} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o.ServiceAccountSigningKeyFile != keys.TokenKey() {
		t.Errorf("tokens are signed with %s, the controllers use %s", o.ServiceAccountSigningKeyFile, keys.TokenKey())
	}
	// Whoever may set the headers of the front proxy is any user: only one certificate of an authority of its own may.
	if o.Authentication.RequestHeader.ClientCAFile == o.Authentication.ClientCert.ClientCA || !slices.Equal(o.Authentication.RequestHeader.AllowedNames, []string{"front-proxy-client"}) {
		t.Errorf("the front proxy is %v", o.Authentication.RequestHeader)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(keys.CA())
	proxy := certificate(t, s.read(t, "front-proxy-client.crt"))
	if _, err := proxy.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: s.clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err == nil {
		t.Error("the certificate of the front proxy is that of a user, too")
	}
}

// running starts the renewal of certificates and returns once it waits. In a bubble of synctest.
func running(t *testing.T, keys *credentials.Keyring) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		keys.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		end()
		<-ended
	})
	synctest.Wait()
}

func TestCertificatesAreRenewedWhileTheServerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		keys := s.open(t)
		kubeconfig := filepath.Join(t.TempDir(), "hub.kubeconfig")
		if err := errors.Join(keys.WriteKubeconfig(kubeconfig), keys.WriteBreakGlass()); err != nil {
			t.Fatal(err)
		}
		files := []string{kubeconfig}
		for _, name := range []string{"apiserver.crt", "operator.crt", "admin.crt", "front-proxy-client.crt", "break-glass.kubeconfig"} {
			files = append(files, filepath.Join(s.options.Dir, name))
		}
		read := func(file string) []byte {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return data
		}
		before := map[string][]byte{}
		for _, name := range files {
			before[name] = read(name)
		}
		running(t, keys)

		s.clock.Step(240 * day) // a certificate lives for 365 days and is renewed two thirds into that
		synctest.Wait()
		for _, name := range files {
			if !bytes.Equal(before[name], read(name)) {
				t.Errorf("%s is renewed before two thirds of its life", name)
			}
		}
		s.clock.Step(4 * day)
		synctest.Wait()
		for _, name := range files {
			if bytes.Equal(before[name], read(name)) {
				t.Errorf("%s is not renewed after two thirds of its life", name)
			}
		}
		renewed := load(t, read(kubeconfig))
		if got, want := client(t, renewed), certificate(t, s.read(t, "operator.crt")); !got.Equal(want) {
			t.Error("the kubeconfig has another certificate than the directory")
		}
	})
}

// TestEnds: the times are those of the files, also after a renewal; a certificate that cannot be read has none.
func TestEnds(t *testing.T) {
	s := newSetting(t)
	keys := s.open(t)
	names := []string{"admin", "apiserver", "ca", "front-proxy-ca", "front-proxy-client", "operator"}
	before := keys.Ends()
	if got := slices.Sorted(maps.Keys(before)); !slices.Equal(got, names) {
		t.Errorf("there are times of %v, want %v", got, names)
	}
	s.clock.Step(300 * day)
	keys = s.open(t)
	ends := keys.Ends()
	for _, name := range names {
		if want := certificate(t, s.read(t, name+".crt")).NotAfter; !ends[name].Equal(want) {
			t.Errorf("%s ends at %s, want %s", name, ends[name], want)
		}
	}
	if !ends["apiserver"].After(before["apiserver"]) {
		t.Errorf("the serving certificate ends at %s after its renewal, and at %s before", ends["apiserver"], before["apiserver"])
	}
	if err := os.WriteFile(filepath.Join(s.options.Dir, "admin.crt"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if end, known := keys.Ends()["admin"]; known || len(keys.Ends()) != len(names)-1 {
		t.Errorf("a damaged certificate ends at %s", end)
	}
}

func TestAFailedRenewalIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSetting(t)
		keys := s.open(t)
		running(t, keys)
		obstacle := filepath.Join(s.options.Dir, "apiserver.key") // no file can be put in the place of a directory
		if err := errors.Join(os.Remove(obstacle), os.Mkdir(obstacle, 0o700)); err != nil {
			t.Fatal(err)
		}
		before := s.read(t, "apiserver.crt")
		s.clock.Step(244 * day)
		synctest.Wait()
		if !bytes.Equal(before, s.read(t, "apiserver.crt")) {
			t.Fatal("the certificate is replaced without its key")
		}
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		s.clock.Step(time.Minute)
		synctest.Wait()
		if bytes.Equal(before, s.read(t, "apiserver.crt")) {
			t.Error("a minute later the certificate is still the old one")
		}
	})
}

// TestServersThatShareAuthoritiesDoNotReplaceThem: the others would refuse what one of them signs.
func TestServersThatShareAuthoritiesDoNotReplaceThem(t *testing.T) {
	for name, shared := range map[string]bool{"Alone": false, "Shared": true} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t)
			s.options.Shared = shared
			before := s.open(t).CA()
			s.clock.Step(9 * 365 * day) // an authority lives for ten years and gets a successor two years before its end
			after := s.open(t).CA()
			if bytes.Equal(before, after) != shared {
				t.Errorf("the authorities are the same: %v, want %v", bytes.Equal(before, after), shared)
			}
			if !bytes.Contains(after, before) {
				t.Error("clients that trust the old authority have to trust it until it ends")
			}
		})
	}
}

func TestRotateAuthority(t *testing.T) {
	data := t.TempDir()
	s := newSetting(t)
	s.options.Dir = filepath.Join(data, "pki")
	s.clock.SetTime(time.Now()) // as the command has it
	first := s.open(t)
	old := client(t, kubeconfigOf(t, first))
	take := func(step credentials.AuthorityStep) *credentials.Keyring {
		t.Helper()
		if err := credentials.RotateAuthority(data, step); err != nil {
			t.Fatal(err)
		}
		return s.open(t)
	}
	trusts := func(keys *credentials.Keyring, cert *x509.Certificate) bool {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(keys.CA())
		_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: s.clock.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err == nil
	}

	if err := credentials.RotateAuthority(data, credentials.SwitchAuthority); !errors.Is(err, pki.ErrNoSuccessor) {
		t.Errorf("switching before preparing: %v", err)
	}
	prepared := take(credentials.PrepareAuthority)
	authorities := func(want int) {
		t.Helper()
		for _, name := range []string{"ca-bundle.crt", "front-proxy-ca-bundle.crt"} {
			if n := bytes.Count(s.read(t, name), []byte("BEGIN CERTIFICATE")); n != want {
				t.Errorf("%s has %d certificates, want %d", name, n, want)
			}
		}
	}
	authorities(2)
	if !trusts(first, client(t, kubeconfigOf(t, prepared))) {
		t.Error("after prepare the new authority signs already: clients that have the old kubeconfig do not trust it")
	}
	switched := take(credentials.SwitchAuthority)
	fresh := client(t, kubeconfigOf(t, switched))
	if trusts(first, fresh) || !trusts(prepared, fresh) || !trusts(switched, old) {
		t.Errorf("after switch the old certificates trust the new client: %v, those that were handed out after prepare: %v; the old client is trusted: %v; want false, true, true",
			trusts(first, fresh), trusts(prepared, fresh), trusts(switched, old))
	}
	finished := take(credentials.FinishAuthority)
	if trusts(finished, old) || !trusts(finished, client(t, kubeconfigOf(t, finished))) {
		t.Error("after finish the old certificates are still valid, or the new are not")
	}
	authorities(1)
}

func kubeconfigOf(t *testing.T, keys *credentials.Keyring) *clientcmdapi.Config {
	t.Helper()
	text, err := keys.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return load(t, text)
}

func TestRotateAuthorityIsRefused(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "misspelt")
	if err := credentials.RotateAuthority(missing, credentials.PrepareAuthority); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a directory without a control plane: %v", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory without a control plane is made: %v", err)
	}
	data := t.TempDir()
	s := newSetting(t)
	s.options.Dir = filepath.Join(data, "pki")
	s.open(t)
	if err := credentials.RotateAuthority(data, "undo"); err == nil || !strings.Contains(err.Error(), `unknown step "undo"`) {
		t.Errorf("an unknown step: %v", err)
	}
	before := s.read(t, "ca-bundle.crt")
	lock, err := datadir.Acquire(data)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	err = credentials.RotateAuthority(data, credentials.PrepareAuthority)
	if _, ok := errors.AsType[*datadir.InUseError](err); !ok || !bytes.Equal(before, s.read(t, "ca-bundle.crt")) {
		t.Errorf("while the server runs: %v", err)
	}
}

// TestLostKeysAreNotMadeAnew: what data of former servers needs is named if it is missing, and stays missing.
func TestLostKeysAreNotMadeAnew(t *testing.T) {
	keys := []string{"ca.key", "front-proxy-ca.key", "service-account.key", "secret-encryption.key"}
	for name, tc := range map[string]struct {
		lost               []string
		fresh, unencrypted bool
		want               []string
	}{
		"nothing":                             {},
		"the encryption key":                  {lost: keys[3:], want: keys[3:]},
		"an encryption key that is not used":  {lost: keys[3:], unencrypted: true},
		"an authority":                        {lost: keys[:1], want: keys[:1]},
		"all":                                 {lost: keys, want: keys},
		"all, and storage has no data":        {lost: []string{""}, fresh: true},
		"certificates, which are issued anew": {lost: []string{"apiserver.key", "admin.crt"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t)
			s.open(t)
			for _, file := range tc.lost {
				if err := os.RemoveAll(filepath.Join(s.options.Dir, file)); err != nil {
					t.Fatal(err)
				}
			}
			s.options.InUse, s.options.Encrypted = !tc.fresh, !tc.unencrypted
			_, err := credentials.Open(t.Context(), s.options)
			var missing *pki.MissingError
			if errors.As(err, &missing); err != nil && missing == nil {
				t.Fatal(err)
			}
			var got []string
			if missing != nil {
				got = missing.Files
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("missing are %v, want %v", got, tc.want)
			}
			for _, file := range tc.want {
				if _, err := os.Stat(filepath.Join(s.options.Dir, file)); err == nil {
					t.Errorf("%s was made", file)
				}
			}
		})
	}
}
