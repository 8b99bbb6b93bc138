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

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}}}}`

const pods = `{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"web-1"},"status":{"containerStatuses":[{"name":"web",
	"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image web:2"}}}]}}]}`

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
			if selector := r.URL.Query().Get("labelSelector"); selector != "app=web" {
				t.Errorf("pods are selected by %q", selector)
			}
			fmt.Fprint(w, pods)
		case proxy + "/apis/apps/v1/namespaces/shop/deployments/secret":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Forbidden","message":"no right in the member","code":403}`)
		default:
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer hub.Close()
	answerer := answers.Answerer{
		Members: answers.ThroughProxy(&rest.Config{Host: hub.URL}),
		Templates: store{hubstore.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"},
			Resource:         schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Namespaced: true,
		}},
	}
	ask := func(member, name string) (fleetv1alpha1.ExplanationStatus, error) {
		spec := fleetv1alpha1.ExplanationSpec{Kind: "Deployment", Namespace: "shop", Name: name, Member: member}
		return answerer.Explain(t.Context(), spec, author, func(explain.Right) bool { return false })
	}
	status, err := ask("m1", "web")
	if err != nil || status.Summary != "Member in m1 failed: container web: Back-off pulling image web:2" {
		t.Errorf("the answer is %+v, %v", status, err)
	}
	if status, err = ask("m1", "secret"); !apierrors.IsForbidden(err) || status.Object != nil {
		t.Errorf("without a right in the member: %+v, %v", status, err)
	}
	if _, err = ask("m1", "broken"); err == nil {
		t.Error("a member that does not answer: no error")
	}
	for _, member := range []string{"*", "..", "a/b", "a%2fb"} {
		if _, err := ask(member, "web"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "is no name of a cluster") {
			t.Errorf("%q: %v", member, err)
		}
	}
}
