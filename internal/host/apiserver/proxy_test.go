package apiserver_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// seen is what a member was asked.
type seen struct {
	Path, Query, User, Authorization, Cookie, Extra string
	Groups                                          []string
}

// member answers every request with what it received, and echoes lines on a connection that is upgraded.
func member(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(answerSeen))
	t.Cleanup(server.Close)
	return server
}

func answerSeen(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "echo" {
		echo(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(seen{
		Path: r.URL.Path, Query: r.URL.RawQuery, User: r.Header.Get("Impersonate-User"),
		Groups: r.Header.Values("Impersonate-Group"), Authorization: r.Header.Get("Authorization"),
		Cookie: r.Header.Get("Cookie"), Extra: r.Header.Get("X-Remote-User"),
	})
}

func echo(w http.ResponseWriter, r *http.Request) {
	conn, stream, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(stream, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n%s\n", r.Header.Get("Impersonate-User"))
	_ = stream.Flush()
	line, err := stream.ReadString('\n')
	if err != nil {
		return
	}
	_, _ = stream.WriteString(line)
	_ = stream.Flush()
}

// registerMember makes server a cluster whose credentials are in place.
func registerMember(t *testing.T, name string, server *httptest.Server) {
	t.Helper()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	createCluster(t, name, fmt.Sprintf(`{syncMode: Push, apiEndpoint: %q,
		secretRef: {namespace: karmada-cluster, name: %s}, impersonatorSecretRef: {namespace: karmada-cluster, name: %s-impersonator}}`,
		server.URL+"/base", name, name))
	writeCredentials(t, name, authority)
}

// writeCredentials makes the Secrets of a cluster as joining does.
func writeCredentials(t *testing.T, name string, authority []byte) {
	t.Helper()
	object, err := objects.Resource(clusterResource).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cluster := typed(t, object)
	for secret, data := range map[string]map[string][]byte{
		name:                   {"token": []byte("full"), "caBundle": authority},
		name + "-impersonator": {"token": []byte("impersonator")},
	} {
		_, err := clients.CoreV1().Secrets("karmada-cluster").Create(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name:        secret,
				Annotations: map[string]string{clusterv1alpha1.CredentialForAnnotation: clusterv1alpha1.CredentialDigest(uses[secret == name], &cluster.Spec, authority)},
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: clusterv1alpha1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: cluster.UID,
				}},
			}, Data: data}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// uses reports whether a Secret is the controllers' or the impersonator's.
var uses = map[bool]clusterv1alpha1.CredentialUse{true: clusterv1alpha1.ControllerCredential, false: clusterv1alpha1.ImpersonatorCredential}

// as is a client of the hub that acts for a user.
func as(t *testing.T, user string, groups ...string) *http.Client {
	t.Helper()
	config := hub.LoopbackConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

const proxyPath = "/apis/cluster.karmada.io/v1alpha1/clusters/%s/proxy"

func ask(t *testing.T, client *http.Client, path string, header http.Header) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, hub.LoopbackConfig().Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	return send(t, client, request)
}

func TestProxyActsForTheCaller(t *testing.T) {
	registerMember(t, "proxied", member(t))
	path := fmt.Sprintf(proxyPath, "proxied")
	header := http.Header{"Cookie": {"a=b"}, "X-Remote-User": {"root"}}
	grantProxy(t, "jane-proxy", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "dev"})
	code, body := ask(t, as(t, "jane", "other", "dev"), path+"/api/v1/pods?limit=5&watch=false", header)
	if code != http.StatusOK {
		t.Fatalf("got %d: %s", code, body)
	}
	var got seen
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := seen{
		Path: "/base/api/v1/pods", Query: "limit=5&watch=false", User: "jane",
		Groups: []string{"dev"}, Authorization: "Bearer impersonator",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the member received (-want +got):\n%s", diff)
	}
}

// grantProxy gives subjects the right to use the proxy of every cluster, and waits until it holds.
func grantProxy(t *testing.T, name string, subjects ...rbacv1.Subject) {
	t.Helper()
	if _, err := clients.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/proxy"}, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := as(t, subjects[0].Name)
	eventually(t, func() string {
		if code, body := ask(t, client, fmt.Sprintf(proxyPath, "nowhere"), nil); code != http.StatusNotFound {
			return fmt.Sprintf("got %d: %s", code, body)
		}
		return ""
	})
}

// TestProxyRefusesThePowerful: members do not receive identities to which they give rights of their own accord.
func TestProxyRefusesThePowerful(t *testing.T) {
	registerMember(t, "strict", member(t))
	path := fmt.Sprintf(proxyPath, "strict") + "/api"
	grantProxy(t, "any-user-proxy", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "any-user"}, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"})
	for name, client := range map[string]*http.Client{
		"masters": as(t, "admin", "system:masters"), "nodes": as(t, "any-user", "system:nodes"), "scheduler": as(t, "system:kube-scheduler"),
		"kube-system": as(t, "system:serviceaccount:kube-system:x"), "no right at all": as(t, "stranger"),
	} {
		if code, body := ask(t, client, path, nil); code != http.StatusForbidden {
			t.Errorf("%s: got %d: %s, want 403", name, code, body)
		}
	}
	if code, body := ask(t, as(t, "any-user"), path, nil); code != http.StatusOK {
		t.Errorf("a user who is named: got %d: %s", code, body)
	}
}

func TestProxyNeedsTheRight(t *testing.T) {
	registerMember(t, "guarded", member(t))
	path := fmt.Sprintf(proxyPath, "guarded") + "/api"
	if code, body := ask(t, as(t, "unbound"), path, nil); code != http.StatusForbidden {
		t.Errorf("without a role: got %d: %s, want 403", code, body)
	}
	_, err := clients.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded-proxy"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/proxy"}, ResourceNames: []string{"guarded"}, Verbs: []string{"get"},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded-proxy"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "unbound"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "guarded-proxy"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client := as(t, "unbound")
	eventually(t, func() string {
		if code, body := ask(t, client, path, nil); code != http.StatusOK {
			return fmt.Sprintf("with a role: got %d: %s", code, body)
		}
		return ""
	})
}

