package questions

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/questions/slots"
)

// root is where the group is served.
var root = "/apis/" + fleetv1alpha1.GroupVersion.String() + "/"

// New builds the server of the kinds. Requests reach it only through InFront.
func New(host native.Host, answers Answers) (*genericapiserver.GenericAPIServer, error) {
	scheme := runtime.NewScheme()
	if err := fleetv1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering questions: %w", err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config := host.Config
	host.Describe(&config, "Questions", scheme, definitions, definitions)
	// What this server would announce would hide the other kinds of the group.
	config.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	server, err := host.Server("question-apiserver", config, genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	storages := map[string]rest.Storage{}
	for _, k := range answers.kinds() {
		scheme.AddKnownTypes(schema.GroupVersion{Group: fleetv1alpha1.GroupName, Version: runtime.APIVersionInternal}, k.empty())
		storages[k.plural] = &storage{kind: k, authorizer: config.Authorization.Authorizer, slots: slots.New(k.each, k.all)}
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(fleetv1alpha1.GroupName, scheme, runtime.NewParameterCodec(scheme), serializer.NewCodecFactory(scheme))
	group.VersionedResourcesStorageMap[fleetv1alpha1.GroupVersion.Version] = storages
	group.NegotiatedSerializer = native.WithoutProtobuf{NegotiatedSerializer: group.NegotiatedSerializer}
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("installing questions: %w", err)
	}
	return server, nil
}

// definitions has the kinds without their fields: the documents that clients read are made of the custom resource definitions. The kind
// in the extension is where the server finds the definition when it tracks field managers.
func definitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := map[string]common.OpenAPIDefinition{}
	for _, k := range (Answers{}).kinds() {
		object := new(spec.Schema).Typed("object", "").WithDescription(k.kind + " is a question about an object.")
		object.AddExtension("x-kubernetes-preserve-unknown-fields", true)
		object.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
			"group": fleetv1alpha1.GroupName, "version": fleetv1alpha1.GroupVersion.Version, "kind": k.kind,
		}})
		all[util.GetCanonicalTypeName(k.empty())] = common.OpenAPIDefinition{Schema: *object}
	}
	return all
}

// InFront lets the server of questions answer what is below the paths of its kinds, and the local servers everything else.
func InFront(local genericapiserver.DelegationTarget, questions *genericapiserver.GenericAPIServer) genericapiserver.DelegationTarget {
	return front{DelegationTarget: local, questions: questions.UnprotectedHandler(), plurals: plurals()}
}

// plurals are the resources of the kinds.
func plurals() sets.Set[string] {
	all := sets.New[string]()
	for _, k := range (Answers{}).kinds() {
		all.Insert(k.plural)
	}
	return all
}

type front struct {
	genericapiserver.DelegationTarget
	questions http.Handler
	plurals   sets.Set[string]
}

// UnprotectedHandler serves requests that are authenticated and authorized already.
func (f front) UnprotectedHandler() http.Handler {
	others := f.DelegationTarget.UnprotectedHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if below, ok := strings.CutPrefix(r.URL.Path, root); ok {
			if resource, _, _ := strings.Cut(below, "/"); f.plurals.Has(resource) {
				f.questions.ServeHTTP(w, r)
				return
			}
		}
		others.ServeHTTP(w, r)
	})
}

// OnlyCreate makes discovery announce of the kinds what is possible: a custom resource has all verbs, and upstream's controllers of
// garbage and namespaces list and watch whatever has them.
func OnlyCreate(group string, version *apidiscoveryv2.APIVersionDiscovery) {
	if group != fleetv1alpha1.GroupName {
		return
	}
	answered := plurals()
	for i := range version.Resources {
		if answered.Has(version.Resources[i].Resource) {
			version.Resources[i].Verbs = []string{"create"}
		}
	}
}
