package webhooks

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// Admission has the admission plugins that call webhooks use Within, and call those of services only.
func Admission(rules dial.Rules, services *Services) admission.Decorator {
	return admission.DecoratorFunc(func(plugin admission.Interface, _ string) admission.Interface {
		if calls, ok := plugin.(initializer.WantsAuthenticationInfoResolverWrapper); ok {
			calls.SetAuthenticationInfoResolverWrapper(Within(rules, services.only))
		}
		if calls, ok := plugin.(initializer.WantsServiceResolver); ok {
			calls.SetServiceResolver(services)
		}
		return plugin
	})
}

// only has webhooks of Services answered here that are in members.
func (s *Services) only(resolver webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	return &webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: resolver.ClientConfigFor,
		ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
			config, err := resolver.ClientConfigForService(name, namespace, port)
			if err != nil || isAPIServer(namespace, name) {
				return config, err
			}
			config = rest.CopyConfig(config)
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return calls{next, s, namespace, name} })
			return config, nil
		},
	}
}

// isAPIServer returns whether a Service is that of the API server itself.
func isAPIServer(namespace, name string) bool {
	return name == "kubernetes" && namespace == metav1.NamespaceDefault
}

// Within has webhooks called at addresses that the rules allow, also those of a Service: who writes its endpoints chooses them. The Service
// of the API server itself is called as Kubernetes does.
func Within(rules dial.Rules, wrap webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return func(resolver webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		if wrap != nil {
			resolver = wrap(resolver)
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				return dialing(rules)(resolver.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				config, err := resolver.ClientConfigForService(name, namespace, port)
				if isAPIServer(namespace, name) {
					return config, err
				}
				return dialing(rules)(config, err)
			},
		}
	}
}

// dialing returns a configuration that others may use with another way to connect.
func dialing(rules dial.Rules) func(*rest.Config, error) (*rest.Config, error) {
	return func(config *rest.Config, err error) (*rest.Config, error) {
		if err != nil {
			return nil, err
		}
		config = rest.CopyConfig(config)
		config.Dial = rules.DialContext
		return config, nil
	}
}
