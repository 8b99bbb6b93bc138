package chain

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/access"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/clusters"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/documents"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/extensions"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/inprocess"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/questions"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/resourceclaims"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/resources"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/works"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/works/local"
)

// Chain is the API servers of one process, each handing what it does not serve to the next: the
// aggregator in front, then the built-in kinds, then those of the hub, then custom resources.
type Chain struct {
	Front      *aggregatorapiserver.APIAggregator
	extensions *apiextensionsapiserver.CustomResourceDefinitions
	// Works reads and writes Works and bindings without requests; nil for a member.
	Works *local.Storage
}

// Groups is what the native groups of a hub need.
type Groups struct {
	clusters.Options
	Answers questions.Answers
	Search  *search.Server
}

// Builder builds a server that hands what it does not serve to next.
type Builder func(next genericapiserver.DelegationTarget) (*genericapiserver.GenericAPIServer, error)

// Link connects the servers, with the native groups of the hub unless own is nil, and with a further group unless that is nil. wrap is
// put around everything the front serves, behind authentication and authorization.
func Link(config *app.Config, own *Groups, further Builder, wrap func(http.Handler, *Chain) http.Handler) (*Chain, error) {
	linked := &Chain{}
	generic := &config.Aggregator.GenericConfig.Config
	protect := generic.BuildHandlerChainFunc
	generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return protect(wrap(api, linked), c)
	}
	if own != nil {
		inner := generic.BuildHandlerChainFunc
		generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
			return inner(clusters.PassDryRun(api), c)
		}
		usual := generic.LongRunningFunc
		generic.LongRunningFunc = func(r *http.Request, info *request.RequestInfo) bool {
			return clusters.IsTunnel(info) || usual(r, info)
		}
		generic.LoopbackClientConfig = extensions.OnlyLocal(generic.LoopbackClientConfig)
		definitions := &config.ApiExtensions.GenericConfig.Config
		definitions.AggregatedDiscoveryGroupManager = native.Announcing(definitions.AggregatedDiscoveryGroupManager, questions.OnlyCreate, resources.Announce)
	}
	completed, err := config.Complete()
	if err != nil {
		return nil, fmt.Errorf("completing the API server configuration: %w", err)
	}

	notFound := notfoundhandler.New(config.KubeAPIs.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	linked.extensions, err = completed.ApiExtensions.New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("building the custom resource server: %w", err)
	}
	next := linked.extensions.GenericAPIServer
	// Groups are in front of the custom resources: their server takes all of /apis/ for itself.
	if further != nil {
		if next, err = further(next); err != nil {
			return nil, err
		}
	}
	var claims *genericapiserver.GenericAPIServer
	if own != nil {
		if next, linked.Works, err = works.New(own.Host, next); err != nil {
			return nil, err
		}
		if next, err = clusters.New(own.Options, next); err != nil {
			return nil, err
		}
		if claims, err = resourceclaims.New(own.Host, next); err != nil {
			return nil, err
		}
		next = claims
	}
	taken := documents.Take(completed.KubeAPIs.ControlPlane.Generic.Config)
	builtin, err := completed.KubeAPIs.New(next)
	if err != nil {
		return nil, fmt.Errorf("building the server of built-in kinds: %w", err)
	}
	if err := taken.Serve("kube-apiserver", builtin.ControlPlane.GenericAPIServer); err != nil {
		return nil, err
	}
	var local genericapiserver.DelegationTarget = builtin.ControlPlane.GenericAPIServer
	if own != nil {
		local = resourceclaims.InFront(local, claims)
		answering, err := questions.New(own.Host, own.Answers)
		if err != nil {
			return nil, err
		}
		local = own.Search.InFront(questions.InFront(local, answering))
	}
	linked.Front, err = controlplaneapiserver.CreateAggregatorServer(
		completed.Aggregator,
		local,
		linked.extensions.Informers.Apiextensions().V1().CustomResourceDefinitions(),
		completed.ApiExtensions.GenericConfig.MergedResourceConfig.ResourceEnabled(
			apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")),
		priorities(),
	)
	if err != nil {
		return nil, fmt.Errorf("building the aggregator: %w", err)
	}
	return linked, nil
}

// IsCustomResource returns whether the resource is a custom one, or has no other form than one.
func (c *Chain) IsCustomResource(group, resource string) bool {
	switch group {
	case "":
		return false
	case works.Group:
		return true
	}
	return c.Defines(schema.GroupResource{Group: group, Resource: resource})
}

// Defines returns whether there is a definition of the resource.
func (c *Chain) Defines(resource schema.GroupResource) bool {
	_, err := c.definition(resource)
	return err == nil
}

// definition returns the definition of a resource, which is not to be changed.
func (c *Chain) definition(resource schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
	definitions := c.extensions.Informers.Apiextensions().V1().CustomResourceDefinitions()
	return definitions.Lister().Get(resource.String())
}

