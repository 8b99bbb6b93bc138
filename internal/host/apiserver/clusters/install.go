package clusters

import (
	"fmt"
	"net/http"
	"net/url"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/knowledge/impersonate"
)

// Endpoint is a member's API server and the credential that may impersonate users there.
type Endpoint struct {
	// URL is the server, with a path prefix if it has one.
	URL *url.URL
	// Transport verifies the server and adds no credential. Requests that upgrade their connection
	// need an *http.Transport, or a wrapper that upstream can unwrap.
	Transport http.RoundTripper
	// Token is the bearer token of an account that may impersonate; empty for an agent, which has its own.
	Token string
}

// Options are what the server needs.
type Options struct {
	native.Host
	// Secret reads a Secret as the control plane itself.
	Secret SecretReader
	// Rules are which addresses of members are connected to.
	Rules dial.Rules
	// Tunnels are those that agents open; nil refuses them.
	Tunnels *tunnel.Tunnels
	// Everywhere returns the handler of a path in several members, for clusters/*/proxy. The members are those that the caller may reach.
	Everywhere func(path string, clusters []string) http.Handler
}

// New builds the server of the group; it delegates requests for others to next.
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
	server, err := o.Server("cluster-apiserver", config, next)
	if err != nil {
		return nil, err
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
			dial: NewDialer(store.cluster, o.Secret, o.Rules, o.Tunnels), holders: holders(o.Informers), authorizer: config.Authorization.Authorizer,
			names: store.names, everywhere: o.Everywhere,
		},
	}
	if o.Tunnels != nil {
		group.VersionedResourcesStorageMap[clusterv1alpha1.GroupVersion.Version][clusterv1alpha1.ResourcePluralCluster+"/"+clusterv1alpha1.TunnelSubresource] =
			&tunnelREST{tunnels: o.Tunnels, cached: store.cached}
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
	host.Describe(config, "Clusters", wire, ours, ours)
	config.RESTOptionsGetter, err = host.Store(clusterv1alpha1.GroupVersion, codecs.LegacyCodec(clusterv1alpha1.GroupVersion), *config)
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
