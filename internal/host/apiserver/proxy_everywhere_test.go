package apiserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// memberOf answers as an API server with these ConfigMaps in the namespace default, one a page if there is a limit.
func memberOf(t *testing.T, names ...string) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const path = "/base/api/v1/namespaces/default/configmaps"
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, path), "/")
		item := func(name string) map[string]any {
			return map[string]any{"metadata": map[string]any{"name": name, "namespace": "default", "annotations": map[string]any{"by": r.Header.Get("Impersonate-User")}}}
		}
		if of, isLog := strings.CutSuffix(name, "/log"); isLog {
			_, _ = io.WriteString(w, "the log of "+of)
			return
		}
		if name != "" {
			if !slices.Contains(names, name) {
				w.WriteHeader(http.StatusNotFound)
				_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "there is no " + name})
				return
			}
			object := item(name)
			object["apiVersion"], object["kind"] = "v1", "ConfigMap"
			_ = json.NewEncoder(w).Encode(object)
			return
		}
		list := map[string]any{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": map[string]any{"resourceVersion": "7"}}
		rest := names
		if after := r.URL.Query().Get("continue"); after != "" {
			rest = names[slices.Index(names, after)+1:]
		}
		if r.URL.Query().Get("limit") != "" && len(rest) > 1 {
			rest = rest[:1]
			list["metadata"] = map[string]any{"continue": rest[0]}
		}
		items := []any{}
		for _, name := range rest {
			items = append(items, item(name))
		}
		list["items"] = items
		_ = json.NewEncoder(w).Encode(list)
	}))
	t.Cleanup(server.Close)
	return server
}

// origins are the objects of a list, as CLUSTER/NAME.
func origins(t *testing.T, body string) (found []string, list *unstructured.UnstructuredList) {
	t.Helper()
	list = &unstructured.UnstructuredList{}
	if err := list.UnmarshalJSON([]byte(body)); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for i := range list.Items {
		found = append(found, list.Items[i].GetAnnotations()["resource.karmada.io/cached-from-cluster"]+"/"+list.Items[i].GetName())
	}
	return found, list
}

// grantNames gives a user the right to use the proxy of the clusters, which may be *.
func grantNames(t *testing.T, user string, clusters ...string) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"cluster.karmada.io"}, Resources: []string{"clusters/proxy"}, Verbs: []string{"get", "create", "delete"}, ResourceNames: clusters,
	}}}
	if _, err := clients.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := clients.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestProxyReadsFromAllMembers(t *testing.T) {
	registerMember(t, "every-a", memberOf(t, "one", "two"))
	registerMember(t, "every-b", memberOf(t, "one"))
	path := fmt.Sprintf(proxyPath, "*") + "/api/v1/namespaces/default/configmaps"
	grantNames(t, "everywhere", "*", "every-a", "every-b", "every-dead")
	client := as(t, "everywhere")
	eventually(t, func() string {
		if code, body := ask(t, client, path, nil); code != http.StatusOK {
			return body
		}
		return ""
	})
	reads := func(path string, code int) string {
		t.Helper()
		got, body := ask(t, client, path, nil)
		if got != code {
			t.Errorf("%s answers %d %s, want %d", path, got, body, code)
		}
		return body
	}
	found, list := origins(t, reads(path, http.StatusOK))
	if want := []string{"every-a/one", "every-a/two", "every-b/one"}; !slices.Equal(found, want) {
		t.Fatalf("it lists %v, want %v", found, want)
	}
	if list.GetKind() != "ConfigMapList" || list.Items[0].GetKind() != "ConfigMap" || list.GetResourceVersion() != "" || list.Items[0].GetAnnotations()["by"] != "everywhere" {
		t.Errorf("it is %v", list)
	}
	found, list = origins(t, reads(path+"?limit=1", http.StatusOK))
	if want := []string{"every-a/one", "every-b/one"}; !slices.Equal(found, want) {
		t.Errorf("the first page has %v, want %v", found, want)
	}
	found, list = origins(t, reads(path+"?limit=1&continue="+url.QueryEscape(list.GetContinue()), http.StatusOK))
	if want := []string{"every-a/two"}; !slices.Equal(found, want) || list.GetContinue() != "" {
		t.Errorf("the second page has %v and %q, want %v", found, list.GetContinue(), want)
	}
	if body := reads(path+"/two", http.StatusOK); !strings.Contains(body, `"resource.karmada.io/cached-from-cluster":"every-a"`) || !strings.Contains(body, `"kind":"ConfigMap"`) {
		t.Errorf("the object of one member is %s", body)
	}
	if body := reads(path+"/one", http.StatusConflict); !strings.Contains(body, "every-a, every-b") {
		t.Errorf("the answer about an object of two members is %s", body)
	}
	reads(path+"/three", http.StatusNotFound)
	reads(path+"?continue=other", http.StatusBadRequest)
	if body := reads(path+"/two/log", http.StatusOK); body != "the log of two" {
		t.Errorf("the log of the object of one member is %s", body)
	}
	reads(path+"/one/log", http.StatusConflict)
	for _, own := range []string{"/version", "/api/v1", "/apis"} {
		if got, want := reads(fmt.Sprintf(proxyPath, "*")+own, http.StatusOK), reads(own, http.StatusOK); got != want {
			t.Errorf("%s of all members is %s, want that of the control plane", own, got)
		}
	}
	for _, refused := range []string{path + "?watch=true", path + "/two/exec", path + "/two/proxy"} {
		reads(refused, http.StatusMethodNotAllowed)
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		call(t, method, path, "{}", "Impersonate-User", "everywhere").wants(t, http.StatusMethodNotAllowed)
	}

	// A member that does not answer is named.
	dead := memberOf(t)
	registerMember(t, "every-dead", dead)
	dead.Close()
	a := call(t, http.MethodGet, path, "", "Impersonate-User", "everywhere").wants(t, http.StatusOK)
	if found, _ := origins(t, a.text); len(found) != 3 || !strings.Contains(a.header.Get("Warning"), "every-dead") {
		t.Errorf("it lists %v with the warning %q", found, a.header.Get("Warning"))
	}
}

// TestProxyToAllMembersNeedsTheRight: the right to the name * reaches no member that the caller may not reach by its name.
func TestProxyToAllMembersNeedsTheRight(t *testing.T) {
	registerMember(t, "right-a", memberOf(t, "one"))
	registerMember(t, "right-b", memberOf(t, "one"))
	path := fmt.Sprintf(proxyPath, "*") + "/api/v1/namespaces/default/configmaps"
	for name, names := range map[string][]string{"star-only": {"*"}, "star-and-a": {"*", "right-a"}, "a-only": {"right-a"}} {
		grantNames(t, name, names...)
	}
	eventually(t, func() string {
		code, body := ask(t, as(t, "star-and-a"), path, nil)
		if code != http.StatusOK {
			return body
		}
		if found, _ := origins(t, body); !slices.Equal(found, []string{"right-a/one"}) {
			t.Errorf("it lists %v", found)
		}
		return ""
	})
	for name, want := range map[string]string{"star-only": "no cluster whose proxy you may use", "a-only": "cannot get resource", "stranger": "cannot get resource"} {
		eventually(t, func() string {
			code, body := ask(t, as(t, name), path, nil)
			if code != http.StatusForbidden || !strings.Contains(body, want) {
				return fmt.Sprintf("%s: %d %s", name, code, body)
			}
			return ""
		})
	}
}
