package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Resolve returns the address of a Service. The certificate is verified against the Service's DNS name, whatever the address is.
// It is a function because the API server has one for its own webhooks, which this package does not import.
type Resolve func(namespace, name string, port int32) (*url.URL, error)

// Dial opens a connection to a webhook, or to the proxy that the environment names for it. It is a function because the rules for addresses are
// those of members, which this package does not import.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Store is the layer of webhooks. Lookups never wait for a change.
type Store struct {
	resolve Resolve
	dial    Dial
	current atomic.Pointer[snapshot]
	// setting serializes changes; reading needs no lock.
	setting sync.Mutex
}

var (
	_ interpret.Layer      = (*Store)(nil)
	_ interpret.Changeable = (*Store)(nil)
)

// snapshot is one state of the configurations.
type snapshot struct {
	hooks []*hook
	// operations caches the operations by kind.
	operations sync.Map // schema.GroupVersionKind → *interpret.Operations
}

// New returns a store without webhooks. With a nil resolve, only webhooks that have a URL can be called. A nil dial connects to every address.
func New(resolve Resolve, dial Dial) *Store {
	s := &Store{resolve: resolve, dial: dial}
	s.current.Store(&snapshot{})
	return s
}

// Set replaces all configurations and returns the kinds whose webhooks changed, nil if there are none. Connections to webhooks
// that did not change are kept. A webhook that is configured wrongly fails at every call.
func (s *Store) Set(configurations []*configv1alpha1.ResourceInterpreterWebhookConfiguration) interpret.Kinds {
	s.setting.Lock()
	defer s.setting.Unlock()
	sorted := slices.Clone(configurations)
	slices.SortFunc(sorted, func(a, b *configv1alpha1.ResourceInterpreterWebhookConfiguration) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
	})
	old := map[string]*hook{}
	for _, h := range s.current.Load().hooks {
		old[h.fingerprint] = h
	}
	next := &snapshot{}
	var touched []*hook
	for _, configuration := range sorted {
		for i := range configuration.Webhooks {
			webhook := &configuration.Webhooks[i]
			fingerprint := fingerprintOf(configuration.Name, webhook)
			h := old[fingerprint]
			if h == nil {
				h = newHook(configuration.Name, webhook, s.resolve, s.dial)
				h.fingerprint = fingerprint
				touched = append(touched, h)
			}
			delete(old, fingerprint)
			next.hooks = append(next.hooks, h)
		}
	}
	s.current.Store(next)
	for _, h := range old {
		h.client.CloseIdleConnections()
		touched = append(touched, h)
	}
	if len(touched) == 0 {
		return nil
	}
	return func(kind schema.GroupVersionKind) bool {
		return slices.ContainsFunc(touched, func(h *hook) bool { return h.concerns(kind) })
	}
}

func fingerprintOf(configuration string, webhook *configv1alpha1.ResourceInterpreterWebhook) string {
	data, err := json.Marshal(webhook)
	if err != nil {
		return ""
	}
	return configuration + "/" + string(data)
}

// Lookup implements [interpret.Layer].
func (s *Store) Lookup(kind schema.GroupVersionKind) *interpret.Operations {
	present := s.current.Load()
	if len(present.hooks) == 0 {
		return nil
	}
	if known, ok := present.operations.Load(kind); ok {
		return known.(*interpret.Operations)
	}
	operations := operationsOf(present.hooks, kind)
	present.operations.Store(kind, operations)
	return operations
}

// Fingerprint implements [interpret.Changeable].
func (s *Store) Fingerprint(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) string {
	for _, h := range s.current.Load().hooks {
		if h.matches(operation, kind) {
			return h.fingerprint
		}
	}
	return ""
}

// concerns is true if a rule of the webhook has any operation on the kind.
func (h *hook) concerns(kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(h.rules, func(r configv1alpha1.RuleWithOperations) bool { return ruleMatches(r, kind) })
}

// matches is true if a rule of the webhook has the operation on the kind.
func (h *hook) matches(operation configv1alpha1.InterpreterOperation, kind schema.GroupVersionKind) bool {
	return slices.ContainsFunc(h.rules, func(r configv1alpha1.RuleWithOperations) bool {
		return oneOf(r.Operations, operation) && ruleMatches(r, kind)
	})
}

func ruleMatches(r configv1alpha1.RuleWithOperations, kind schema.GroupVersionKind) bool {
	return oneOf(r.APIGroups, kind.Group) && oneOf(r.APIVersions, kind.Version) && oneOf(r.Kinds, kind.Kind)
}

func oneOf[T ~string](list []T, value T) bool {
	return slices.Contains(list, "*") || slices.Contains(list, value)
}
