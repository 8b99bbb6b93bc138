package explanations

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// root is where the kind is served.
var root = "/apis/" + fleetv1alpha1.GroupVersion.String() + "/" + fleetv1alpha1.ResourcePluralExplanation

// New builds the server of the kind. Requests reach it only through InFront.
func New(host native.Host, answer Answer) (*genericapiserver.GenericAPIServer, error) {
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering Explanations: %w", err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config := host.Config
	host.Describe(&config, "Explanations", scheme, definitions, definitions)
	// What this server would announce would hide the other kinds of the group.
	config.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	server, err := host.Server("explanation-apiserver", config, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(schema.GroupVersion{Group: fleetv1alpha1.GroupName, Version: runtime.APIVersionInternal}, &fleetv1alpha1.Explanation{})
	group := genericapiserver.NewDefaultAPIGroupInfo(fleetv1alpha1.GroupName, scheme, runtime.NewParameterCodec(scheme), serializer.NewCodecFactory(scheme))
	group.VersionedResourcesStorageMap[fleetv1alpha1.GroupVersion.Version] = map[string]rest.Storage{
		fleetv1alpha1.ResourcePluralExplanation: &storage{answer: answer, authorizer: config.Authorization.Authorizer},
	}
	group.NegotiatedSerializer = native.WithoutProtobuf{NegotiatedSerializer: group.NegotiatedSerializer}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing Explanations: %w", err)
	}
	return server, nil
}

// definitions has the kind without its fields: the documents that clients read are made of the custom resource definition. The kind
// in the extension is where the server finds the definition when it tracks field managers.
func definitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	object := new(spec.Schema).Typed("object", "").WithDescription("Explanation is a question about an object.")
	object.AddExtension("x-kubernetes-preserve-unknown-fields", true)
	object.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
		"group": fleetv1alpha1.GroupName, "version": fleetv1alpha1.GroupVersion.Version, "kind": fleetv1alpha1.KindExplanation,
	}})
	return map[string]common.OpenAPIDefinition{util.GetCanonicalTypeName(&fleetv1alpha1.Explanation{}): {Schema: *object}}
}

// InFront lets the server of Explanations answer what is below its root, and the local servers everything else.
func InFront(local genericapiserver.DelegationTarget, explanations *genericapiserver.GenericAPIServer) genericapiserver.DelegationTarget {
	return front{DelegationTarget: local, explanations: explanations.UnprotectedHandler()}
}

type front struct {
	genericapiserver.DelegationTarget
	explanations http.Handler
}

// UnprotectedHandler serves requests that are authenticated and authorized already.
func (f front) UnprotectedHandler() http.Handler {
	others := f.DelegationTarget.UnprotectedHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == root || strings.HasPrefix(r.URL.Path, root+"/") {
			f.explanations.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// OnlyCreate makes discovery announce of the kind what is possible: a custom resource has all verbs, and upstream's controllers of
// garbage and namespaces list and watch whatever has them.
func OnlyCreate(manager aggregated.ResourceManager) aggregated.ResourceManager {
	return announcements{manager}
}

type announcements struct{ aggregated.ResourceManager }

// WithSource keeps the wrapper.
func (a announcements) WithSource(source aggregated.Source) aggregated.ResourceManager {
	return announcements{a.ResourceManager.WithSource(source)}
}

// AddGroupVersion changes the verbs.
func (a announcements) AddGroupVersion(group string, version apidiscoveryv2.APIVersionDiscovery) {
	if group == fleetv1alpha1.GroupName {
		for i := range version.Resources {
			if version.Resources[i].Resource == fleetv1alpha1.ResourcePluralExplanation {
				version.Resources[i].Verbs = []string{"create"}
			}
		}
	}
	a.ResourceManager.AddGroupVersion(group, version)
}
