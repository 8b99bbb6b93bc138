package usage

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// New builds the server of the group. It hands what it does not serve to next.
func New(host native.Host, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the kinds of metrics: %w", err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	namer := openapinamer.NewDefinitionNamer(scheme)
	definitions := native.Definitions(host.Definitions, func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		own := map[string]common.OpenAPIDefinition{}
		for name, definition := range host.Definitions(ref) {
			if strings.HasPrefix(name, "io.k8s.metrics.pkg.apis.metrics.v1beta1.") {
				own[name] = definition
			}
		}
		return own
	})
	config := host.Config
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIConfig.Info.Title = "Metrics"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIV3Config.Info.Title = "Metrics"
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{} // they are the other server's
	recommended := &genericapiserver.RecommendedConfig{Config: config, SharedInformerFactory: host.Informers}
	completed := recommended.Complete()
	completed.EnableDiscovery = false // the aggregator in front lists all groups
	server, err := completed.New("metrics-apiserver", next)
	if err != nil {
		return nil, fmt.Errorf("building the server of metrics: %w", err)
	}

	core, now := host.Informers.Core().V1(), clock.RealClock{}
	group := genericapiserver.NewDefaultAPIGroupInfo(v1beta1.GroupName, scheme, runtime.NewParameterCodec(scheme), serializer.NewCodecFactory(scheme))
	group.VersionedResourcesStorageMap[v1beta1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"pods":  podREST{rest.NewDefaultTableConvertor(v1beta1.Resource("pods")), core.Pods().Lister(), now},
		"nodes": nodeREST{rest.NewDefaultTableConvertor(v1beta1.Resource("nodes")), core.Nodes().Lister(), core.Pods().Lister(), now},
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing the group of metrics: %w", err)
	}
	return server, nil
}
