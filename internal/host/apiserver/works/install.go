package works

import (
	"fmt"

	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// Group is the group that is served.
const Group = workv1alpha1.GroupName

// New builds the server of the group; it hands what it does not know to next.
func New(host native.Host, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, fmt.Errorf("registering the kinds of %s: %w", Group, err)
	}
	kinds, err := loadKinds()
	if err != nil {
		return nil, err
	}
	config := host.Config
	if err := configure(&config, kinds, host); err != nil {
		return nil, err
	}
	recommended := &genericapiserver.RecommendedConfig{Config: config, SharedInformerFactory: host.Informers}
	completed := recommended.Complete()
	// The aggregator in front lists all groups.
	completed.EnableDiscovery = false
	server, err := completed.New("work-apiserver", next)
	if err != nil {
		return nil, fmt.Errorf("building the server of %s: %w", Group, err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	group := genericapiserver.NewDefaultAPIGroupInfo(Group, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.NegotiatedSerializer = withoutProtobuf{group.NegotiatedSerializer}
	for _, kind := range kinds {
		stored, err := storedAs(kind.gv, host, config, codecs)
		if err != nil {
			return nil, err
		}
		storage, err := kind.storage(scheme, stored)
		if err != nil {
			return nil, err
		}
		versions := []string{kind.gv.Version}
		if kind.former != nil {
			versions = append(versions, kind.former.gv.Version)
		}
		for _, name := range versions {
			if group.VersionedResourcesStorageMap[name] == nil {
				group.VersionedResourcesStorageMap[name] = map[string]rest.Storage{}
			}
			version := group.VersionedResourcesStorageMap[name]
			version[kind.names.Plural] = storage
			version[kind.names.Plural+"/status"] = storage.status()
		}
		version := group.VersionedResourcesStorageMap[kind.gv.Version]
		if _, ok := kind.object().(workv1alpha2.Binding); ok {
			version[kind.names.Plural+"/"+workv1alpha2.SubresourceSchedule] = storage.schedule()
		}
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing %s: %w", Group, err)
	}
	return server, nil
}

func configure(config *genericapiserver.Config, kinds []kind, host native.Host) error {
	wire, err := newWireScheme()
	if err != nil {
		return fmt.Errorf("registering the kinds of %s: %w", Group, err)
	}
	namer := openapinamer.NewDefinitionNamer(wire)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(native.Definitions(host.Definitions, definitionsOf(kinds, openapiv2.ToStructuralOpenAPIV2)), namer)
	config.OpenAPIConfig.Info.Title = "Works"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(native.Definitions(host.Definitions, definitionsOf(kinds, inV3)), namer)
	config.OpenAPIV3Config.Info.Title = "Works"
	// Hooks are the server's they were added to.
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	return nil
}

// storedAs says how the kinds of one version are stored: as JSON of that version.
func storedAs(gv schema.GroupVersion, host native.Host, config genericapiserver.Config, codecs serializer.CodecFactory) (generic.RESTOptionsGetter, error) {
	etcd := host.Etcd
	etcd.StorageConfig.Codec = codecs.LegacyCodec(gv)
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(gv, schema.GroupKind{Group: gv.Group})
	return host.Store(etcd, config)
}

// withoutProtobuf leaves JSON and YAML: the kinds have no other form.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes are the ones a client can choose from.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	var kept []runtime.SerializerInfo
	for _, info := range s.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType != runtime.ContentTypeProtobuf {
			kept = append(kept, info)
		}
	}
	return kept
}

// newScheme knows the kinds as they are on the wire, and those that are stored again as the internal version that upstream's handlers
// convert to: only bindings in v1alpha1 are converted.
func newScheme() (*runtime.Scheme, error) {
	scheme, err := newWireScheme()
	if err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(schema.GroupVersion{Group: Group, Version: runtime.APIVersionInternal},
		&workv1alpha1.Work{}, &workv1alpha1.WorkList{},
		&workv1alpha2.ResourceBinding{}, &workv1alpha2.ResourceBindingList{},
		&workv1alpha2.ClusterResourceBinding{}, &workv1alpha2.ClusterResourceBindingList{},
	)
	if err := addConversions(scheme); err != nil {
		return nil, err
	}
	return scheme, scheme.SetVersionPriority(workv1alpha2.GroupVersion, workv1alpha1.GroupVersion)
}

// newWireScheme knows the kinds as they are on the wire.
func newWireScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{workv1alpha1.AddToScheme, workv1alpha2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	// Kinds every group answers with, such as Status, are found under the bare version.
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme, nil
}
