package clusters

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const dryRunParameter = "dryRun"

// wholeQuery is the key of the query of a request to a member, in its context.
type wholeQuery struct{}

// PassDryRun lets dry runs in members pass. The handler of a subresource that connects refuses every request with the parameter, since
// it could not honour it; here the member does. The parameter is taken out of the URL and kept in the context, from which [queryOf] has
// the whole query of what is forwarded.
func PassDryRun(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if info, ok := request.RequestInfoFrom(r.Context()); ok && isProxy(info) && query.Has(dryRunParameter) {
			whole := r.URL.RawQuery
			r = r.Clone(context.WithValue(r.Context(), wholeQuery{}, whole))
			query.Del(dryRunParameter)
			r.URL.RawQuery = query.Encode()
		}
		next.ServeHTTP(w, r)
	})
}

func isProxy(info *request.RequestInfo) bool {
	return info.IsResourceRequest && info.APIGroup == clusterv1alpha1.GroupName && info.Resource == clusterv1alpha1.ResourcePluralCluster && info.Subresource == "proxy"
}

// queryOf is the query of a request to a member as the client sent it.
func queryOf(r *http.Request) string {
	if whole, ok := r.Context().Value(wholeQuery{}).(string); ok {
		return whole
	}
	return r.URL.RawQuery
}
