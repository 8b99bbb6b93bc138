package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/plugin/pkg/admission/eventratelimit"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// eventLimits bound the Events that users write: in one namespace, and in all namespaces by one user. agentEventLimits bound those of one agent:
// agents share no namespace with users, but they share one with each other, where one of them would suppress the Events of all.
func eventLimits() string {
	return limits(limitOf("Namespace", bounds.EventsPerSecond, bounds.EventsBurst), limitOf("User", bounds.UserEventsPerSecond, bounds.UserEventsBurst))
}

func agentEventLimits() string {
	return limits(limitOf("User", bounds.AgentEventsPerSecond, bounds.AgentEventsBurst))
}

// limits is a configuration of the plugin of Kubernetes.
func limits(each ...string) string {
	return "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits:\n" + strings.Join(each, "")
}

// limitOf is one limit. Of 4096 namespaces or users the limiters are kept in memory.
func limitOf(kind string, perSecond, burst int) string {
	return fmt.Sprintf("- {type: %s, qps: %d, burst: %d, cacheSize: 4096}\n", kind, perSecond, burst)
}

// eventRateLimit is Kubernetes' EventRateLimit with three differences. Each agent has a limit of its own, and counts for none of a namespace. It counts Events of the group events.k8s.io too, which
// the plugin of Kubernetes lets pass. It does not count Events of the control plane itself: a user who exhausts the limit of
// a namespace would suppress them, and the recorder of the control plane deduplicates and bounds them already.
type eventRateLimit struct {
	admission.ValidationInterface
	agents admission.ValidationInterface
}

func newEventRateLimit() (*eventRateLimit, error) {
	users, err := rateLimit(eventLimits())
	if err != nil {
		return nil, err
	}
	agents, err := rateLimit(agentEventLimits())
	return &eventRateLimit{users, agents}, err
}

func rateLimit(limits string) (admission.ValidationInterface, error) {
	plugins := admission.NewPlugins()
	eventratelimit.Register(plugins)
	plugin, err := plugins.InitPlugin(eventratelimit.PluginName, strings.NewReader(limits), admission.PluginInitializers{})
	if err != nil {
		return nil, fmt.Errorf("limiting the rate of Events: %w", err)
	}
	limit, ok := plugin.(admission.ValidationInterface)
	if !ok {
		return nil, fmt.Errorf("limiting the rate of Events: %T does not validate", plugin)
	}
	return limit, nil
}

// Validate refuses an Event when its namespace or its user has written too many. The answer has the time after which to try again.
func (l *eventRateLimit) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if a.GetKind().Kind != "Event" || slices.Contains(a.GetUserInfo().GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	if slices.Contains(a.GetUserInfo().GetGroups(), clusterv1alpha1.AgentsGroup) {
		return l.agents.Validate(ctx, coreEvent{a}, o)
	}
	return l.ValidationInterface.Validate(ctx, coreEvent{a}, o)
}

// coreEvent is a request for an Event, as a request of the core group.
type coreEvent struct{ admission.Attributes }

// GetKind is the kind in the core group, which has the internal type of both groups.
func (e coreEvent) GetKind() schema.GroupVersionKind {
	kind := e.Attributes.GetKind()
	if kind.Group == "events.k8s.io" {
		kind.Group = ""
	}
	return kind
}
