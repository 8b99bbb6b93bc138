package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
	defaultTimeout = 10 * time.Second
	minTimeout     = time.Second
	maxTimeout     = 30 * time.Second
	idleTime       = 90 * time.Second
	idleLimit      = 8
)

// hook is one webhook of one configuration.
type hook struct {
	// name is that of the configuration and that of the webhook, for errors.
	name        string
	fingerprint string
	rules       []configv1alpha1.RuleWithOperations
	timeout     time.Duration
	client      *http.Client
	// address returns the URL for one call; that of a Service may change.
	address func() (*url.URL, error)
	// err is what is wrong with the configuration.
	err error
}

func newHook(configuration string, webhook *configv1alpha1.ResourceInterpreterWebhook, resolve Resolve, dial Dial) *hook {
	h := &hook{
		name:    configuration + "/" + webhook.Name,
		rules:   webhook.Rules,
		timeout: defaultTimeout,
		client:  &http.Client{Transport: &http.Transport{}},
	}
	if seconds := webhook.TimeoutSeconds; seconds != nil {
		h.timeout = min(max(time.Duration(*seconds)*time.Second, minTimeout), maxTimeout)
	}
	if versions := webhook.InterpreterContextVersions; !slices.Contains(versions, configv1alpha1.GroupVersion.Version) {
		h.err = fmt.Errorf("it accepts versions %q, not %s", versions, configv1alpha1.GroupVersion.Version)
		return h
	}
	h.err = h.connect(&webhook.ClientConfig, resolve, dial)
	return h
}

// connect prepares the client and the address.
func (h *hook) connect(config *admissionregistrationv1.WebhookClientConfig, resolve Resolve, dial Dial) error {
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(config.CABundle) > 0 {
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM(config.CABundle) {
			return errors.New("its caBundle holds no certificate")
		}
	}
	transport := &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     security,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     idleTime,
		MaxIdleConnsPerHost: idleLimit,
	}
	h.client.Transport = transport
	h.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	switch {
	case config.URL != nil && config.Service != nil:
		return errors.New("it has both a url and a service")
	case config.URL != nil:
		transport.Proxy = http.ProxyFromEnvironment
		return h.fixed(*config.URL)
	case config.Service != nil:
		security.ServerName = config.Service.Name + "." + config.Service.Namespace + ".svc"
		return h.service(config.Service, resolve)
	default:
		return errors.New("it has neither a url nor a service")
	}
}

func (h *hook) fixed(text string) error {
	address, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("reading its url: %w", err)
	}
	if address.Scheme != "https" || address.Host == "" {
		return fmt.Errorf("its url %q is not one of https", text)
	}
	h.address = func() (*url.URL, error) { return address, nil }
	return nil
}

func (h *hook) service(service *admissionregistrationv1.ServiceReference, resolve Resolve) error {
	if resolve == nil {
		return errors.New("services cannot be resolved here, give it a url")
	}
	port := int32(443)
	if service.Port != nil {
		port = *service.Port
	}
	h.address = func() (*url.URL, error) {
		address, err := resolve(service.Namespace, service.Name, port)
		if err != nil {
			return nil, fmt.Errorf("resolving service %s/%s: %w", service.Namespace, service.Name, err)
		}
		if service.Path != nil {
			copied := *address
			copied.Path = *service.Path
			address = &copied
		}
		return address, nil
	}
	return nil
}

// call posts a request and returns the response if it is successful.
func (h *hook) call(ctx context.Context, request *configv1alpha1.ResourceInterpreterRequest) (*configv1alpha1.ResourceInterpreterResponse, error) {
	defer controlloop.Pause(ctx)()
	response, err := h.exchange(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("calling webhook %s: %w", h.name, err)
	}
	return response, nil
}

func (h *hook) exchange(ctx context.Context, request *configv1alpha1.ResourceInterpreterRequest) (*configv1alpha1.ResourceInterpreterResponse, error) {
	if h.err != nil {
		return nil, h.err
	}
	request.UID = uuid.NewUUID()
	body, err := json.Marshal(&configv1alpha1.ResourceInterpreterContext{
		TypeMeta: metav1.TypeMeta{
			APIVersion: configv1alpha1.GroupVersion.String(), Kind: "ResourceInterpreterContext",
		},
		Request: request,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	answer, err := h.post(ctx, body)
	if err != nil {
		return nil, err
	}
	context := configv1alpha1.ResourceInterpreterContext{}
	if err := json.Unmarshal(answer, &context); err != nil {
		return nil, fmt.Errorf("decoding the response: %w", err)
	}
	response := context.Response
	switch {
	case response == nil:
		return nil, errors.New("the context has no response")
	case response.UID != request.UID:
		return nil, fmt.Errorf("the response is for request %q, not %q", response.UID, request.UID)
	case !response.Successful && response.Status != nil:
		return nil, fmt.Errorf("it failed with code %d: %s", response.Status.Code, response.Status.Message)
	case !response.Successful:
		return nil, errors.New("it failed without giving a reason")
	}
	return response, nil
}

func (h *hook) post(ctx context.Context, body []byte) ([]byte, error) {
	address, err := h.address()
	if err != nil {
		return nil, err
	}
	target := *address
	query := target.Query()
	query.Set("timeout", h.timeout.String())
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := h.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, bounds.MaxResponseBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it responds with %s", response.Status)
	}
	if len(answer) > bounds.MaxResponseBytes {
		return nil, fmt.Errorf("its response is longer than %d bytes", bounds.MaxResponseBytes)
	}
	return answer, nil
}
