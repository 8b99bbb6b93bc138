package attacks_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	searchv1alpha1 "github.com/flagship-k8s/flagship/api/search/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// robot is a service account that may use every way to members, and may read ConfigMaps of its namespace in member1. With the token of one a
// request can be sent as it is written, with headers that a client library does not send.
type robot struct{ name, namespace, token, address string }

func newRobot(t *testing.T, fleet *fleettest.Fleet, ns string) robot {
	t.Helper()
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "default"}
	fleettest.ExpectEventually(t, fleet.Hub, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default"}}, fleettest.Exists)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "robot-"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, Verbs: []string{"*"}},
		{APIGroups: []string{searchv1alpha1.GroupName}, Resources: []string{"proxying/proxy", "search/api", "search/apis"}, Verbs: []string{"*"}},
		{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"explanations", "driftreports"}, Verbs: []string{"create"}},
	}}
	fleettest.Create(t, fleet.Hub, role)
	fleettest.Create(t, fleet.Hub, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{account},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	})
	grantIn(t, fleet.Member("member1"), ns, account)
	token, err := kubernetes.NewForConfigOrDie(fleet.Hub.Config).CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	location, err := url.Parse(fleet.Hub.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	return robot{"system:serviceaccount:" + ns + ":default", ns, token.Status.Token, location.Host}
}

// send sends a request with further lines in its header.
func (r robot) send(t *testing.T, method, path, body string, lines ...string) (int, string) {
	t.Helper()
	conn, err := tls.Dial("tcp", r.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	lines = append([]string{"Host: hub", "Authorization: Bearer " + r.token, "Content-Type: application/json", "Accept: application/json", fmt.Sprint("Content-Length: ", len(body))}, lines...)
	_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\n%s\r\n\r\n%s", method, path, strings.Join(lines, "\r\n"), body)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %s with %q: %v", method, path, lines, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // an answer may end with its connection
	return response.StatusCode, string(text)
}

// upgraded ends the names of the cases with an upgrade of the connection.
const upgraded = ", with an upgrade"

// forged are lines that a client adds to its header to be taken for another.
func forged() map[string][]string {
	names := []string{"Authorization", "Impersonate-User", "Impersonate-Uid", "Impersonate-Group", "Impersonate-Extra-Authentication.kubernetes.io%2fcredential-Id",
		"X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-Scope"}
	all := strings.Join(names, ", ")
	remote := []string{"X-Remote-User: flagship-admin", "X-Remote-Group: system:masters", "x-remote-user: flagship-admin", "X-Remote-Extra-Scope: x"}
	cases := map[string][]string{
		"nothing":              nil,
		"Connection":           {"Connection: " + all},
		"connection":           {"connection: " + strings.ToLower(all)},
		"CONNECTION, repeated": {"CONNECTION: " + strings.ToUpper(all), "Connection: close, Impersonate-User", "Connection: Impersonate-Group"},
		"X-Remote":             append(slices.Clone(remote), "Connection: "+all),
		"Authorization":        {"Authorization: Bearer other", "Connection: " + all},
		"Impersonate":          {"Impersonate-User: flagship-admin", "impersonate-group: system:masters", "Connection: " + all},
		"underscores":          {"Impersonate_User: flagship-admin", "X_Remote_User: flagship-admin", "Connection: " + all},
	}
	for name, lines := range cases {
		cases[name+upgraded] = append(slices.Clone(lines), "Upgrade: SPDY/3.1", "Connection: Upgrade, "+all)
	}
	return cases
}

// TestHeadersOfAClientAreNoIdentity: whatever a client adds to its header, on every way it is itself, and has its own rights.
func TestHeadersOfAClientAreNoIdentity(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	for _, name := range []string{"member1", "member2"} {
		fleettest.ExpectEventually(t, fleet.Member(name), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	}
	robot := newRobot(t, fleet, ns)
	fleettest.Create(t, fleet.Hub, fleettest.Secret(clusterv1alpha1.SystemNamespace, "canary", map[string]string{"key": "canary-2251"}))
	fleettest.Create(t, fleet.Member("member1"), fleettest.ConfigMap(ns, "own", nil))
	fleettest.Create(t, fleet.Member("member2"), fleettest.ConfigMap(ns, "others", map[string]string{"key": "canary-2251"}))
	fleettest.Create(t, fleet.Hub, &searchv1alpha1.ResourceRegistry{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: searchv1alpha1.ResourceRegistrySpec{
		TargetCluster: policyv1alpha1.ClusterAffinity{}, ResourceSelectors: []searchv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns}},
	}})
	const proxies, review = "/apis/cluster.karmada.io/v1alpha1/clusters/", "/apis/authentication.k8s.io/v1/selfsubjectreviews"
	maps := "/api/v1/namespaces/" + ns + "/configmaps"
	own := []string{proxies + "member1/proxy" + maps, proxies + "*/proxy" + maps, searchv1alpha1.ProxyingPath + maps, searchv1alpha1.ProxyingPath + maps + "/own", searchv1alpha1.SearchCachePath + maps}
	for _, path := range own {
		until(t, func() error { // who may be impersonated, and the registry, take a moment
			if code, body := robot.send(t, "GET", path, ""); code != http.StatusOK || !strings.Contains(body, `"own"`) {
				return fmt.Errorf("%s: %d %s", path, code, body)
			}
			return nil
		})
	}
	secret := "/api/v1/namespaces/karmada-system/secrets/canary"
	refused := []string{
		secret, searchv1alpha1.ProxyingPath + secret, searchv1alpha1.ProxyingPath + "/metrics", searchv1alpha1.ProxyingPath + "/flagship/orphans",
		proxies + "*/proxy/metrics", proxies + "*/proxy/flagship/orphans", proxies + "*/proxy" + secret, proxies + "member1/proxy" + secret,
		proxies + "member1/proxy/api/v1/namespaces/kube-system/secrets", proxies + "member1/proxy/metrics",
		proxies + "member2/proxy" + maps, searchv1alpha1.ProxyingPath + maps + "/others", searchv1alpha1.SearchCachePath + maps + "/others",
		searchv1alpha1.ProxyingPath + proxies + "member2/proxy" + maps,
		searchv1alpha1.ProxyingPath + "/apis/fleet.flagship.io/v1alpha1/clustercapacities",
	}
	reviews := []string{review, searchv1alpha1.ProxyingPath + review, proxies + "member1/proxy" + review, searchv1alpha1.ProxyingPath + proxies + "member1/proxy" + review}
	for name, lines := range forged() {
		t.Run(name, func(t *testing.T) {
			upgrade := strings.HasSuffix(name, upgraded) // what does not upgrade is answered with 503
			for _, path := range refused {
				if code, body := robot.send(t, "GET", path, "", lines...); code < 400 || code >= 500 || strings.Contains(body, "canary-2251") {
					t.Errorf("%s: %d %.300s", path, code, body)
				}
			}
			for _, path := range own {
				if _, body := robot.send(t, "GET", path, "", lines...); strings.Contains(body, "canary-2251") {
					t.Errorf("%s: %.300s", path, body)
				}
			}
			for _, path := range reviews {
				code, body := robot.send(t, "POST", path, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, lines...)
				var answer authenticationv1.SelfSubjectReview
				err := json.Unmarshal([]byte(body), &answer)
				if who := answer.Status.UserInfo; code == http.StatusCreated && (err != nil || who.Username != robot.name) || code >= 500 && !upgrade || name == "nothing" && code != http.StatusCreated {
					t.Errorf("%s: %d, %+v, %v: %.300s", path, code, who, err, body)
				}
			}
		})
	}
	isRecorded(t, fleet, robot, own)
}

