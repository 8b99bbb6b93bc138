package enroll

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"

	"k8s.io/client-go/rest"
)

// TestTheEnvironmentNamesNoProxyOfAMember: join and unjoin reach a member the way the control plane does.
func TestTheEnvironmentNamesNoProxyOfAMember(t *testing.T) {
	named := &url.URL{Scheme: "http", Host: "proxy:3128"}
	for name, tc := range map[string]struct {
		config *rest.Config
		want   *url.URL
	}{
		"no proxy-url": {&rest.Config{Host: "https://10.0.0.1"}, nil},
		"proxy-url":    {&rest.Config{Host: "https://10.0.0.1", Proxy: http.ProxyURL(named)}, named},
	} {
		t.Run(name, func(t *testing.T) {
			// For client-go, no function means the proxy of the environment.
			for what, config := range map[string]*rest.Config{
				"client": membership.WithTimeout(membership.Direct(tc.config)), "token": rest.AnonymousClientConfig(membership.WithTimeout(membership.Direct(tc.config))),
			} {
				if config.Proxy == nil {
					t.Fatalf("%s: the proxy is that of the environment", what)
				}
				got, err := config.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "10.0.0.1"}})
				if err != nil || (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
					t.Errorf("%s: got %v, %v, want %v", what, got, err, tc.want)
				}
			}
		})
	}
}