// StoredVersion returns the version in which objects of a custom resource are stored, if a webhook makes other versions of it and it is served;
// empty for any other resource.
func (c *Chain) StoredVersion(resource schema.GroupResource) string {
	definition, err := c.definition(resource)
	if err != nil || definition.Spec.Conversion == nil || definition.Spec.Conversion.Strategy != apiextensionsv1.WebhookConverter {
		return ""
	}
	for _, version := range definition.Spec.Versions {
		if version.Storage && version.Served {
			return version.Name
		}
	}
	return ""
}

// PublishDocuments takes the OpenAPI v3 documents of custom resources out of upstream's hands. Call it when the servers are
// prepared and do not run yet.
func (c *Chain) PublishDocuments(ctx context.Context, running *sync.WaitGroup) error {
	custom, err := documents.Replace(c.extensions.GenericAPIServer, c.extensions.Informers.Apiextensions().V1().CustomResourceDefinitions())
	if err != nil || custom == nil {
		return err
	}
	running.Go(func() {
		if err := custom.Run(ctx); err != nil {
			log.FromContext(ctx).Error(err, "OpenAPI documents of custom resources are not published")
		}
	})
	return nil
}

// priorities orders groups and versions in discovery. A group version without a priority is not
// announced by the aggregator at all, so every one that is served in this process has to be here.
func priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	all := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	for group, at := range map[string]struct {
		priority int32
		versions []string
	}{
		"apps":                    {17800, []string{"v1"}},
		"autoscaling":             {17500, []string{"v2", "v1"}},
		"batch":                   {17400, []string{"v1"}},
		"networking.k8s.io":       {17200, []string{"v1", "v1beta1"}},
		"policy":                  {17100, []string{"v1"}},
		"storage.k8s.io":          {16800, []string{"v1", "v1beta1", "v1alpha1"}},
		"scheduling.k8s.io":       {16600, []string{"v1", "v1beta1", "v1alpha3"}},
		"node.k8s.io":             {16300, []string{"v1"}},
		"resource.k8s.io":         {16200, []string{"v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2"}},
		"lifecycle.k8s.io":        {15700, []string{"v1alpha1"}},
		"metrics.k8s.io":          {15600, []string{"v1beta1"}},
		clusterv1alpha1.GroupName: {2000, []string{clusterv1alpha1.GroupVersion.Version}},
		works.Group:               {1000, []string{workv1alpha2.GroupVersion.Version, workv1alpha1.GroupVersion.Version}},
	} {
		for i, version := range at.versions {
			all[schema.GroupVersion{Group: group, Version: version}] = controlplaneapiserver.APIServicePriority{
				Group: at.priority, Version: int32(40 - 5*i),
			}
		}
	}
	return all
}

// Host is what the servers of native groups share with that of the built-in kinds, taken before its configuration is
// completed.
func Host(config *app.Config, wrap Wrapper) native.Host {
	host := native.Host{
		Config:      *config.KubeAPIs.ControlPlane.Generic,
		Informers:   config.KubeAPIs.ControlPlane.VersionedInformers,
		Etcd:        *config.Options.Etcd,
		Definitions: generatedopenapi.GetOpenAPIDefinitions,
		Reach:       wrap,
	}
	return host
}

// Authenticate has the front accept the requests that this process makes for users.
func Authenticate(config *app.Config) {
	front := &config.Aggregator.GenericConfig.Authentication
	front.Authenticator = inprocess.Authenticate(front.Authenticator)
}

// Authorize completes the authorizers that the options name, which upstream makes by their modes only: they wait for what they read, and
// first, if it is not nil, comes before them.
func Authorize(config *app.Config, first authorizer.Authorizer) error {
	roles := config.KubeAPIs.ControlPlane.VersionedInformers
	for _, server := range []*genericapiserver.Config{
		config.KubeAPIs.ControlPlane.Generic, &config.ApiExtensions.GenericConfig.Config, &config.Aggregator.GenericConfig.Config,
	} {
		server.Authorization.Authorizer = access.WithRoles(server.Authorization.Authorizer, roles)
		if first == nil {
			continue
		}
		both, err := union.New(
			union.NamedAuthorizer{AuthorizerName: "Flagship", Authorizer: first},
			union.NamedAuthorizer{AuthorizerName: "Configured", Authorizer: server.Authorization.Authorizer},
		)
		if err != nil {
			return fmt.Errorf("adding an authorizer: %w", err)
		}
		server.Authorization.Authorizer = both
	}
	return nil
}

// Wrapper changes how objects are stored.
type Wrapper = func(generic.RESTOptionsGetter) generic.RESTOptionsGetter

// WrapStorage changes how built-in kinds and custom resources are stored.
func WrapStorage(config *app.Config, wrap Wrapper) {
	builtin := config.KubeAPIs.ControlPlane.Generic
	builtin.RESTOptionsGetter = wrap(builtin.RESTOptionsGetter)
	for _, server := range []*genericapiserver.RecommendedConfig{config.ApiExtensions.GenericConfig, config.Aggregator.GenericConfig} {
		server.RESTOptionsGetter = wrap(server.RESTOptionsGetter)
	}
	extra := &config.ApiExtensions.ExtraConfig
	extra.CRDRESTOptionsGetter = wrap(extra.CRDRESTOptionsGetter)
}
