package promote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// hub is a control plane with one cluster, whose API server answers with anything.
type hub struct {
	t      *testing.T
	config string

	mu sync.Mutex
	// answer is what the cluster has under the path of a ConfigMap or a Role.
	answer map[string]any
	// created are the kinds that were created, but in dry runs.
	created []string
}

func newHub(t *testing.T) *hub {
	h := &hub{t: t, config: filepath.Join(t.TempDir(), "kubeconfig")}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u, namespace: shop}}], users: [{name: u}], clusters: [{name: c, cluster: {server: %q}}]}`, server.URL)
	if err := os.WriteFile(h.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// resources are those that the control plane serves, by the path of their group.
func resources(path string) *metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list", "create", "delete"}
	return map[string]*metav1.APIResourceList{
		"/api/v1": {GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true, Verbs: verbs},
		}},
		"/apis/policy.karmada.io/v1alpha1": {GroupVersion: "policy.karmada.io/v1alpha1", APIResources: []metav1.APIResource{
			{Name: "propagationpolicies", SingularName: "propagationpolicy", Kind: "PropagationPolicy", Namespaced: true, Verbs: verbs},
		}},
		"/apis/rbac.authorization.k8s.io/v1": {GroupVersion: "rbac.authorization.k8s.io/v1", APIResources: []metav1.APIResource{
			{Name: "roles", SingularName: "role", Kind: "Role", Namespaced: true, Verbs: verbs},
		}},
	}[path]
}

// ServeHTTP implements http.Handler.
func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	const cluster = "/apis/cluster.karmada.io/v1alpha1/clusters"
	var answer any
	switch path := r.URL.Path; {
	case path == "/api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case path == "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, group := range []string{"policy.karmada.io/v1alpha1", "rbac.authorization.k8s.io/v1"} {
			name, version, _ := strings.Cut(group, "/")
			served := metav1.GroupVersionForDiscovery{GroupVersion: group, Version: version}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{served}, PreferredVersion: served})
		}
		answer = list
	case resources(path) != nil:
		answer = resources(path)
	case path == cluster:
		answer = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "items": []any{map[string]any{"metadata": map[string]any{"name": "m1"}}}}
	case strings.HasPrefix(path, cluster+"/m1/proxy/") && r.Method == http.MethodGet:
		answer = h.answer
	case r.Method == http.MethodPost:
		body, err := io.ReadAll(r.Body)
		object := map[string]any{}
		if err != nil || json.Unmarshal(body, &object) != nil {
			h.t.Errorf("%s: %q, %v", path, body, err)
		}
		if r.URL.Query().Get("dryRun") == "" {
			h.created = append(h.created, fmt.Sprint(object["kind"]))
		}
		answer = object
	default:
		h.t.Errorf("%s %s is not expected", r.Method, path)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// run runs the command on an object that the cluster answers with, and returns what it prints and what was created.
func (h *hub) run(answer map[string]any, args ...string) (printed string, created []string, err error) {
	h.mu.Lock()
	h.answer, h.created = answer, nil
	h.mu.Unlock()
	var out bytes.Buffer
	c := NewCommand(cli.Streams{Out: &out, Err: &out})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append(args, "--cluster", "m1", "--kubeconfig", h.config, "--timeout", "0"))
	err = c.ExecuteContext(h.t.Context())
	h.mu.Lock()
	defer h.mu.Unlock()
	return out.String(), h.created, err
}

// expectation is what a dry run prints for --expect.
var expectation = regexp.MustCompile(`--expect sha256:[0-9a-f]+`)

// has returns what a cluster has, with changes of its fields and of those of its metadata.
func has(kind, apiVersion string, metadata, fields map[string]any) map[string]any {
	all := map[string]any{"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
	maps.Copy(all, metadata)
	object := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": all}
	maps.Copy(object, fields)
	return object
}

// TestALyingMember: nothing is created of an answer with another object than the one that was requested.
func TestALyingMember(t *testing.T) {
	h := newHub(t)
	data := map[string]any{"data": map[string]any{"k": "v"}}
	honest := has("ConfigMap", "v1", nil, data)
	printed, _, err := h.run(honest, "configmap", "web", "--dry-run")
	digest := expectation.FindString(printed)
	if err != nil || digest == "" {
		t.Fatalf("a dry run: %v\n%s", err, printed)
	}
	binding := map[string]any{"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}
	const another, changed = "another object than the one that was requested", "is not what --expect names"
	for name, tc := range map[string]struct {
		answer map[string]any
		// single and expected are the errors without --expect, and with the digest of the honest object.
		single, expected string
	}{
		"Honest":     {honest, "", ""},
		"Kind":       {has("Secret", "v1", nil, data), another, another},
		"Group":      {has("ClusterRoleBinding", "rbac.authorization.k8s.io/v1", nil, binding), another, another},
		"Namespace":  {has("ConfigMap", "v1", map[string]any{"namespace": "kube-system"}, data), another, another},
		"None":       {has("ConfigMap", "v1", map[string]any{"namespace": ""}, data), another, another},
		"Name":       {has("ConfigMap", "v1", map[string]any{"name": "other"}, data), another, another},
		"UID":        {has("ConfigMap", "v1", map[string]any{"uid": "v"}, data), "", changed},
		"Content":    {has("ConfigMap", "v1", nil, map[string]any{"data": map[string]any{"k": "w"}}), "", changed},
		"Annotation": {has("ConfigMap", "v1", map[string]any{"annotations": map[string]any{"a": "b"}}, data), "", changed},
	} {
		for _, form := range []struct {
			args []string
			want string
		}{
			{nil, tc.single},
			{[]string{"--dry-run"}, tc.single},
			{strings.Fields(digest), tc.expected},
		} {
			printed, created, err := h.run(tc.answer, append([]string{"configmap", "web"}, form.args...)...)
			if (err == nil) != (form.want == "") || err != nil && !strings.Contains(err.Error(), form.want) {
				t.Errorf("%s %v: the error is %v, want %q\n%s", name, form.args, err, form.want, printed)
			}
			want := "PropagationPolicy ConfigMap"
			if form.want != "" || len(form.args) > 0 && form.args[0] == "--dry-run" {
				want = ""
			}
			if got := strings.Join(created, " "); got != want {
				t.Errorf("%s %v: %q is created, want %q", name, form.args, got, want)
			}
		}
	}
}

// TestALyingMemberGivesNoRights: what acts on the control plane is created as a dry run printed it, or not at all.
func TestALyingMemberGivesNoRights(t *testing.T) {
	h := newHub(t)
	role := func(verb string) map[string]any {
		rule := map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{verb}}
		return has("Role", "rbac.authorization.k8s.io/v1", nil, map[string]any{"rules": []any{rule}})
	}
	acting := []string{"role", "web", "--acts-on-control-plane"}
	printed, _, err := h.run(role("get"), append(acting, "--dry-run")...)
	digest := strings.Fields(expectation.FindString(printed))
	if err != nil || len(digest) != 2 {
		t.Fatalf("a dry run: %v\n%s", err, printed)
	}
	for name, tc := range map[string]struct {
		verb string
		args []string
		want string
	}{
		"WithoutFlags":  {"get", []string{"role", "web"}, "acts on the control plane"},
		"WithoutDigest": {"get", acting, "acts on the control plane"},
		"Other":         {"*", append(acting, digest...), "is not what --expect names"},
		"Same":          {"get", append(acting, digest...), ""},
	} {
		_, created, err := h.run(role(tc.verb), tc.args...)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the error is %v, want %q", name, err, tc.want)
		}
		if (len(created) > 0) != (tc.want == "") {
			t.Errorf("%s: %q is created", name, created)
		}
	}
}