func TestProxyReportsWhatIsMissing(t *testing.T) {
	createCluster(t, "bare", `{syncMode: Pull}`)
	createCluster(t, "unnamed", `{syncMode: Push, apiEndpoint: "https://127.0.0.1:1"}`)
	createCluster(t, "dangling", `{syncMode: Push, apiEndpoint: "https://127.0.0.1:1", impersonatorSecretRef: {namespace: karmada-cluster, name: absent}}`)
	down := member(t)
	registerMember(t, "down", down)
	down.Close()
	impostor := member(t)
	createCluster(t, "impostor", fmt.Sprintf(`{syncMode: Push, apiEndpoint: %q,
		secretRef: {namespace: karmada-cluster, name: impostor}, impersonatorSecretRef: {namespace: karmada-cluster, name: impostor-impersonator}}`, impostor.URL))
	writeCredentials(t, "impostor", hub.CA())
	grantProxy(t, "jim-proxy", rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jim"})
	for name, want := range map[string]int{
		"bare": 503, "unnamed": 503, "dangling": 503, "down": 503, "impostor": 503, "absent": 404,
	} {
		t.Run(name, func(t *testing.T) {
			code, body := ask(t, as(t, "jim"), fmt.Sprintf(proxyPath, name)+"/api", nil)
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil || code != want || status.Kind != "Status" {
				t.Errorf("got %d, want %d and a Status: %s", code, want, body)
			}
		})
	}
}

// TestProxyUpgrades stands for exec, attach and port-forward.
func TestProxyUpgrades(t *testing.T) {
	registerMember(t, "upgraded", member(t))
	expectUpgrade(t, "upgraded", "upgrader")
}

// expectUpgrade upgrades a connection to a member, as a service account.
func expectUpgrade(t *testing.T, cluster, account string) {
	t.Helper()
	location, err := url.Parse(hub.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", location.Host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "GET "+proxyPath+"/exec HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: echo\r\nAuthorization: Bearer %s\r\n\r\n",
		cluster, powerful(t, account))
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v, want 101", response, err)
	}
	_ = response.Body.Close()
	if line, err := reader.ReadString('\n'); err != nil || line != "system:serviceaccount:default:"+account+"\n" {
		t.Errorf("the member received %q, %v", line, err)
	}
	_, _ = fmt.Fprintln(conn, "hello")
	if line, err := reader.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("the returned line is %q, %v", line, err)
	}
}
