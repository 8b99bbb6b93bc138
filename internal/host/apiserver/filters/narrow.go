package filters

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/endpoints/request"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// Narrow restricts two requests of a karmada-agent, which it cannot do without, to objects of its own: it lists and watches all Clusters,
// and the Services of all namespaces. It receives its Cluster and the Services of its execution namespace, which has none.
func Narrow(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if selector := narrowed(r); selector != "" {
			r = r.Clone(r.Context())
			query := r.URL.Query()
			// What follows the first term of a selector can only select less.
			if own := query.Get("fieldSelector"); own != "" {
				selector += "," + own
			}
			query.Set("fieldSelector", selector)
			r.URL.RawQuery = query.Encode()
		}
		next.ServeHTTP(w, r)
	})
}

// narrowed returns the field selector that a request has to have, "" for none.
func narrowed(r *http.Request) string {
	who, known := request.UserFrom(r.Context())
	info, parsed := request.RequestInfoFrom(r.Context())
	if !known || !parsed || !slices.Contains([]string{"list", "watch"}, info.Verb) || info.Subresource != "" {
		return ""
	}
	cluster, agent := clusterv1alpha1.ClusterOfKarmadaAgent(who.GetName(), who.GetGroups())
	switch {
	case !agent:
		return ""
	case info.APIGroup == clusterv1alpha1.GroupName && info.Resource == clusterv1alpha1.ResourcePluralCluster:
		return fields.OneTermEqualSelector("metadata.name", cluster).String()
	case info.APIGroup == "" && info.Resource == "services" && info.Namespace == "":
		return fields.OneTermEqualSelector("metadata.namespace", workv1alpha1.ExecutionNamespace(cluster)).String()
	default:
		return ""
	}
}
