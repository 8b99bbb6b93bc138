package versions

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/util/webhook"
)

// httpsPort is the port of a Service that does not name one.
const httpsPort = 443

// serviceKey is how a conversion webhook names a Service.
type serviceKey struct {
	namespace, name string
	port            int32
}

// Services are the addresses, as HOST:PORT, of Services that conversion webhooks name.
type Services map[serviceKey]string

// Resolver returns a resolver of these Services, which passes all others to the next one.
func (s Services) Resolver(next webhook.ServiceResolver) webhook.ServiceResolver {
	return fixedServices{s, next}
}

type fixedServices struct {
	addresses Services
	next      webhook.ServiceResolver
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (f fixedServices) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if address, ok := f.addresses[serviceKey{namespace, name, port}]; ok {
		return &url.URL{Scheme: "https", Host: address}, nil
	}
	return f.next.ResolveEndpoint(namespace, name, port)
}

// ParseServices reads NAMESPACE/NAME[:PORT] and HOST:PORT.
func ParseServices(texts map[string]string) (Services, error) {
	addresses := make(Services, len(texts))
	for service, address := range texts {
		key, err := parseService(service)
		if err != nil {
			return nil, fmt.Errorf("conversion service %q: %w", service, err)
		}
		if _, taken := addresses[key]; taken {
			return nil, fmt.Errorf("conversion service %q: it is given twice", service)
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil || host == "" {
			return nil, fmt.Errorf("conversion service %q: the address %q is not HOST:PORT", service, address)
		}
		if _, err := parsePort(port); err != nil {
			return nil, fmt.Errorf("conversion service %q: the address %q: %w", service, address, err)
		}
		addresses[key] = address
	}
	return addresses, nil
}

func parseService(text string) (serviceKey, error) {
	named, portText, hasPort := strings.Cut(text, ":")
	key := serviceKey{port: httpsPort}
	var ok bool
	key.namespace, key.name, ok = strings.Cut(named, "/")
	if !ok || len(validation.IsDNS1123Label(key.namespace)) > 0 || len(validation.IsDNS1123Label(key.name)) > 0 {
		return key, fmt.Errorf("%q is not NAMESPACE/NAME", named)
	}
	if !hasPort {
		return key, nil
	}
	port, err := parsePort(portText)
	key.port = port
	return key, err
}

func parsePort(text string) (int32, error) {
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("%q is not a port", text)
	}
	return int32(port), nil
}
