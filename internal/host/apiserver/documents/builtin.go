package documents

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/util/uuid"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Builtin are the documents of one server of built-in kinds.
type Builtin struct {
	// v2 is shared with other servers.
	v2 *common.Config
	// v3 is what the server shares with others, and the copy that it has.
	v3 [2]*common.OpenAPIV3Config

	mu    sync.Mutex
	trees []*spec3.OpenAPI
}

// Take changes config so that its server does not build the document of version 2, and records the trees that it builds of version 3. Call it
// after config is complete, and before the server is made.
func Take(config *genericapiserver.Config) *Builtin {
	v3 := *config.OpenAPIV3Config
	b := &Builtin{v2: config.OpenAPIConfig, v3: [2]*common.OpenAPIV3Config{config.OpenAPIV3Config, &v3}}
	config.OpenAPIConfig, config.OpenAPIV3Config = nil, &v3
	further := v3.PostProcessSpec
	v3.PostProcessSpec = func(tree *spec3.OpenAPI) (*spec3.OpenAPI, error) {
		if further != nil {
			var err error
			if tree, err = further(tree); err != nil {
				return nil, err
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.trees = append(b.trees, tree)
		return tree, nil
	}
	return b
}

// Serve adds a handler of /openapi/v2 to the server, and a hook that releases what it keeps for /openapi/v3. The document of version 2 is built when it
// is requested: the clients of today read version 3. The name is that of the server among those of the process.
func (b *Builtin) Serve(name string, server *genericapiserver.GenericAPIServer) error {
	service := handler.NewOpenAPIServiceLazy(&onDemand{tag: string(uuid.NewUUID()), build: func() (*spec.Swagger, error) {
		return b.build(server.Handler.GoRestfulContainer.RegisteredWebServices())
	}})
	service.RegisterOpenAPIVersionedService("/openapi/v2", server.Handler.NonGoRestfulMux)
	err := server.AddPostStartHook("openapi-documents-"+name, func(ctx genericapiserver.PostStartHookContext) error {
		if err := b.release(server.OpenAPIV3VersionedService); err != nil {
			log.FromContext(ctx).Error(err, "OpenAPI documents stay in memory as trees")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("adding a hook: %w", err)
	}
	return nil
}

func (b *Builtin) build(services []*restful.WebService) (*spec.Swagger, error) {
	b.mu.Lock()
	config := *b.v2 // the builder leaves the definitions of all kinds in it
	b.mu.Unlock()
	tree, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), &config)
	if err != nil {
		return nil, fmt.Errorf("building the OpenAPI v2 document of built-in kinds: %w", err)
	}
	tree.Definitions = handler.PruneDefaults(tree.Definitions)
	return tree, nil
}

// release empties the trees of version 3, whose holders never release them, and drops the definitions from which they were built. The list of
// documents has the hash of each, so when it was answered all are encoded, and only what was encoded is sent.
func (b *Builtin) release(service *handler3.OpenAPIService) error {
	if service == nil {
		return nil
	}
	answer := status{header: http.Header{}, code: http.StatusOK}
	service.HandleDiscovery(&answer, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/openapi/v3"}})
	if answer.code != http.StatusOK {
		return fmt.Errorf("an OpenAPI v3 document cannot be encoded: the list of documents is answered with %d", answer.code)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, tree := range b.trees {
		*tree = spec3.OpenAPI{}
	}
	b.trees = nil
	// The builders leave functions that have all definitions, and make them anew when there are none.
	b.v2.GetOperationIDAndTagsFromRoute = nil
	for _, config := range b.v3 {
		config.Definitions, config.GetOperationIDAndTagsFromRoute = nil, nil
	}
	return nil
}

// onDemand is a document of version 2 that is built when it is requested.
type onDemand struct {
	build func() (*spec.Swagger, error)
	tag   string

	mu    sync.Mutex
	built *spec.Swagger
}

// Get implements cached.Value. As with document, what is requested again has been encoded, and is emptied.
func (d *onDemand) Get() (*spec.Swagger, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.built != nil {
		*d.built = spec.Swagger{}
		return d.built, d.tag, nil
	}
	var err error
	d.built, err = d.build()
	return d.built, d.tag, err
}

// status is an http.ResponseWriter that has the code of an answer only.
type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header         { return s.header }
func (s *status) WriteHeader(code int)        { s.code = code }
func (s *status) Write(p []byte) (int, error) { return len(p), nil }
