package extensions

import (
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
)

// path is that of the collection of APIServices.
const path = "/apis/apiregistration.k8s.io/v1/apiservices"

// OnlyLocal returns a configuration whose clients list and watch only APIServices that this server registered. Routes, discovery and
// conditions are made from what the aggregator's informer has, so none of them has those of users.
func OnlyLocal(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return onlyLocal{next} })
	return config
}

type onlyLocal struct{ http.RoundTripper }

// RoundTrip adds a selector to a list or watch.
func (o onlyLocal) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.URL.Path == path {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("labelSelector", autoregister.AutoRegisterManagedLabel)
		r.URL.RawQuery = query.Encode()
	}
	return o.RoundTripper.RoundTrip(r)
}
