package member_test

import (
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/flagship-k8s/flagship/internal/clients/member"
)

func TestAKindThatAppearsIsFound(t *testing.T) {
	s := newServer(t)
	serve := func(kinds string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.io/v1","resources":[` + kinds + `]}`))
		}
	}
	s.answer(serve(`{"name":"bars","kind":"Bar","namespaced":false},{"name":"bars/status","kind":"Bar"}`))
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	_, conn := connect(t, s.URL, func(c *member.Config) { c.Clock = clock })
	foo, bar := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Foo"}, schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Bar"}
	for range 5 {
		if _, err := conn.Mapping(t.Context(), foo); !meta.IsNoMatchError(err) {
			t.Fatalf("error is %v, want that there is no such kind", err)
		}
	}
	if m, err := conn.Mapping(t.Context(), bar); err != nil || m.Resource.Resource != "bars" || m.Namespaced {
		t.Errorf("Bar is %+v, %v", m, err)
	}
	if n := s.count("GET /apis/example.io/v1"); n != 1 {
		t.Errorf("the member got %d requests at once", n)
	}
	s.answer(serve(`{"name":"foos","kind":"Foo","namespaced":true}`))
	clock.Step(time.Second)
	if m, err := conn.Mapping(t.Context(), foo); err != nil || m.Resource.Resource != "foos" || !m.Namespaced {
		t.Errorf("Foo is %+v, %v", m, err)
	}
	s.answer(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusInternalServerError, "InternalError")
	})
	conn.Forget(foo.GroupVersion())
	clock.Step(time.Second)
	if _, err := conn.Mapping(t.Context(), foo); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("a member without discovery: error is %v", err)
	}
}
