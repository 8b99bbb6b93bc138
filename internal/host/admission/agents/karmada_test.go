package agents_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/coordination"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/admission/agents"
)

// signed is a request of a certificate.
func signed(t *testing.T, signer, name string) *certificates.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificates.CertificateSigningRequest{Spec: certificates.CertificateSigningRequestSpec{
		SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}}
}

func TestKarmadactlAndItsAgentWriteOnlyWhatIsTheirs(t *testing.T) {
	plugin := agents.New(
		func(context.Context, string) (string, error) { return "eu", nil },
		func(_ context.Context, credential string) (string, string, error) {
			return "csr", map[string]string{"issued": "eu"}[credential], nil
		})
	as := func(name string) user.Info {
		return &user.DefaultInfo{Name: clusterv1alpha1.AgentUser(name), Groups: []string{clusterv1alpha1.AgentsGroup}, Extra: map[string][]string{user.CredentialIDKey: {"issued"}}}
	}
	karmadactl, agent := as(clusterv1alpha1.KarmadaRegistrar), as("eu")
	token := &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{clusterv1alpha1.AgentBootstrappersGroup}}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	rules := []rbac.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	subjects := []rbac.Subject{{Kind: "User", Name: "eve"}}
	const role, secrets, works = "system:karmada:eu:agent", "system:karmada:eu:agent-secret", "system:karmada:eu:agent-work"
	marked := meta("", role)
	marked.Labels = map[string]string{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}
	labelled := meta("", "karmada-es-eu")
	labelled.Labels = map[string]string{"karmada.io/system": "true", "kubernetes.io/metadata.name": "karmada-es-eu"}
	misled := meta("", "karmada-es-eu")
	misled.Labels = map[string]string{"karmada.io/system": "true", "kubernetes.io/metadata.name": "shop"}
	secret := func(name string, edit func(*core.Secret)) *core.Secret {
		s := &core.Secret{ObjectMeta: meta("karmada-cluster", name), Type: core.SecretTypeOpaque, Data: map[string][]byte{"token": []byte("t")}}
		if edit != nil {
			edit(s)
		}
		return s
	}
	cluster := func(edit func(*clusterv1alpha1.Cluster)) *clusterv1alpha1.Cluster {
		c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull, APIEndpoint: "https://10.0.0.1"}}
		if edit != nil {
			edit(c)
		}
		return c
	}
	about := func(kind, name string) *core.Event {
		return &core.Event{ObjectMeta: meta("default", "e"), InvolvedObject: core.ObjectReference{Kind: kind, Name: name}}
	}
	lease := func(name string) *coordination.Lease {
		return &coordination.Lease{ObjectMeta: meta("karmada-system", name)}
	}
	const client, kubelet = certificates.KubeAPIServerClientSignerName, certificates.KubeAPIServerClientKubeletSignerName
	tests := map[string]struct {
		reason      string
		who         user.Info
		object, old runtime.Object
		refused     bool
	}{
		"Role":            {"karmadactl creates a role, which loses its rules", karmadactl, &rbac.ClusterRole{ObjectMeta: meta("", role), Rules: rules}, nil, false},
		"OtherRole":       {"of one name", karmadactl, &rbac.ClusterRole{ObjectMeta: meta("", "system:karmada:us:agent")}, nil, true},
		"Aggregation":     {"which does not collect rules of others", karmadactl, &rbac.ClusterRole{ObjectMeta: meta("", role), AggregationRule: &rbac.AggregationRule{}}, nil, true},
		"Aggregated":      {"and whose rules are not collected", karmadactl, &rbac.ClusterRole{ObjectMeta: marked}, nil, true},
		"Binding":         {"and a binding, which loses its subjects", karmadactl, &rbac.ClusterRoleBinding{ObjectMeta: meta("", role), Subjects: subjects, RoleRef: rbac.RoleRef{Kind: "ClusterRole", Name: role}}, nil, false},
		"OtherBinding":    {"of that role", karmadactl, &rbac.ClusterRoleBinding{ObjectMeta: meta("", role), RoleRef: rbac.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}}, nil, true},
		"SecretRole":      {"the same for Secrets", karmadactl, &rbac.Role{ObjectMeta: meta("karmada-cluster", secrets), Rules: rules}, nil, false},
		"WorkRole":        {"and for Works", karmadactl, &rbac.Role{ObjectMeta: meta("karmada-es-eu", works), Rules: rules}, nil, false},
		"WorkBinding":     {"with its binding", karmadactl, &rbac.RoleBinding{ObjectMeta: meta("karmada-es-eu", works), RoleRef: rbac.RoleRef{Kind: "Role", Name: works}, Subjects: subjects}, nil, false},
		"WideBinding":     {"to a Role, not a ClusterRole", karmadactl, &rbac.RoleBinding{ObjectMeta: meta("karmada-es-eu", works), RoleRef: rbac.RoleRef{Kind: "ClusterRole", Name: works}}, nil, true},
		"Namespace":       {"and the namespace of the cluster", karmadactl, &core.Namespace{ObjectMeta: meta("", "karmada-es-eu")}, nil, false},
		"Labelled":        {"with the labels of karmadactl and of the API server", karmadactl, &core.Namespace{ObjectMeta: labelled}, nil, false},
		"Misled":          {"and not with those of another one", karmadactl, &core.Namespace{ObjectMeta: misled}, nil, true},
		"OtherNamespace":  {"and no other one", karmadactl, &core.Namespace{ObjectMeta: meta("", "karmada-es-us")}, nil, true},
		"RoleGone":        {"it deletes what it has created", karmadactl, nil, &rbac.ClusterRole{ObjectMeta: meta("", role)}, false},
		"FullRoleGone":    {"and no role that has rules, which another made", karmadactl, nil, &rbac.ClusterRole{ObjectMeta: meta("", role), Rules: rules}, true},
		"FullBindingGone": {"or a binding that has subjects", karmadactl, nil, &rbac.ClusterRoleBinding{ObjectMeta: meta("", role), RoleRef: rbac.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: subjects}, true},
		"AnythingElse":    {"it writes nothing else", karmadactl, secret("eu", nil), nil, true},
		"Cluster":         {"the agent creates its Cluster, which loses the address", agent, cluster(nil), nil, false},
		"OtherCluster":    {"and no other one", agent, cluster(func(c *clusterv1alpha1.Cluster) { c.Name = "us" }), nil, true},
		"Push":            {"in Pull mode", agent, cluster(func(c *clusterv1alpha1.Cluster) { c.Spec.SyncMode = clusterv1alpha1.Push }), nil, true},
		"Tainted": {"without taints", agent, cluster(func(c *clusterv1alpha1.Cluster) {
			c.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoExecute}}
		}), nil, true},
		"Secret":       {"it reports a credential, whose data is dropped", agent, secret("eu-impersonator", nil), nil, false},
		"Labels":       {"with the label of Karmada", agent, secret("eu", func(s *core.Secret) { s.Labels = map[string]string{"karmada.io/system": "true"} }), nil, false},
		"OtherValue":   {"which has one value", agent, secret("eu", func(s *core.Secret) { s.Labels = map[string]string{"karmada.io/system": "false"} }), nil, true},
		"OtherLabels":  {"and no others", agent, secret("eu", func(s *core.Secret) { s.Labels = map[string]string{"karmada.io/managed": "true"} }), nil, true},
		"OtherSecret":  {"of its member", agent, secret("us", nil), nil, true},
		"Owned":        {"owned by its Cluster", agent, secret("eu", func(s *core.Secret) { s.OwnerReferences = []metav1.OwnerReference{{Kind: "Cluster", Name: "us"}} }), secret("eu", nil), true},
		"Immutable":    {"which can be changed later", agent, secret("eu", func(s *core.Secret) { s.Immutable = new(true) }), nil, true},
		"Event":        {"it changes an event about its Cluster", agent, about("Cluster", "eu"), about("Cluster", "eu"), false},
		"OtherEvent":   {"and none about another one", agent, about("Cluster", "eu"), about("Cluster", "us"), true},
		"Election":     {"it has a Lease to elect by", agent, lease("karmada-agent-eu"), nil, false},
		"Epoch":        {"and not the one that counts periods of writing", agent, lease("member-eu"), nil, true},
		"Request":      {"a token requests the certificate of its agent", token, signed(t, client, "system:karmada:agent:eu"), nil, false},
		"RegistrarCSR": {"and that of karmadactl", token, signed(t, client, "system:karmada:agent:rbac-generator"), nil, false},
		"OtherRequest": {"and no other one, which would never be approved", token, signed(t, client, "system:karmada:agent:us"), nil, true},
		"Kubelet":      {"karmadactl before 1.12 requests that of a kubelet", token, signed(t, kubelet, "system:node:eu"), nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			switch {
			case tc.object == nil:
				operation = admission.Delete
			case tc.old != nil:
				operation = admission.Update
			}
			resource := schema.GroupVersionResource{Resource: "things"}
			if _, is := tc.object.(*coordination.Lease); is {
				resource = schema.GroupVersionResource{Group: "coordination.k8s.io", Resource: "leases"}
			}
			object, ok := tc.object.(metav1.Object)
			if !ok {
				object = tc.old.(metav1.Object)
			}
			attributes := admission.NewAttributesRecord(
				tc.object, tc.old, corev1.SchemeGroupVersion.WithKind("Thing"), object.GetNamespace(), object.GetName(), resource, "", operation, nil, false, tc.who)
			err := plugin.Admit(t.Context(), attributes, nil)
			if err == nil {
				err = plugin.Validate(t.Context(), attributes, nil)
			}
			if (err != nil) != tc.refused {
				t.Errorf("%s: %v", tc.reason, err)
			}
			if left := excess(tc.object); err == nil && tc.old == nil && left {
				t.Errorf("%s: more is stored than is needed: %+v", tc.reason, tc.object)
			}
		})
	}
}

// excess returns whether an object that passed has rights, data or an address.
func excess(object runtime.Object) bool {
	switch o := object.(type) {
	case *rbac.ClusterRole:
		return len(o.Rules) > 0
	case *rbac.Role:
		return len(o.Rules) > 0
	case *rbac.ClusterRoleBinding:
		return len(o.Subjects) > 0
	case *rbac.RoleBinding:
		return len(o.Subjects) > 0
	case *core.Secret:
		return len(o.Data) > 0
	case *clusterv1alpha1.Cluster:
		return o.Spec.APIEndpoint != "" || len(o.Annotations) != 1
	default:
		return false
	}
}
