package documents

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/util/uuid"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/flagship-k8s/flagship/internal/knowledge/version"
)

// Builtin are the documents of one server of built-in kinds.
type Builtin struct {
	// v2 and v3 are shared with other servers.
	v2 *common.Config
	v3 *common.OpenAPIV3Config
	// own is the copy of v3 that the server has.
	own *common.OpenAPIV3Config

	mu sync.Mutex // held while a document is built: all definitions are in memory then
}

// Take changes config so that its server builds no documents. Call it after config is complete, and before the server is made.
func Take(config *genericapiserver.Config) *Builtin {
	own := *config.OpenAPIV3Config
	b := &Builtin{v2: config.OpenAPIConfig, v3: config.OpenAPIV3Config, own: &own}
	config.OpenAPIConfig, config.OpenAPIV3Config = nil, &own
	config.SkipOpenAPIInstallation = true
	return b
}

// Serve adds handlers of /openapi/v2 and /openapi/v3 to the server, and a hook that releases the definitions of all kinds. Documents are built when
// they are requested: the clients of today read one or two of version 3. The name is that of the server among those of the process.
func (b *Builtin) Serve(name string, server *genericapiserver.GenericAPIServer) error {
	service := handler.NewOpenAPIServiceLazy(&onDemand{tag: string(uuid.NewUUID()), build: func() (*spec.Swagger, error) {
		return b.build(server.Handler.GoRestfulContainer.RegisteredWebServices())
	}})
	service.RegisterOpenAPIVersionedService("/openapi/v2", server.Handler.NonGoRestfulMux)
	v3 := newShelf()
	register(server.Handler.NonGoRestfulMux, &filling{shelf: v3, fill: func() { // kinds are added to the server after this
		b.publish(v3, server.Handler.GoRestfulContainer.RegisteredWebServices())
	}})
	err := server.AddPostStartHook("openapi-documents-"+name, func(genericapiserver.PostStartHookContext) error {
		b.release()
		return nil
	})
	if err != nil {
		return fmt.Errorf("adding a hook: %w", err)
	}
	return nil
}

// publish puts the documents of all group versions on the shelf.
func (b *Builtin) publish(v3 *shelf, services []*restful.WebService) {
	compiled := builderID()
	for _, service := range services {
		path := strings.TrimPrefix(service.RootPath(), "/")
		v3.set(path, tagOf(compiled, service), func() (*spec3.OpenAPI, error) { return b.buildV3(service) })
	}
}

// tagOf is another one for other content of a document: that is made of the routes and of what is compiled in.
func tagOf(compiled string, service *restful.WebService) string {
	described := []string{compiled, service.RootPath()}
	for _, route := range service.Routes() {
		described = append(described, fmt.Sprintf("%s %s %q %q %T %T", route.Method, route.Path, route.Consumes, route.Produces, route.ReadSample, route.WriteSample))
	}
	slices.Sort(described)
	return hash(described)
}

func hash(lines []string) string {
	return fmt.Sprintf("%X", sha256.Sum256([]byte(strings.Join(lines, "\n"))))
}

// builderID stands for what is compiled in. What is built of uncommitted sources has the time at which its file was written, since the next
// build may have the same version.
func builderID() string {
	info := version.Get()
	id := strings.Join([]string{info.Version, info.Commit, info.Kubernetes}, " ")
	if info.Version != version.Unknown && !strings.HasSuffix(info.Version, "-dirty") {
		return id
	}
	if path, err := os.Executable(); err == nil {
		if file, err := os.Stat(path); err == nil {
			id = fmt.Sprintf("%s %d %v", id, file.Size(), file.ModTime().UnixNano())
		}
	}
	return id
}

// buildV3 has upstream build the document of one group version.
func (b *Builtin) buildV3(service *restful.WebService) (*spec3.OpenAPI, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	config := *b.own // the builder leaves the definitions of all kinds in it
	var built *spec3.OpenAPI
	further := config.PostProcessSpec
	config.PostProcessSpec = func(tree *spec3.OpenAPI) (_ *spec3.OpenAPI, err error) {
		if built = tree; further != nil {
			built, err = further(tree)
		}
		return built, err
	}
	routes.OpenAPI{V3Config: &config}.InstallV3(restful.NewContainer().Add(service), mux.NewPathRecorderMux("openapi"))
	if built == nil {
		return nil, fmt.Errorf("the OpenAPI document of %s cannot be built; the log has the reason", service.RootPath())
	}
	return built, nil
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

// release drops the definitions of all kinds. The builders make them anew when there are none, and leave functions that have all of them.
func (b *Builtin) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.v2.GetOperationIDAndTagsFromRoute = nil
	for _, config := range []*common.OpenAPIV3Config{b.v3, b.own} {
		config.Definitions, config.GetOperationIDAndTagsFromRoute = nil, nil
	}
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
