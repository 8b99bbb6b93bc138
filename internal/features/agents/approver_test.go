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
			token := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef", Annotations: map[string]string{clusterv1alpha1.TokenClusterAnnotation: "eu"}},
				Type:       corev1.SecretTypeBootstrapToken,
			}
			request := requestOf(t, tc.cluster, tc.uid, tc.edit)
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(request, token, cluster("eu", "1", clusterv1alpha1.Pull),
				cluster("us", "2", clusterv1alpha1.Pull), cluster("push", "4", clusterv1alpha1.Push)).Build()
			kube := kubefake.NewClientset(request)
			a := &approver{Deps: Deps{Live: reader, Kube: kube}, requests: reader}
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
