package webhooks

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// Admission has the admission plugins that call webhooks use Within.
func Admission(rules dial.Rules) admission.Decorator {
	return admission.DecoratorFunc(func(plugin admission.Interface, _ string) admission.Interface {
		if calls, ok := plugin.(initializer.WantsAuthenticationInfoResolverWrapper); ok {
			calls.SetAuthenticationInfoResolverWrapper(Within(rules, nil))
		}
		return plugin
	})
}

// Within has webhooks with a URL called at addresses that the rules allow. Services are called as the resolver finds them.
func Within(rules dial.Rules, wrap webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return func(resolver webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		if wrap != nil {
			resolver = wrap(resolver)
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				config, err := resolver.ClientConfigFor(hostPort)
				if err != nil {
					return nil, err
				}
				config = rest.CopyConfig(config) // it may be one that others use
				config.Dial = rules.DialContext
				return config, nil
			},
			ClientConfigForServiceFunc: resolver.ClientConfigForService,
		}
	}
}
