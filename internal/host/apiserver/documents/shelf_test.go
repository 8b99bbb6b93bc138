package documents

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// titled is a document.
func titled(title string, extensions spec.Extensions) *spec3.OpenAPI {
	return &spec3.OpenAPI{
		Version: "3.0.0", Paths: &spec3.Paths{},
		Info: &spec.Info{InfoProps: spec.InfoProps{Title: title, Version: "1"}, VendorExtensible: spec.VendorExtensible{Extensions: extensions}},
	}
}

// addressOf is where the index has the document of a path.
func addressOf(t *testing.T, s *shelf, path string) string {
	t.Helper()
	var index handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(request(t, s, root, "application/json").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	address := index.Paths[path].ServerRelativeURL
	if address == "" {
		t.Errorf("%s is not in the index", path)
	}
	return address
}

func TestOnlyWhatIsSentIsKept(t *testing.T) {
	s := newShelf()
	tree := titled("First", nil)
	builds := 0
	build := func() (*spec3.OpenAPI, error) {
		builds++
		return tree, nil
	}
	s.set("apis/apps/v1", "1", build)
	address := addressOf(t, s, "apis/apps/v1")
	for _, path := range []string{address, address, root + "/apis/apps/v1", root + "/apis/apps/v1?hash=2"} {
		answer := request(t, s, path, "application/json")
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "First") {
			t.Errorf("%s is answered with %d: %q", path, answer.Code, answer.Body)
		}
		if kept := answer.Header().Get("Cache-Control") != ""; kept != (path == address) {
			t.Errorf("A client keeps the answer of %s: %v; only this address has the content", path, kept)
		}
	}
	if builds != 1 || tree.Info != nil {
		t.Errorf("The document is built %d times, and the tree has %v; want one time, and no tree", builds, tree.Info)
	}
	s.set("apis/apps/v1", "1", build)
	if request(t, s, address, "application/json"); builds != 1 {
		t.Error("A document that did not change is built again")
	}
	s.drop("apis/apps/v1")
	if answer := request(t, s, address, "application/json"); answer.Code != http.StatusNotFound {
		t.Errorf("A document that is gone is answered with %d", answer.Code)
	}
}

func TestADocumentThatFailsIsBuiltAgain(t *testing.T) {
	s := newShelf()
	results := []func() (*spec3.OpenAPI, error){
		func() (*spec3.OpenAPI, error) { return nil, errors.New("no definition") },
		func() (*spec3.OpenAPI, error) { return titled("First", spec.Extensions{"x-none": make(chan int)}), nil }, // has no JSON
		func() (*spec3.OpenAPI, error) { return titled("First", nil), nil },
	}
	s.set("apis/apps/v1", "1", func() (*spec3.OpenAPI, error) {
		build := results[0]
		results = results[1:]
		return build()
	})
	for _, want := range []int{http.StatusInternalServerError, http.StatusInternalServerError, http.StatusOK} {
		if answer := request(t, s, root+"/apis/apps/v1", "application/json"); answer.Code != want {
			t.Errorf("got %d %q, want %d", answer.Code, answer.Body, want)
		}
	}
}

func TestDocumentsOfUpstreamAreServed(t *testing.T) {
	service := handler3.NewOpenAPIService()
	service.UpdateGroupVersion("apis/apiextensions.k8s.io/v1", titled("Definitions", nil))
	s := newShelf()
	if err := s.adopt(service); err != nil {
		t.Fatal(err)
	}
	if answer := request(t, s, addressOf(t, s, "apis/apiextensions.k8s.io/v1"), "application/json"); !strings.Contains(answer.Body.String(), "Definitions") {
		t.Errorf("got %d %q", answer.Code, answer.Body)
	}
}
