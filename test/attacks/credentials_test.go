package attacks_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// thief is an https server of an attacker. It keeps the credentials of the requests.
type thief struct {
	*httptest.Server
	mu     sync.Mutex
	tokens []string
}

func startThief(t *testing.T) *thief {
	t.Helper()
	s := &thief{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tokens = append(s.tokens, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *thief) expectNothing(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, token := range s.tokens {
		if token != "" {
			t.Fatalf("a credential was sent to the attacker (%d characters)", len(token))
		}
	}
}

// unready waits until a Cluster is not ready for a reason.
func unready(reason string) func(*clusterv1alpha1.Cluster) error {
	return func(c *clusterv1alpha1.Cluster) error {
		ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		if ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason != reason {
			return fmt.Errorf("Ready is %+v, want reason %s", ready, reason)
		}
		return nil
	}
}

func ready(c *clusterv1alpha1.Cluster) error {
	return fleettest.ConditionTrue(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
}

func clusterNamed(name string) *clusterv1alpha1.Cluster {
	return &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func secretRef(name string) *clusterv1alpha1.LocalSecretReference {
	return &clusterv1alpha1.LocalSecretReference{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}
}

// fast is for control planes whose conditions a test waits for.
var fast = []string{"--cluster-probe-period=300ms", "--cluster-failure-threshold=600ms", "--cluster-success-threshold=600ms"}

// TestWhoCreatesAClusterGetsNoCredentials: the rights to create Clusters and to use their proxy give neither the credential of
// another Cluster nor a Secret of another namespace.
func TestWhoCreatesAClusterGetsNoCredentials(t *testing.T) {
	fleet := shared.Start(t)
	const user = "thief"
	fleet.Hub.ClusterRights(t, user,
		rbacv1.PolicyRule{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters", "clusters/proxy"}, Verbs: []string{"create", "get", "delete"}})
	attacker := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: user})
	ns := fleet.Namespace(t)
	fleettest.Create(t, fleet.Hub, fleettest.Secret(ns, "victim", map[string]string{"token": "victim"}))
	server := startThief(t)

	spec := func(edit func(*clusterv1alpha1.ClusterSpec)) clusterv1alpha1.ClusterSpec {
		s := clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, APIEndpoint: server.URL, InsecureSkipTLSVerification: true}
		edit(&s)
		return s
	}
	for name, spec := range map[string]clusterv1alpha1.ClusterSpec{
		"other-cluster":  spec(func(s *clusterv1alpha1.ClusterSpec) { s.SecretRef = secretRef("member1") }),
		"other-proxy":    spec(func(s *clusterv1alpha1.ClusterSpec) { s.ImpersonatorSecretRef = secretRef("member1-impersonator") }),
		"full-for-proxy": spec(func(s *clusterv1alpha1.ClusterSpec) { s.ImpersonatorSecretRef = secretRef("member1") }),
		"other-namespace": spec(func(s *clusterv1alpha1.ClusterSpec) {
			s.ImpersonatorSecretRef = &clusterv1alpha1.LocalSecretReference{Namespace: ns, Name: "victim"}
		}),
		"plain-text": spec(func(s *clusterv1alpha1.ClusterSpec) {
			s.APIEndpoint = strings.Replace(server.URL, "https:", "http:", 1)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			evil := clusterNamed("evil-" + name)
			evil.Spec = spec
			if err := attacker.Create(t.Context(), evil); err == nil {
				t.Error("the Cluster was accepted")
				t.Cleanup(func() { _ = fleet.Hub.Delete(context.WithoutCancel(t.Context()), evil) })
				_, _ = throughProxy(t, attacker, evil.Name)
			}
		})
	}
	// Not refused when it was written: the Secret came later. It is not used either.
	late := clusterNamed("evil-late")
	late.Spec = spec(func(s *clusterv1alpha1.ClusterSpec) {
		s.SecretRef, s.ImpersonatorSecretRef = secretRef("late"), secretRef("late")
	})
	fleettest.Create(t, attacker, late)
	fleettest.Create(t, fleet.Hub, fleettest.Secret(clusterv1alpha1.ClusterNamespace, "late", map[string]string{"token": "late"}))
	expectRefusedByProxy(t, attacker, late.Name, "not owned")
	server.expectNothing(t)
}

// expectRefusedByProxy waits until the proxy refuses a request for a reason. It reads Clusters and Secrets from a cache, which a change
// reaches a moment later.
func expectRefusedByProxy(t *testing.T, user *fleettest.Cluster, cluster, reason string) {
	t.Helper()
	until(t, func() error {
		if code, body := throughProxy(t, user, cluster); code != http.StatusServiceUnavailable || !strings.Contains(body, reason) {
			return fmt.Errorf("the proxy answers %d: %s", code, body)
		}
		return nil
	})
}

// throughProxy sends a request to a member through the control plane.
func throughProxy(t *testing.T, user *fleettest.Cluster, cluster string) (int, string) {
	t.Helper()
	return get(t, user, "/apis/cluster.karmada.io/v1alpha1/clusters/"+cluster+"/proxy/api")
}

func get(t *testing.T, user *fleettest.Cluster, path string) (int, string) {
	t.Helper()
	web, err := rest.HTTPClientFor(user.Config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, user.Config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// TestACredentialGoesWhereItWasIssuedFor: whoever may change a Cluster cannot have its credential sent elsewhere. The way back
// is to undo the change or to join again, which takes the kubeconfig of the member. It takes 30 s beside other tests, for a control plane and a
// member of its own.
func TestACredentialGoesWhereItWasIssuedFor(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t, fast...)
	member := fleettest.StartMember(t, "m", "--bare")
	hub.Join(t, "m", member.Kubeconfig)
	before := fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), ready)

	const user = "mover"
	hub.ClusterRights(t, user,
		rbacv1.PolicyRule{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters", "clusters/proxy"}, Verbs: []string{"get", "update", "patch"}})
	attacker := hub.As(t, rest.ImpersonationConfig{UserName: user})
	server := startThief(t)
	changes := map[string]func(*clusterv1alpha1.ClusterSpec){
		"address":  func(s *clusterv1alpha1.ClusterSpec) { s.APIEndpoint, s.InsecureSkipTLSVerification = server.URL, true },
		"insecure": func(s *clusterv1alpha1.ClusterSpec) { s.InsecureSkipTLSVerification = true },
		"proxy":    func(s *clusterv1alpha1.ClusterSpec) { s.ProxyURL = strings.Replace(server.URL, "https:", "http:", 1) },
		"secrets": func(s *clusterv1alpha1.ClusterSpec) {
			s.SecretRef, s.ImpersonatorSecretRef = s.ImpersonatorSecretRef, s.SecretRef
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			fleettest.Update(t, attacker, clusterNamed("m"), func(c *clusterv1alpha1.Cluster) { change(&c.Spec) })
			fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), unready(clusterv1alpha1.ClusterAddressChangedReason))
			expectRefusedByProxy(t, attacker, "m", "flagship join")
			server.expectNothing(t)
			fleettest.Update(t, hub.Cluster, clusterNamed("m"), func(c *clusterv1alpha1.Cluster) {
				taints := c.Spec.Taints
				c.Spec = *before.Spec.DeepCopy()
				c.Spec.Taints = taints
			})
			fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), ready)
		})
	}

	t.Run("joining again", func(t *testing.T) {
		fleettest.Update(t, attacker, clusterNamed("m"), func(c *clusterv1alpha1.Cluster) { changes["address"](&c.Spec) })
		fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), unready(clusterv1alpha1.ClusterAddressChangedReason))
		hub.Join(t, "m", member.Kubeconfig)
		fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), ready)
		server.expectNothing(t)
	})

	t.Run("Secrets of an earlier version", func(t *testing.T) {
		fleettest.Update(t, hub.Cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "m"}},
			func(s *corev1.Secret) { delete(s.Annotations, clusterv1alpha1.CredentialForAnnotation) })
		fleettest.ExpectEventually(t, hub.Cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "m"}},
			func(s *corev1.Secret) error {
				if s.Annotations[clusterv1alpha1.CredentialForAnnotation] == "" {
					return fmt.Errorf("there is no note")
				}
				return nil
			})
		fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), ready)
	})

	t.Run("another member answers", func(t *testing.T) { otherMember(t, hub, attacker, before) })

	t.Run("declared", func(t *testing.T) { declaresCluster(t, hub, member, server, before) })

	t.Run("loopback", func(t *testing.T) {
		hub.Kill()
		hub.Start(t, "--allow-loopback-members=false")
		after := fleettest.ExpectEventually(t, hub.Cluster, clusterNamed("m"), unready(clusterv1alpha1.EndpointNotAllowedReason))
		if c := meta.FindStatusCondition(after.Status.Conditions, clusterv1alpha1.ClusterConditionReady); !strings.Contains(c.Message, "--allow-loopback-members") {
			t.Errorf("the message does not name the flag: %s", c.Message)
		}
		local := clusterNamed("local")
		local.Spec = clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, APIEndpoint: "https://169.254.169.254"}
		if err := hub.Create(t.Context(), local); err == nil {
			t.Error("a Cluster at the address of the cloud's metadata service was accepted")
		}
	})
}

