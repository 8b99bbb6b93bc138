package resourceclaims

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
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

// New builds the server of the group version; it delegates requests for others to next. Requests reach it only through
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
	server, err := host.Server("resourceclaim-apiserver", config, next)
	if err != nil {
		return nil, err
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
	host.Describe(config, "Resource claims", wire, definitions, definitions)
	// These take resources of the same group and name for the same thing, which the two versions are not: admission
	// would convert between them, and the cost of a list would be guessed from the other's number of objects.
	config.EquivalentResourceRegistry = runtime.NewEquivalentResourceRegistry()
	config.StorageObjectCountTracker = flowcontrolrequest.NewStorageObjectCountTracker()

	gv := v1alpha2.GroupVersion
	stored, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	codec := codecs.CodecForVersions(stored.Serializer, codecs.UniversalDeserializer(), gv, runtime.InternalGroupVersioner)
	config.RESTOptionsGetter, err = host.Store(gv, codec, *config)
	return err
}

// definitions are the generated ones, with the default that clients of this version find in them: an entry of a list of
// objects without fields is an empty object.
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

// GetRESTOptions returns how a resource is stored.
func (p ownPrefix) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := p.RESTOptionsGetter.GetRESTOptions(resource, example)
	options.ResourcePrefix = storagePrefix + "/" + resource.Resource
	return options, err
}

// newScheme has the kinds as they are on the wire, and again as the internal version that upstream's handlers
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

// newWireScheme has the kinds as they are on the wire.
func newWireScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha2.AddToScheme(scheme); err != nil {
		return nil, err
	}
	// Kinds every group answers with, such as Status, are found under the bare version.
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme, nil
}
