package resources

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	searchv1alpha1 "github.com/flagship-k8s/flagship/api/search/v1alpha1"
)

// Path is where discovery lists the resources of the group.
const Path = "/apis/search.karmada.io/v1alpha1"

// connected are the resources to which clients connect, as discovery of Karmada lists them: cluster-scoped, without verbs, since they
// have no objects of their own. What follows their names in a path is no resource to Karmada's server, so that it lists no subresources.
func connected() []metav1.APIResource {
	return []metav1.APIResource{
		{Name: "proxying", SingularName: "proxying", Kind: "Proxying", Verbs: metav1.Verbs{}},
		{Name: "search", SingularName: "search", Kind: "Search", Verbs: metav1.Verbs{}},
	}
}

// Announce has the discovery of all groups list the resources.
func Announce(group string, version *apidiscoveryv2.APIVersionDiscovery) {
	if group != searchv1alpha1.GroupName || version.Version != searchv1alpha1.GroupVersion.Version {
		return
	}
	version.Resources = slices.Clone(version.Resources)
	for _, r := range connected() {
		version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: r.Name, SingularResource: r.SingularName, Scope: apidiscoveryv2.ScopeCluster, Verbs: r.Verbs,
			ResponseKind: &metav1.GroupVersionKind{Group: group, Version: version.Version, Kind: r.Kind},
		})
	}
}

// Serve has the discovery of the group list the resources, beside the custom resource, which others lists.
func Serve(w http.ResponseWriter, r *http.Request, others http.Handler) {
	asked := r.Clone(r.Context())
	asked.Header.Set("Accept", "application/json")
	found := &recorded{header: http.Header{}, code: http.StatusOK}
	others.ServeHTTP(found, asked)
	var list metav1.APIResourceList
	if found.code != http.StatusOK || json.Unmarshal(found.body.Bytes(), &list) != nil { // the definition is not served yet
		others.ServeHTTP(w, r)
		return
	}
	all := append(list.APIResources, connected()...)
	discovery.NewAPIVersionHandler(scheme.Codecs, searchv1alpha1.GroupVersion,
		discovery.APIResourceListerFunc(func() []metav1.APIResource { return all })).ServeHTTP(w, r)
}

// recorded is an answer that is kept in memory.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorded) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorded) WriteHeader(code int) { r.code = code }

// Write implements http.ResponseWriter.
func (r *recorded) Write(text []byte) (int, error) { return r.body.Write(text) }