// declaresCluster deletes a Cluster and applies it again as a manifest, with a Secret that declares which Cluster it is for. A Cluster of
// another name, or at another address, does not get it.
func declaresCluster(t *testing.T, hub, member *fleettest.Part, server *thief, m *clusterv1alpha1.Cluster) {
	fleettest.Delete(t, hub.Cluster, clusterNamed("m"))
	fleettest.ExpectGone(t, hub.Cluster, clusterNamed("m"))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "declared"}}
	fleettest.Create(t, member.Cluster, account, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "declared"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	})
	token := &authenticationv1.TokenRequest{}
	if err := member.SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatal(err)
	}
	spec := clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Push, APIEndpoint: m.Spec.APIEndpoint, SecretRef: secretRef("declared")}
	evil, moved := clusterNamed("evil"), clusterNamed("m")
	evil.Spec, moved.Spec = spec, spec
	moved.Spec.APIEndpoint = server.URL
	fleettest.Create(t, hub.Cluster, evil, moved, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "declared",
			Annotations: map[string]string{clusterv1alpha1.CredentialOfAnnotation: "m " + m.Spec.APIEndpoint}},
		Data: map[string][]byte{"token": []byte(token.Status.Token), "caBundle": member.Config.CAData},
	})
	for _, cluster := range []*clusterv1alpha1.Cluster{evil, moved} {
		fleettest.ExpectEventually(t, hub.Cluster, cluster, unready(clusterv1alpha1.CredentialsNotUsableReason))
	}
	server.expectNothing(t)
	fleettest.Update(t, hub.Cluster, moved, func(c *clusterv1alpha1.Cluster) { c.Spec.APIEndpoint = m.Spec.APIEndpoint })
	fleettest.ExpectEventually(t, hub.Cluster, moved, ready)
	fleettest.ExpectEventually(t, hub.Cluster, evil, unready(clusterv1alpha1.CredentialsNotUsableReason))
}

