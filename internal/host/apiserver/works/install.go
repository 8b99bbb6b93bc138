package works

import (
	"fmt"

	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/works/local"
)

// subresourceStatus is the name of the subresource.
const subresourceStatus = "status"

// Group is the group that is served.
const Group = workv1alpha1.GroupName

// New builds the server of the group; it delegates requests for others to next. The storage is for the loops of this process.
func New(host native.Host, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, *local.Storage, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, nil, fmt.Errorf("registering the kinds of %s: %w", Group, err)
	}
	kinds, err := loadKinds()
	if err != nil {
		return nil, nil, err
	}
	config := host.Config
	if err := configure(&config, kinds, host); err != nil {
		return nil, nil, err
	}
	server, err := host.Server("work-apiserver", config, next)
	if err != nil {
		return nil, nil, err
	}
	codecs := serializer.NewCodecFactory(scheme)
	group := genericapiserver.NewDefaultAPIGroupInfo(Group, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.NegotiatedSerializer = native.WithoutProtobuf{NegotiatedSerializer: group.NegotiatedSerializer}
	var written []local.Kind
	for _, kind := range kinds {
		stored, err := host.Store(kind.gv, newStorageCodec(codecs.LegacyCodec(kind.gv), kind), config) // as JSON
		if err != nil {
			return nil, nil, err
		}
		storage, err := kind.storage(scheme, stored)
		if err != nil {
			return nil, nil, err
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
			version[kind.names.Plural+"/"+subresourceStatus] = storage.status()
		}
		own := local.Kind{Store: storage.Store, GVK: kind.kind(), Subresources: map[string]rest.Updater{subresourceStatus: storage.status()}}
		if _, ok := kind.object().(workv1alpha2.Binding); ok {
			scheduled := storage.schedule()
			group.VersionedResourcesStorageMap[kind.gv.Version][kind.names.Plural+"/"+workv1alpha2.SubresourceSchedule] = scheduled
			own.Subresources[workv1alpha2.SubresourceSchedule], own.WithStatus = scheduled, storage.withStatus()
		}
		written = append(written, own)
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, nil, fmt.Errorf("installing %s: %w", Group, err)
	}
	return server, local.New(config, scheme, written...), nil
}

func configure(config *genericapiserver.Config, kinds []kind, host native.Host) error {
	wire, err := newWireScheme()
	if err != nil {
		return fmt.Errorf("registering the kinds of %s: %w", Group, err)
	}
	host.Describe(config, "Works", wire, definitionsOf(kinds, openapiv2.ToStructuralOpenAPIV2), definitionsOf(kinds, inV3))
	return nil
}

// newScheme has the kinds as they are on the wire, and those that are stored again as the internal version that upstream's handlers
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

// newWireScheme has the kinds as they are on the wire.
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
