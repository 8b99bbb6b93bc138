package webhooks_test

import (
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/webhooks"
)

// caller is an admission plugin that calls webhooks.
type caller struct {
	admission.Interface
	config *rest.Config
}

func (c *caller) SetAuthenticationInfoResolverWrapper(wrapper webhook.AuthenticationInfoResolverWrapper) {
	c.config, _ = wrapper(&webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(string) (*rest.Config, error) { return &rest.Config{}, nil },
	}).ClientConfigFor("hook.example.com:443")
}

func (*caller) ValidateInitialization() error { return nil }

func TestAdmissionPluginsObeyTheRules(t *testing.T) {
	plugin := &caller{}
	if got := webhooks.Admission(dial.Rules{}).Decorate(plugin, "any"); got != admission.Interface(plugin) || plugin.config == nil || plugin.config.Dial == nil {
		t.Errorf("the plugin is %v", got)
	}
}

// TestWebhooksObeyTheRulesForAddresses: neither the machine of the control plane nor its metadata service is called, whether a URL names it or
// who writes the endpoints of a Service.
func TestWebhooksObeyTheRulesForAddresses(t *testing.T) {
	shared := &rest.Config{}
	resolver := webhooks.Within(dial.Rules{Named: []string{"127.0.0.1:1"}}, nil)(&webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc:        func(string) (*rest.Config, error) { return shared, nil },
		ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return shared, nil },
	})
	byURL, err := resolver.ClientConfigFor("hook.example.com:443")
	if err != nil {
		t.Fatal(err)
	}
	byService, err := resolver.ClientConfigForService("hook", "shop", 443)
	if err != nil {
		t.Fatal(err)
	}
	for by, config := range map[string]*rest.Config{"URL": byURL, "Service": byService} {
		for address, allowed := range map[string]bool{
			"127.0.0.1:443": false, "[::1]:443": false, "169.254.169.254:80": false, "localhost:443": false, "[::ffff:127.0.0.1]:443": false,
			"127.0.0.1:1": true, // nothing listens there
		} {
			conn, err := config.Dial(t.Context(), "tcp", address)
			if err == nil {
				_ = conn.Close()
			}
			if _, refused := errors.AsType[*dial.AddressError](err); refused == allowed {
				t.Errorf("%s, by %s: %v", address, by, err)
			}
		}
	}
	if shared.Dial != nil {
		t.Error("the configuration of others is changed")
	}
	if own, err := resolver.ClientConfigForService("kubernetes", "default", 443); err != nil || own != shared {
		t.Errorf("the API server itself: %v, %v", own, err)
	}
}
