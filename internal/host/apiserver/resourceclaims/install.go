package resourceclaims

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// storagePrefix keeps the objects apart from those of other versions of the group, which upstream stores under the
// bare names of their resources.
const storagePrefix = "v1alpha2." + v1alpha2.GroupName

// New builds the server of the group version; it hands what it does not know to next. Requests reach it only through
// InFront.
func New(host native.Host, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	config := host.Config
	scheme, err := newScheme()
	if err != nil {
		return nil, fmt.Errorf("registering resource claim kinds: %w", err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	if err := configure(&config, host, codecs); err != nil {
		return nil, err
	}
	recommended := &genericapiserver.RecommendedConfig{Config: config, SharedInformerFactory: host.Informers}
	completed := recommended.Complete()
	// The aggregator in front lists all groups.
	completed.EnableDiscovery = false
	server, err := completed.New("resourceclaim-apiserver", next)
	if err != nil {
		return nil, fmt.Errorf("building the resource claim server: %w", err)
	}
	storage, err := newStorage(scheme, ownPrefix{config.RESTOptionsGetter})
	if err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(v1alpha2.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap = map[string]map[string]rest.Storage{v1alpha2.GroupVersion.Version: storage}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing resource claim kinds: %w", err)
	}
	return server, nil
}

func configure(config *genericapiserver.Config, host native.Host, codecs serializer.CodecFactory) (err error) {
	wire, err := newWireScheme()
	if err != nil {
		return fmt.Errorf("registering resource claim kinds: %w", err)
	}
	namer := openapinamer.NewDefinitionNamer(wire)
	all := native.Definitions(host.Definitions, definitions)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(all, namer)
	config.OpenAPIConfig.Info.Title = "Resource claims"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(all, namer)
	config.OpenAPIV3Config.Info.Title = "Resource claims"
	// Hooks are the server's they were added to.
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	// These take resources of the same group and name for the same thing, which the two versions are not: admission
	// would convert between them, and the cost of a list would be guessed from the other's number of objects.
	config.EquivalentResourceRegistry = runtime.NewEquivalentResourceRegistry()
	config.StorageObjectCountTracker = flowcontrolrequest.NewStorageObjectCountTracker()

	gv, etcd := v1alpha2.GroupVersion, host.Etcd
	stored, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	etcd.StorageConfig.Codec = codecs.CodecForVersions(stored.Serializer, codecs.UniversalDeserializer(), gv, runtime.InternalGroupVersioner)
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(gv, schema.GroupKind{Group: gv.Group})
	config.RESTOptionsGetter, err = host.Store(etcd, *config)
	return err
}

// definitions are the generated ones, with the default that clients of this version find in them: an entry of a list of
// objects that says nothing is an empty object.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	generated := v1alpha2.GetOpenAPIDefinitions(ref)
	for _, definition := range generated {
		for _, property := range definition.Schema.Properties {
			if property.Items != nil && property.Items.Schema != nil && property.Items.Schema.Ref.String() != "" {
				property.Items.Schema.Default = map[string]any{}
			}
		}
	}
	return generated
}

// ownPrefix stores everything below storagePrefix.
type ownPrefix struct{ generic.RESTOptionsGetter }

// GetRESTOptions says how a resource is stored.
func (p ownPrefix) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := p.RESTOptionsGetter.GetRESTOptions(resource, example)
	options.ResourcePrefix = storagePrefix + "/" + resource.Resource
	return options, err
}

// newScheme knows the kinds as they are on the wire, and again as the internal version that upstream's handlers
// convert to: with one version there is nothing to convert.
func newScheme() (*runtime.Scheme, error) {
	scheme, err := newWireScheme()
	if err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(schema.GroupVersion{Group: v1alpha2.GroupName, Version: runtime.APIVersionInternal}, v1alpha2.Kinds()...)
	v1alpha2.RegisterDefaults(scheme)
	return scheme, nil
}

// newWireScheme knows the kinds as they are on the wire.
func newWireScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha2.AddToScheme(scheme); err != nil {
		return nil, err
	}
	// Kinds every group answers with, such as Status, are found under the bare version.
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme, nil
}
