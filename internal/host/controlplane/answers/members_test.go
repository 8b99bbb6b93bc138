package answers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/answers"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web","uid":"7"},"spec":{"selector":{"matchLabels":{"app":"web"}}}}`

const pods = `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"web-1"},"status":{"containerStatuses":[{"name":"web",
	"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image web:2"}}}]}}]}`

const warnings = `{"apiVersion":"v1","kind":"EventList","items":[
	{"reason":"FailedCreate","message":"exceeded quota: one","lastTimestamp":"2026-01-01T00:00:00Z","source":{"component":"replicaset-controller"}},
	{"reason":"FailedCreate","message":"exceeded quota: two","lastTimestamp":"2026-01-01T00:01:00Z","source":{"component":"replicaset-controller"}},
	{"reason":"Backoff","message":"waits"}]}`

// TestMembersAreReadAsTheAuthor: every request is sent to the proxy of the cluster, as the author of the question.
func TestMembersAreReadAsTheAuthor(t *testing.T) {
	const proxy = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy"
	author := &user.DefaultInfo{Name: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string][]string{"scope": {"x"}}}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		as := r.Header.Get("Impersonate-User") + r.Header.Get("Impersonate-Uid") + r.Header.Get("Impersonate-Group") + r.Header.Get("Impersonate-Extra-Scope")
		if as != "alice7shopx" {
			t.Errorf("%s is sent as %q", r.URL, as)
		}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case proxy + "/apis/apps/v1/namespaces/shop/deployments/web":
			fmt.Fprint(w, deployment)
		case proxy + "/api/v1/namespaces/shop/pods":
			switch selector := r.URL.Query().Get("labelSelector"); selector {
			case "app=web":
				fmt.Fprint(w, pods)
			case "app=closed":
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","message":"no right in the member","code":403}`)
			default:
				t.Errorf("pods are selected by %q", selector)
			}
		case proxy + "/api/v1/namespaces/shop/events":
			if selector := r.URL.Query().Get("fieldSelector"); selector != "involvedObject.uid=7,type=Warning" {
				t.Errorf("events are selected by %q", selector)
			}
			fmt.Fprint(w, warnings)
		case proxy + "/apis/apps/v1/namespaces/shop/deployments/closed":
			fmt.Fprint(w, strings.ReplaceAll(deployment, "web", "closed"))
		case proxy + "/apis/apps/v1/namespaces/shop/deployments/secret":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","message":"no right in the member","code":403}`)
		case proxy + "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case proxy + "/api/v1":
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node","namespaced":false,"verbs":["get"]},
				{"name":"nodes/status","kind":"Node","namespaced":false,"verbs":["get"]}]}`)
		case proxy + "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"example.io","versions":[{"groupVersion":"example.io/v2","version":"v2"}],
				"preferredVersion":{"groupVersion":"example.io/v2","version":"v2"}},{"name":"broken.io","versions":[{"groupVersion":"broken.io/v1","version":"v1"}],
				"preferredVersion":{"groupVersion":"broken.io/v1","version":"v1"}}]}`)
		case proxy + "/apis/example.io/v2":
			fmt.Fprint(w, `{"kind":"APIResourceList","groupVersion":"example.io/v2","resources":[{"name":"gadgets","kind":"Gadget","namespaced":true,"verbs":["get"]}]}`)
		case proxy + "/apis/example.io/v2/namespaces/shop/gadgets/one":
			fmt.Fprint(w, `{"apiVersion":"example.io/v2","kind":"Gadget","metadata":{"namespace":"shop","name":"one",
				"ownerReferences":[{"apiVersion":"example.io/v2","kind":"Factory","name":"east","uid":"1","controller":true}],
				"managedFields":[{"manager":"factory-controller","operation":"Update","fieldsV1":{"f:spec":{"f:size":{}}}}]}}`)
		case proxy + "/api/v1/nodes/n1":
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}`)
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer hub.Close()
	as := func(who user.Info) *rest.Config {
		return &rest.Config{Host: hub.URL, Impersonate: rest.ImpersonationConfig{UserName: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()}}
	}
	answerer := answers.Answerer{
		Members: answers.ThroughProxy(as), Kinds: answers.KindsThroughProxy(as),
		Templates: store{hubstore.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource:         schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true,
		}},
	}
	ask := func(member, name string) (fleetv1alpha1.ExplanationStatus, error) {
		spec := fleetv1alpha1.ExplanationSpec{Kind: "Deployment", Namespace: "shop", Name: name, Member: member}
		return answerer.Explain(t.Context(), spec, author, func(explain.Right) bool { return false })
	}
	status, err := ask("m1", "closed")
	if err != nil {
		t.Fatal(err)
	}
	if last := status.Steps[len(status.Steps)-1]; last.Outcome != fleetv1alpha1.OutcomeHidden || last.Message != "the pods are not shown: that needs clusters/proxy, and rights in the member" {
		t.Errorf("of an object whose pods the author may not list: %+v", status.Steps)
	}
	status, err = ask("m1", "web")
	if err != nil || status.Summary != "Member in m1 failed: container web: Back-off pulling image web:2" {
		t.Errorf("the answer is %+v, %v", status, err)
	}
	var found []string
	for _, step := range status.Steps[len(status.Steps)-2:] {
		found = append(found, fmt.Sprintf("%s %s by %s of %s", step.Reason, step.Message, step.Actor, step.Object.Name))
	}
	if want := "Backoff waits by  of web, FailedCreate exceeded quota: two by replicaset-controller of web"; strings.Join(found, ", ") != want {
		t.Errorf("the warnings are %q, want %q", found, want)
	}
	if status, err = ask("m1", "secret"); !apierrors.IsForbidden(err) || status.Object != nil {
		t.Errorf("without a right in the member: %+v, %v", status, err)
	}
	if _, err = ask("m1", "broken"); err == nil {
		t.Error("a member that does not answer: no error")
	}
	// Kinds that the control plane does not propagate are those of the member.
	kind := func(spec fleetv1alpha1.ExplanationSpec) (fleetv1alpha1.ExplanationStatus, error) {
		spec.Namespace, spec.Member = "shop", "m1"
		return answerer.Explain(t.Context(), spec, author, func(explain.Right) bool { return false })
	}
	for _, spec := range []fleetv1alpha1.ExplanationSpec{{Kind: "gadget", Name: "one"}, {Group: "example.io", Resource: "gadgets", Name: "one"}} {
		status, err := kind(spec)
		if err != nil || len(status.Steps) != 2 || status.Steps[0].Message != "no control plane manages it; its controller is Factory east" ||
			status.Steps[1].Actor != "factory-controller" || len(status.Steps[1].Fields) != 1 || status.Steps[1].Fields[0].Path != ".spec.size" {
			t.Errorf("the answer about %+v is %+v, %v", spec, status, err)
		}
	}
	if status, err := kind(fleetv1alpha1.ExplanationSpec{Kind: "Node", Name: "n1"}); err != nil || status.Object == nil || status.Object.Namespace != "" {
		t.Errorf("an object without a namespace: %+v, %v", status, err)
	}
	for _, spec := range []fleetv1alpha1.ExplanationSpec{{Kind: "Frigate", Name: "x"}, {Group: "other.io", Kind: "Gadget", Name: "one"}} {
		if _, err := kind(spec); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "is no kind that cluster m1 serves") {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	for _, member := range []string{"*", "..", "a/b", "a%2fb"} {
		if _, err := ask(member, "web"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "is no name of a cluster") {
			t.Errorf("%q: %v", member, err)
		}
	}
}
