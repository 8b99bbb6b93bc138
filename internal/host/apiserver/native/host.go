package native

import (
	"fmt"

	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/informers"
	"k8s.io/kube-openapi/pkg/common"
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

// Store says how objects are stored that etcd describes, for a server with the given configuration.
func (h Host) Store(etcd options.EtcdOptions, config genericapiserver.Config) (generic.RESTOptionsGetter, error) {
	etcd.SkipHealthEndpoints = true
	config.RESTOptionsGetter = nil
	if err := etcd.ApplyTo(&config); err != nil {
		return nil, fmt.Errorf("configuring storage: %w", err)
	}
	return h.Reach(config.RESTOptionsGetter), nil
}
