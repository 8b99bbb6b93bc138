package agents

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// requestOf is a request for a certificate of the agent of a cluster, made with the bootstrap token of cluster eu.
func requestOf(t *testing.T, cluster string, uid types.UID, edit func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	request := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Username: "system:bootstrap:abcdef",
			Groups: []string{clusterv1alpha1.AgentBootstrappersGroup}, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: clusterv1alpha1.AgentUser(cluster), Organization: clusterv1alpha1.AgentGroups(uid)}}
	if edit != nil {
		edit(request, template)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	request.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return request
}

func TestApprover(t *testing.T) {
	type csr = certificatesv1.CertificateSigningRequest
	as := func(cluster string, uid types.UID) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, _ *x509.CertificateRequest) {
			r.Spec.Username, r.Spec.Groups = clusterv1alpha1.AgentUser(cluster), clusterv1alpha1.AgentGroups(uid)
		}
	}
	karmada := func(token string) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, c *x509.CertificateRequest) {
			r.Spec.Username, c.Subject.Organization = token, []string{clusterv1alpha1.AgentsGroup}
		}
	}
	renewal := func(cluster, credential string) func(*csr, *x509.CertificateRequest) {
		return func(r *csr, c *x509.CertificateRequest) {
			karmada(clusterv1alpha1.AgentUser(cluster))(r, c)
			r.Spec.Groups = []string{clusterv1alpha1.AgentsGroup}
			r.Spec.Extra = map[string]certificatesv1.ExtraValue{user.CredentialIDKey: {credential}}
		}
	}
	const approved, denied, ignored = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, ""
	tests := map[string]struct {
		reason  string
		cluster string
		uid     types.UID
		edit    func(*csr, *x509.CertificateRequest)
		want    certificatesv1.RequestConditionType
	}{
		"Token":        {"a token registers the agent of its cluster", "eu", "1", nil, approved},
		"OtherCluster": {"and of no other one", "us", "2", nil, denied},
		"NoCluster":    {"the Cluster has to exist", "asia", "3", nil, denied},
		"OtherUID":     {"as it is, not as it was", "eu", "0", nil, denied},
		"Push":         {"a Cluster that the control plane serves has no agent", "push", "4", nil, denied},
		"Renewal":      {"an agent renews its certificate", "eu", "1", as("eu", "1"), approved},
		"Takeover":     {"but gets none of another cluster", "eu", "1", as("us", "2"), denied},
		"Earlier":      {"the agent of an earlier Cluster gets none of the present one", "eu", "1", as("eu", "0"), denied},
		"Alice":        {"others get none", "eu", "1", func(r *csr, _ *x509.CertificateRequest) { r.Spec.Username, r.Spec.Groups = "alice", nil }, denied},
		"UnboundToken": {"a token that names no cluster registers none", "eu", "1", func(r *csr, _ *x509.CertificateRequest) { r.Spec.Username = "system:bootstrap:ghijkl" }, denied},
		"MoreGroups": {"no group besides those of an agent", "eu", "1", func(_ *csr, c *x509.CertificateRequest) {
			c.Subject.Organization = append(c.Subject.Organization, "system:masters")
		}, denied},
		"Names": {"no names of servers", "eu", "1", func(_ *csr, c *x509.CertificateRequest) { c.DNSNames = []string{"hub"} }, denied},
		"Serving": {"no use as a server", "eu", "1", func(r *csr, _ *x509.CertificateRequest) {
			r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
		}, denied},
		"NoClient": {"the use is that of a client", "eu", "1", func(r *csr, _ *x509.CertificateRequest) {
			r.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature}
		}, denied},
		"Karmadactl":        {"karmadactl prepares a registration with a certificate that names no cluster", "rbac-generator", "", karmada("system:bootstrap:newtok"), approved},
		"KarmadactlUnbound": {"with a token that names one", "rbac-generator", "", karmada("system:bootstrap:ghijkl"), denied},
		"KarmadaAgent":      {"and requests one for the agent that is to create the Cluster", "new", "", karmada("system:bootstrap:newtok"), approved},
		"KarmadaOtherName":  {"of the name that the token has", "asia", "", karmada("system:bootstrap:newtok"), denied},
		"KarmadaExists":     {"one that exists has another agent", "eu", "", karmada("system:bootstrap:abcdef"), denied},
		"KarmadaServes": {"no use as a server", "new", "", func(r *csr, c *x509.CertificateRequest) {
			karmada("system:bootstrap:newtok")(r, c)
			r.Spec.Usages = append(r.Spec.Usages, certificatesv1.UsageServerAuth)
		}, denied},
		"KarmadaOwnGroup": {"no other organization", "new", "", func(r *csr, c *x509.CertificateRequest) {
			karmada("system:bootstrap:newtok")(r, c)
			c.Subject.Organization = append(c.Subject.Organization, "system:masters")
		}, denied},
		"KarmadaRenewal":  {"a karmada-agent renews the certificate that its Cluster lists", "karmada", "", renewal("karmada", "X509SHA256=old"), approved},
		"KarmadaStale":    {"and none that it does not list", "karmada", "", renewal("karmada", "X509SHA256=stale"), denied},
		"KarmadaTakeover": {"nor that of another cluster", "eu", "", renewal("karmada", "X509SHA256=old"), denied},
		"KarmadaToFlagship": {"nor one that is bound to the Cluster", "karmada", "5", func(r *csr, c *x509.CertificateRequest) {
			renewal("karmada", "X509SHA256=old")(r, c)
			c.Subject.Organization = clusterv1alpha1.AgentGroups("5")
		}, denied},
		"NoToken": {"others may have their own use for such a name", "eu", "1", func(r *csr, c *x509.CertificateRequest) {
			r.Spec.Groups, c.Subject.Organization = nil, nil
		}, ignored},
		"NoAgent": {"what is for no agent is decided by others", "eu", "1", func(_ *csr, c *x509.CertificateRequest) { c.Subject.CommonName = "alice" }, ignored},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(clusterv1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			cluster := func(name string, uid types.UID, mode clusterv1alpha1.ClusterSyncMode) *clusterv1alpha1.Cluster {
				return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: mode}}
			}
			token := func(id, cluster string) *corev1.Secret {
				return &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Annotations: map[string]string{clusterv1alpha1.TokenClusterAnnotation: cluster}},
					Type:       corev1.SecretTypeBootstrapToken,
				}
			}
			listed := cluster("karmada", "5", clusterv1alpha1.Pull)
			listed.Annotations = map[string]string{clusterv1alpha1.AgentCredentialsAnnotation: "X509SHA256=old"}
			request := requestOf(t, tc.cluster, tc.uid, tc.edit)
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(request, listed, token("abcdef", "eu"), token("newtok", "new"), cluster("eu", "1", clusterv1alpha1.Pull),
				cluster("us", "2", clusterv1alpha1.Pull), cluster("push", "4", clusterv1alpha1.Push)).Build()
			kube := kubefake.NewClientset(request)
			a := &approver{Deps: Deps{Live: reader, Kube: kube}, client: reader}
			if _, err := a.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "csr"}}); err != nil {
				t.Fatal(err)
			}
			after, err := kube.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got certificatesv1.RequestConditionType
			for _, c := range after.Status.Conditions {
				got += c.Type
			}
			if got != tc.want {
				t.Errorf("%s: the request is %q, want %q: %v", tc.reason, got, tc.want, after.Status.Conditions)
			}
		})
	}
}

