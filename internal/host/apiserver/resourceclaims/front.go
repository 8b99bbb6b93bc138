package resourceclaims

import (
	"net/http"
	"strings"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// root is where the group version is served.
var root = "/apis/" + v1alpha2.GroupVersion.String()

// InFront lets the server of the group version answer what is below its root, and the local servers everything else.
// A chain of servers cannot: whichever comes first takes the whole group for itself.
func InFront(local genericapiserver.DelegationTarget, claims *genericapiserver.GenericAPIServer) genericapiserver.DelegationTarget {
	return front{DelegationTarget: local, claims: claims.UnprotectedHandler()}
}

type front struct {
	genericapiserver.DelegationTarget
	claims http.Handler
}

// UnprotectedHandler serves requests that are authenticated and authorized already.
func (f front) UnprotectedHandler() http.Handler {
	others := f.DelegationTarget.UnprotectedHandler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == root || strings.HasPrefix(r.URL.Path, root+"/") {
			f.claims.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}
