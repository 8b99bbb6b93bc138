package documents

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

func described() *genericapiserver.Config {
	return &genericapiserver.Config{
		OpenAPIConfig: &common.Config{},
		OpenAPIV3Config: &common.OpenAPIV3Config{
			Info:        &spec.Info{InfoProps: spec.InfoProps{Title: "Built-in", Version: "1"}},
			Definitions: map[string]common.OpenAPIDefinition{"Deployment": {}},
			GetDefinitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
				return map[string]common.OpenAPIDefinition{"Deployment": {}}
			},
		},
	}
}

// served has the routes of one group version.
func served(paths ...string) *restful.WebService {
	service := new(restful.WebService).Path("/apis/apps/v1")
	for _, path := range paths {
		service.Route(service.GET(path).Operation("read" + path[1:]).To(func(*restful.Request, *restful.Response) {}))
	}
	return service
}

func TestBuiltinDocumentsAreBuiltOnDemand(t *testing.T) {
	config := described()
	shared := config.OpenAPIV3Config
	b := Take(config)
	if config.OpenAPIConfig != nil || !config.SkipOpenAPIInstallation {
		t.Error("The server builds documents when it is prepared")
	}
	builds := 0
	config.OpenAPIV3Config.PostProcessSpec = func(tree *spec3.OpenAPI) (*spec3.OpenAPI, error) {
		builds++
		return tree, nil
	}
	s := newShelf()
	b.publish(s, []*restful.WebService{served("/deployments")})
	b.release()
	if shared.Definitions != nil || config.OpenAPIV3Config.Definitions != nil {
		t.Error("The definitions are still there")
	}
	address := addressOf(t, s, "apis/apps/v1")
	if builds != 0 {
		t.Error("A document is built for the index")
	}
	for _, mediaType := range []string{"application/com.github.proto-openapi.spec.v3.v1.0+protobuf", "application/json"} {
		if answer := request(t, s, address, mediaType); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "Built-in") {
			t.Errorf("As %s the document is answered with %d: %q", mediaType, answer.Code, answer.Body)
		}
	}
	if builds != 1 {
		t.Errorf("The document is built %d times, want once", builds)
	}
	if config.OpenAPIV3Config.Definitions != nil || config.OpenAPIV3Config.GetOperationIDAndTagsFromRoute != nil {
		t.Error("What the builder makes is kept")
	}
}

func TestTheAddressOfABuiltinDocumentHasItsContent(t *testing.T) {
	first, same, other := tagOf("1.0", served("/deployments", "/scales")), tagOf("1.0", served("/scales", "/deployments")), tagOf("1.0", served("/deployments"))
	if first != same {
		t.Error("A restart changes the address of the document")
	}
	if first == other || first == tagOf("1.1", served("/deployments", "/scales")) {
		t.Error("Other content has the same address")
	}
}

func TestADocumentOfVersion2IsBuiltOnDemand(t *testing.T) {
	builds := 0
	served := mux.NewPathRecorderMux("test")
	handler.NewOpenAPIServiceLazy(&onDemand{tag: "1", build: func() (*spec.Swagger, error) {
		builds++
		return &spec.Swagger{SwaggerProps: spec.SwaggerProps{Swagger: "2.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "Built-in", Version: "1"}}}}, nil
	}}).RegisterOpenAPIVersionedService("/openapi/v2", served)
	if builds != 0 {
		t.Error("The document is built before it is requested")
	}
	for _, mediaType := range []string{"application/json", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "application/json"} {
		if answer := request(t, served, "/openapi/v2", mediaType); answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), "Built-in") {
			t.Errorf("As %s the document is answered with %d: %q", mediaType, answer.Code, answer.Body)
		}
	}
	if builds != 1 {
		t.Errorf("The document is built %d times, want once", builds)
	}
}

// request sends a request to a handler.
func request(t *testing.T, to http.Handler, path, mediaType string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Header.Set("Accept", mediaType)
	answer := httptest.NewRecorder()
	to.ServeHTTP(answer, r)
	return answer
}
