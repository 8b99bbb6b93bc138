package native

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/informers"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/documents"
)

// Host is what the server of a native group shares with that of the built-in kinds.
type Host struct {
	// Config is a copy of their configuration, not yet completed.
	Config genericapiserver.Config
	// Informers are theirs.
	Informers informers.SharedInformerFactory
	// Etcd is a copy of how they are stored.
	Etcd options.EtcdOptions
	// Definitions are the OpenAPI definitions of all built-in kinds.
	Definitions common.GetOpenAPIDefinitions
	// Reach changes how objects are stored.
	Reach func(generic.RESTOptionsGetter) generic.RESTOptionsGetter
}

// Describe sets the OpenAPI documents of a group: the kinds of wire, with their definitions in both versions of OpenAPI.
func (h Host) Describe(config *genericapiserver.Config, title string, wire *runtime.Scheme, v2, v3 common.GetOpenAPIDefinitions) {
	namer := openapinamer.NewDefinitionNamer(wire)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(Definitions(h.Definitions, v2), namer)
	config.OpenAPIConfig.Info.Title = title
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(Definitions(h.Definitions, v3), namer)
	config.OpenAPIV3Config.Info.Title = title
	// Hooks are the server's they were added to.
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
}

// Server builds the server of a group, which delegates requests for others to next.
func (h Host) Server(name string, config genericapiserver.Config, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	recommended := &genericapiserver.RecommendedConfig{Config: config, SharedInformerFactory: h.Informers}
	completed := recommended.Complete()
	// The aggregator in front lists all groups.
	completed.EnableDiscovery = false
	taken := documents.Take(completed.Config)
	server, err := completed.New(name, next)
	if err != nil {
		return nil, fmt.Errorf("building the %s: %w", name, err)
	}
	if err := taken.Serve(name, server); err != nil {
		return nil, fmt.Errorf("serving the documents of the %s: %w", name, err)
	}
	return server, nil
}

// Store returns how objects are stored in a version, encoded by codec, for a server with the given configuration.
func (h Host) Store(version schema.GroupVersion, codec runtime.Codec, config genericapiserver.Config) (generic.RESTOptionsGetter, error) {
	etcd := h.Etcd
	etcd.StorageConfig.Codec = codec
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(version, schema.GroupKind{Group: version.Group})
	etcd.SkipHealthEndpoints = true
	config.RESTOptionsGetter = nil
	if err := etcd.ApplyTo(&config); err != nil {
		return nil, fmt.Errorf("configuring storage: %w", err)
	}
	return h.Reach(config.RESTOptionsGetter), nil
}
