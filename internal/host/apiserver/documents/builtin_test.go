package documents

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// routes has the handlers of a service by path.
type routes map[string]http.Handler

func (r routes) Handle(path string, handler http.Handler)       { r[path] = handler }
func (r routes) HandlePrefix(path string, handler http.Handler) { r[path] = handler }

func (r routes) get(t *testing.T, path, mediaType string) *httptest.ResponseRecorder {
	t.Helper()
	handler := r[path]
	for prefix := path; handler == nil && prefix != ""; prefix = prefix[:len(prefix)-1] {
		handler = r[prefix]
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	request.Header.Set("Accept", mediaType)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

// prepared returns a server's service of version 3 with one document, as upstream makes it of a configuration, and the tree of the document.
func prepared(t *testing.T, config *genericapiserver.Config, extensions spec.Extensions) (*handler3.OpenAPIService, *spec3.OpenAPI) {
	t.Helper()
	tree, err := config.OpenAPIV3Config.PostProcessSpec(&spec3.OpenAPI{
		Version: "3.0.0", Paths: &spec3.Paths{}, Info: &spec.Info{InfoProps: spec.InfoProps{Title: "Built-in", Version: "1"}, VendorExtensible: spec.VendorExtensible{Extensions: extensions}},
	})
	if err != nil {
		t.Fatal(err)
	}
	service := handler3.NewOpenAPIService()
	service.UpdateGroupVersion("apis/apps/v1", tree)
	return service, tree
}

func described() *genericapiserver.Config {
	return &genericapiserver.Config{
		OpenAPIConfig:   &common.Config{},
		OpenAPIV3Config: &common.OpenAPIV3Config{Definitions: map[string]common.OpenAPIDefinition{"Deployment": {}}},
	}
}

func TestOnlyWhatIsSentIsKept(t *testing.T) {
	config := described()
	shared := config.OpenAPIV3Config
	b := Take(config)
	if config.OpenAPIConfig != nil {
		t.Error("The server builds the document of version 2 when it is prepared")
	}
	service, tree := prepared(t, config, nil)
	if err := b.release(service); err != nil {
		t.Fatal(err)
	}
	if tree.Info != nil || shared.Definitions != nil || config.OpenAPIV3Config.Definitions != nil {
		t.Error("The tree of a document, or the definitions, are still there")
	}
	served := routes{}
	if err := service.RegisterOpenAPIV3VersionedService("/openapi/v3", served); err != nil {
		t.Fatal(err)
	}
	for _, mediaType := range []string{"application/json", "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"} {
		if answer := served.get(t, "/openapi/v3/apis/apps/v1", mediaType); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "Built-in") {
			t.Errorf("As %s the document is answered with %d: %q", mediaType, answer.Code, answer.Body)
		}
	}
}

func TestWhatCannotBeEncodedIsKept(t *testing.T) {
	config := described()
	b := Take(config)
	service, tree := prepared(t, config, spec.Extensions{"x-none": make(chan int)})
	if err := b.release(service); err == nil {
		t.Error("There is no error")
	}
	if tree.Info == nil {
		t.Error("A tree that was not encoded is emptied")
	}
}

func TestADocumentIsBuiltOnDemand(t *testing.T) {
	builds := 0
	served := routes{}
	handler.NewOpenAPIServiceLazy(&onDemand{tag: "1", build: func() (*spec.Swagger, error) {
		builds++
		return &spec.Swagger{SwaggerProps: spec.SwaggerProps{Swagger: "2.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "Built-in", Version: "1"}}}}, nil
	}}).RegisterOpenAPIVersionedService("/openapi/v2", served)
	if builds != 0 {
		t.Error("The document is built before it is requested")
	}
	for _, mediaType := range []string{"application/json", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/json"} {
		if answer := served.get(t, "/openapi/v2", mediaType); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "Built-in") {
			t.Errorf("As %s the document is answered with %d: %q", mediaType, answer.Code, answer.Body)
		}
	}
	if builds != 1 {
		t.Errorf("The document is built %d times, want once", builds)
	}
}
