package search

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/search/merge"
)

// Everywhere serves clusters/*/proxy/PATH: it answers with the objects of all these clusters in one list, with the one object of a name, or
// with the log of a pod. The caller has the right to the proxy of each of the clusters. What is no object, such as discovery, is that of
// the control plane, so that kubectl can have the path as its server.
func (s *Server) Everywhere(path string, clusters []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.everywhere(w, r, path, clusters); err != nil {
			fail(w, err)
		}
	})
}

func (s *Server) everywhere(w http.ResponseWriter, r *http.Request, path string, clusters []string) error {
	c := &call{Server: s, request: r, writer: w, path: "/" + strings.TrimPrefix(path, "/"), plain: true, clusters: map[string][]string{}}
	var ok bool
	if c.caller, ok = request.UserFrom(r.Context()); !ok {
		return apierrors.NewInternalError(errors.New("no user found for the request"))
	}
	var err error
	if c.info, err = parse(r, c.path); err != nil {
		return err
	}
	if !c.info.IsResourceRequest && r.Method == http.MethodGet {
		c.forward(c.path)
		return nil
	}
	if c.accept, err = merge.Readable(r.Header.Values("Accept")); err != nil {
		return err
	}
	for _, cluster := range clusters {
		c.clusters[cluster] = nil
	}
	object := c.isObject()
	switch {
	case c.info.IsResourceRequest && object && c.info.Verb == "list":
		return c.bounded(r.Context(), c.list)
	case c.info.IsResourceRequest && object && c.info.Verb == "get":
		return c.bounded(r.Context(), c.get)
	case c.info.IsResourceRequest && c.info.Subresource == "log" && c.info.Verb == "get":
		return c.bounded(r.Context(), c.toOwner)
	}
	return apierrors.NewMethodNotSupported(clusterv1alpha1.Resource(clusterv1alpha1.ResourcePluralCluster+"/proxy"),
		fmt.Sprintf("%s %s in all clusters (only objects can be read there, name a cluster)", r.Method, c.path))
}
