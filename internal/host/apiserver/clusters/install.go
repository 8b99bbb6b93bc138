package clusters

import (
	"fmt"
	"net/http"
	"net/url"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/knowledge/impersonate"
)

// Endpoint is a member's API server and the credential that may impersonate users there.
type Endpoint struct {
	// URL is the server, with a path prefix if it has one.
	URL *url.URL
	// Transport verifies the server and adds no credential. Requests that upgrade their connection
	// need an *http.Transport, or a wrapper that upstream knows how to unwrap.
	Transport http.RoundTripper
	// Token is the bearer token of an account that may impersonate.
	Token string
}

// Options are what the server needs.
type Options struct {
	native.Host
	// Secret reads a Secret as the control plane itself.
	Secret SecretReader
	// Rules say which addresses of members are connected to.
	Rules dial.Rules
}

// New builds the server of the group; it hands what it does not know to next.
func New(o Options, next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error) {
	config := o.Config
	scheme, err := newScheme()
	if err != nil {
		return nil, fmt.Errorf("registering cluster kinds: %w", err)
	}
	codecs := serializer.NewCodecFactory(scheme)
	if err := configure(&config, o.Host, codecs); err != nil {
		return nil, err
	}
	recommended := &genericapiserver.RecommendedConfig{Config: config, SharedInformerFactory: o.Informers}
	completed := recommended.Complete()
	// The aggregator in front lists all groups.
	completed.EnableDiscovery = false
	server, err := completed.New("cluster-apiserver", next)
	if err != nil {
		return nil, fmt.Errorf("building the cluster server: %w", err)
	}

	store, status, err := newStorage(scheme, config.RESTOptionsGetter, o.Secret, o.Rules)
	if err != nil {
		return nil, err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(clusterv1alpha1.GroupName, scheme, runtime.NewParameterCodec(scheme), codecs)
	group.VersionedResourcesStorageMap[clusterv1alpha1.GroupVersion.Version] = map[string]rest.Storage{
		clusterv1alpha1.ResourcePluralCluster:             store,
		clusterv1alpha1.ResourcePluralCluster + "/status": status,
		clusterv1alpha1.ResourcePluralCluster + "/proxy": &proxyREST{
			dial: NewDialer(store.cluster, o.Secret, o.Rules), holders: holders(o.Informers), authorizer: config.Authorization.Authorizer, names: store.names,
		},
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing the cluster group: %w", err)
	}
	return server, nil
}

// holders reads who holds clusters/proxy from the caches of the authorizer.
func holders(shared informers.SharedInformerFactory) Holders {
	rbac := shared.Rbac().V1()
	bindings, roles := rbac.ClusterRoleBindings().Lister(), rbac.ClusterRoles().Lister()
	return func(cluster string) (impersonate.Subjects, error) {
		list, err := bindings.List(labels.Everything())
		if err != nil {
			return impersonate.Subjects{}, fmt.Errorf("listing ClusterRoleBindings: %w", err)
		}
		return impersonate.Holders(cluster, list, func(name string) *rbacv1.ClusterRole {
			role, err := roles.Get(name)
			if err != nil {
				return nil // There is no such role: a cache has no other errors.
			}
			return role
		}), nil
	}
}

func configure(config *genericapiserver.Config, host native.Host, codecs serializer.CodecFactory) (err error) {
	wire, err := NewWireScheme()
	if err != nil {
		return fmt.Errorf("registering cluster kinds: %w", err)
	}
	namer := openapinamer.NewDefinitionNamer(wire)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(native.Definitions(host.Definitions, ours), namer)
	config.OpenAPIConfig.Info.Title = "Clusters"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(native.Definitions(host.Definitions, ours), namer)
	config.OpenAPIV3Config.Info.Title = "Clusters"
	// Hooks are the server's they were added to.
	config.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}

	gv, etcd := clusterv1alpha1.GroupVersion, host.Etcd
	etcd.StorageConfig.Codec = codecs.LegacyCodec(gv)
	etcd.StorageConfig.EncodeVersioner = runtime.NewMultiGroupVersioner(gv, schema.GroupKind{Group: gv.Group})
	config.RESTOptionsGetter, err = host.Store(etcd, *config)
	return err
}

// ours are the definitions of the group.
func ours(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	definitions := clusterv1alpha1.GetOpenAPIDefinitions(ref)
	path := spec.StringProperty().WithDescription("Path is the part of the URL to request from the member.")
	definitions[ProxyOptions{}.OpenAPIModelName()] = common.OpenAPIDefinition{
		Schema: *new(spec.Schema).Typed("object", "").SetProperty("path", *path),
	}
	return definitions
}
