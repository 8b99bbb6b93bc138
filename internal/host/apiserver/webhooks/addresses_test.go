package webhooks_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
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

// TestWebhooksInMembersAllow: whether a Service has an EndpointSlice decides, at each request, and only when these are known.
func TestWebhooksInMembersAllow(t *testing.T) {
	client := fake.NewClientset(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "hook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}}})
	factory := informers.NewSharedInformerFactory(client, 0)
	services := &webhooks.Services{}
	plugin := &serviceCaller{}
	webhooks.Admission(dial.Rules{AllowLoopback: true}, services).Decorate(plugin, "any")
	reached := errors.New("it is called")
	call := func(namespace, name string) (string, error) {
		config, err := plugin.resolver.ClientConfigForService(name, namespace, 443)
		if err != nil {
			t.Fatal(err)
		}
		config.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, reached }
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Post("http://hook", "application/json", strings.NewReader(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u"}}`))
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(answer.Body)
		return string(body), errors.Join(err, answer.Body.Close())
	}
	if _, err := services.ResolveEndpoint("mon", "hook", 443); err == nil {
		t.Error("a Service is found before it is known which there are")
	}
	if _, err := call("mon", "hook"); !errors.Is(err, reached) {
		t.Errorf("before it is known which there are: %v", err)
	}
	services.Read(factory, resolver(reached.Error()))
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	got, err := call("mon", "hook")
	if want := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u","allowed":true}}`; err != nil || got != want {
		t.Errorf("in members only: %s, %v", got, err)
	}
	if address, err := services.ResolveEndpoint("mon", "hook", 443); err != nil || address.Host != "hook.mon.svc:443" {
		t.Errorf("its address is %v, %v", address, err)
	}
	for _, service := range [][2]string{{"here", "hook"}, {"default", "kubernetes"}} {
		if _, err := services.ResolveEndpoint(service[0], service[1], 443); err == nil || err.Error() != reached.Error() {
			t.Errorf("the address of %s: %v", service, err)
		}
		if _, err := call(service[0], service[1]); !errors.Is(err, reached) {
			t.Errorf("%s: %v", service, err)
		}
	}
}

// resolver is one that finds nothing, with that error.
type resolver string

func (r resolver) ResolveEndpoint(string, string, int32) (*url.URL, error) {
	return nil, errors.New(string(r))
}

type serviceCaller struct {
	admission.Interface
	resolver webhook.AuthenticationInfoResolver
}

func (c *serviceCaller) SetAuthenticationInfoResolverWrapper(wrapper webhook.AuthenticationInfoResolverWrapper) {
	c.resolver = wrapper(&webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return &rest.Config{}, nil },
	})
}

func (*serviceCaller) ValidateInitialization() error { return nil }

func (*caller) ValidateInitialization() error { return nil }

func TestAdmissionPluginsObeyTheRules(t *testing.T) {
	plugin := &caller{}
	if got := webhooks.Admission(dial.Rules{}, &webhooks.Services{}).Decorate(plugin, "any"); got != admission.Interface(plugin) || plugin.config == nil || plugin.config.Dial == nil {
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