// TestRenewalsAreRecorded has the Cluster list the certificate that its karmada-agent has got, and the one before.
func TestRenewalsAreRecorded(t *testing.T) {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("new")})
	const issued = "X509SHA256=11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437"
	for name, tc := range map[string]struct {
		reason, listed, want string
		edit                 func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest)
	}{
		"Renewed": {"the new one is added", "older,old", "old," + issued, nil},
		"Known":   {"once", "old," + issued, "old," + issued, nil},
		"Later":   {"one that is no longer listed brings no other one", "other", "other", nil},
		"Flagship": {"a certificate that names the Cluster is not listed", "old", "old", func(_ *certificatesv1.CertificateSigningRequest, c *x509.CertificateRequest) {
			c.Subject.Organization = clusterv1alpha1.AgentGroups("1")
		}},
		"Takeover": {"nor one of another name", "old", "old", func(_ *certificatesv1.CertificateSigningRequest, c *x509.CertificateRequest) {
			c.Subject.CommonName = clusterv1alpha1.AgentUser("us")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(clusterv1alpha1.AddToScheme(scheme), certificatesv1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			request := requestOf(t, "eu", "1", func(r *certificatesv1.CertificateSigningRequest, c *x509.CertificateRequest) {
				c.Subject.Organization = []string{clusterv1alpha1.AgentsGroup}
				r.Spec.Username, r.Spec.Groups = clusterv1alpha1.AgentUser("eu"), []string{clusterv1alpha1.AgentsGroup}
				r.Spec.Extra = map[string]certificatesv1.ExtraValue{user.CredentialIDKey: {"old"}}
				r.Status.Certificate = certificate
				if tc.edit != nil {
					tc.edit(r, c)
				}
			})
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu", UID: "1", Annotations: map[string]string{clusterv1alpha1.AgentCredentialsAnnotation: tc.listed}}}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(request, cluster).Build()
			a := &approver{Deps: Deps{Live: c}, client: c}
			if _, err := a.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "csr"}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), types.NamespacedName{Name: "eu"}, cluster); err != nil {
				t.Fatal(err)
			}
			if got := cluster.Annotations[clusterv1alpha1.AgentCredentialsAnnotation]; got != tc.want {
				t.Errorf("%s: it lists %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