// isRecorded: which user read and wrote what in which member is in the audit log, whichever way it went.
func isRecorded(t *testing.T, fleet *fleettest.Fleet, robot robot, read []string) {
	path := filepath.Join(fleet.Dir, "hub", "audit", "audit.log")
	into := func(agent, cluster, verb, rest string) auditv1.Event {
		return expectRecord(t, path, func(e auditv1.Event) bool {
			return e.User.Username == robot.name && e.UserAgent == agent && e.ObjectRef != nil && e.ObjectRef.Resource == "clusters" && e.ObjectRef.Subresource == "proxy" &&
				e.ObjectRef.Name == cluster && e.Verb == verb && strings.Contains(e.RequestURI, "/clusters/"+cluster+"/proxy"+rest)
		})
	}
	maps := "/api/v1/namespaces/" + robot.namespace + "/configmaps"
	for i, way := range read {
		agent := fmt.Sprint("reader-", i)
		robot.send(t, "GET", way, "", "User-Agent: "+agent)
		inner := into(agent, "member1", "get", maps)
		if strings.Contains(way, "member1") {
			continue
		}
		expectRecord(t, path, func(e auditv1.Event) bool {
			return string(e.AuditID) == inner.Annotations["flagship.io/request"] && e.UserAgent == agent && e.RequestURI == way
		})
	}
	const agent = "writer"
	code, body := robot.send(t, "DELETE", searchv1alpha1.ProxyingPath+maps+"/own", "", "User-Agent: "+agent)
	if code != http.StatusForbidden {
		t.Errorf("a deletion without the right: %d %s", code, body)
	}
	into(agent, "member1", "delete", maps+"/own")
	explanation := fmt.Sprintf(`{"apiVersion":"fleet.flagship.io/v1alpha1","kind":"Explanation","spec":{"kind":"ConfigMap","namespace":%q,"name":"own","member":"member1"}}`, robot.namespace)
	if code, body := robot.send(t, "POST", "/apis/fleet.flagship.io/v1alpha1/explanations", explanation); code != http.StatusCreated {
		t.Errorf("an Explanation: %d %s", code, body)
	}
	outer := expectRecord(t, path, func(e auditv1.Event) bool {
		return e.User.Username == robot.name && e.ObjectRef != nil && e.ObjectRef.Resource == "explanations" && e.RequestObject != nil && strings.Contains(string(e.RequestObject.Raw), `"member1"`)
	})
	expectRecord(t, path, func(e auditv1.Event) bool {
		return e.User.Username == robot.name && e.Annotations["flagship.io/request"] == string(outer.AuditID) && e.ObjectRef != nil && e.ObjectRef.Name == "member1"
	})
	for _, record := range recordsOf(t, path) {
		if record.User.Username == "system:apiserver" {
			t.Errorf("%s %s is recorded as one of the control plane", record.Verb, record.RequestURI)
		}
	}
}