// otherMember registers a Cluster whose id is not that of the member at its address, with a credential that works there.
func otherMember(t *testing.T, hub *fleettest.Part, attacker *fleettest.Cluster, m *clusterv1alpha1.Cluster) {
	var secret corev1.Secret
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: clusterv1alpha1.ClusterNamespace, Name: "m"}, &secret); err != nil {
		t.Fatal(err)
	}
	wrong := clusterNamed("wrong")
	wrong.Spec = clusterv1alpha1.ClusterSpec{
		ID: "another", SyncMode: clusterv1alpha1.Push, APIEndpoint: m.Spec.APIEndpoint,
		SecretRef: secretRef("wrong"), ImpersonatorSecretRef: secretRef("wrong-impersonator"),
	}
	fleettest.Create(t, hub.Cluster, wrong)
	for _, name := range []string{"wrong", "wrong-impersonator"} {
		fleettest.Create(t, hub.Cluster, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1alpha1.GroupVersion.String(), Kind: "Cluster", Name: wrong.Name, UID: wrong.UID,
			}}},
			Data: secret.Data,
		})
	}
	fleettest.ExpectEventually(t, hub.Cluster, wrong, unready(clusterv1alpha1.ClusterIDMismatchReason))
	expectRefusedByProxy(t, attacker, "wrong", "another cluster answers")
}
