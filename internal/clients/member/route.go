package member

import (
	"errors"
	"maps"
	"net/http"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// address is where a Cluster can be reached, by its spec.
type address struct {
	endpoint    string
	proxy       string
	proxyHeader map[string]string
	insecure    bool
	id          string
}

func addressOf(cluster *clusterv1alpha1.Cluster) address {
	return address{
		endpoint:    cluster.Spec.APIEndpoint,
		proxy:       cluster.Spec.ProxyURL,
		proxyHeader: cluster.Spec.ProxyHeader,
		insecure:    cluster.Spec.InsecureSkipTLSVerification,
		id:          cluster.Spec.ID,
	}
}

func (a address) equal(b address) bool {
	return a.endpoint == b.endpoint && a.proxy == b.proxy && a.insecure == b.insecure && a.id == b.id && maps.Equal(a.proxyHeader, b.proxyHeader)
}

// route is an address made usable: a way to it that trusts what is at its end.
type route struct {
	address    address
	credential Credential // its tokens are of no interest here
	way        *dial.Way
}

// plan builds the route to an address with the trust of a credential. It does not connect.
func plan(a address, c Credential, rules dial.Rules) (*route, error) {
	target := dial.Target{
		Endpoint: a.endpoint, ProxyURL: a.proxy, ProxyHeader: a.proxyHeader, Insecure: a.insecure,
		CABundle: c.CABundle, Certificate: c.Certificate, Key: c.Key,
	}
	if c.Endpoint != "" {
		target.Endpoint = c.Endpoint
	}
	way, err := dial.NewWay(target, rules)
	if err != nil {
		return nil, err
	}
	return &route{address: a, credential: c, way: way}, nil
}

// leads returns whether the route still goes where it should.
func (r *route) leads(a address, c Credential) bool {
	return r != nil && r.address.equal(a) && r.credential.sameTrust(c)
}

// redirect turns a request for the member, whatever host it names, into one along the route.
func (r *route) redirect(req *http.Request) {
	to := r.way.URL
	req.URL.Scheme, req.URL.Host, req.Host = to.Scheme, to.Host, ""
	if to.Path != "" {
		req.URL.Path = to.Path + req.URL.Path
		if req.URL.RawPath != "" {
			req.URL.RawPath = to.EscapedPath() + req.URL.RawPath
		}
	}
}

// accessError gives an error of the way to a member the reason that the Cluster's Ready condition shows.
func accessError(err error) error {
	var address *dial.AddressError
	var identity *dial.IdentityError
	switch {
	case errors.As(err, &address):
		return &clusterv1alpha1.AccessError{Reason: clusterv1alpha1.EndpointNotAllowedReason, Message: address.Error()}
	case errors.As(err, &identity):
		return &clusterv1alpha1.AccessError{Reason: clusterv1alpha1.ClusterIDMismatchReason, Message: identity.Error()}
	case errors.Is(err, dial.ErrMayNotIdentify):
		return &clusterv1alpha1.AccessError{Reason: clusterv1alpha1.CredentialsLackRightsReason, Message: dial.ErrMayNotIdentify.Error()}
	}
	return err
}
