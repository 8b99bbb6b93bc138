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

// TestWebhooksObeyTheRulesForAddresses: neither the machine of the control plane nor its metadata service is called.
func TestWebhooksObeyTheRulesForAddresses(t *testing.T) {
	shared := &rest.Config{}
	resolver := webhooks.Within(dial.Rules{}, nil)(&webhook.AuthenticationInfoResolverDelegator{ClientConfigForFunc: func(string) (*rest.Config, error) { return shared, nil }})
	config, err := resolver.ClientConfigFor("hook.example.com:443")
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:443", "[::1]:443", "169.254.169.254:80", "localhost:443", "[::ffff:127.0.0.1]:443"} {
		conn, err := config.Dial(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		if _, refused := errors.AsType[*dial.AddressError](err); !refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	if shared.Dial != nil {
		t.Error("the configuration of others is changed")
	}
}
