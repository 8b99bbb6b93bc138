package attacks_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// eventOf is an Event of the core group about nothing.
func eventOf(ns, name string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: name},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: ns, Name: "any"},
		Type:           corev1.EventTypeNormal, Reason: "Flood", Message: "nothing",
	}
}

// floodEvents creates Events until one is refused, many at a time: ten are allowed each second, and a slow server does not answer more to
// a client that waits for each answer.
func floodEvents(t *testing.T, create func(i int) error) {
	t.Helper()
	var refused atomic.Bool
	var flood errgroup.Group
	for first := range 20 {
		flood.Go(func() error {
			for i := first; i < 2000 && !refused.Load(); i += 20 {
				err := create(i)
				switch {
				case apierrors.IsTooManyRequests(err):
					refused.Store(true)
				case err != nil:
					return err
				}
			}
			return nil
		})
	}
	if err := flood.Wait(); err != nil {
		t.Fatal(err)
	}
	if !refused.Load() {
		t.Error("2000 Events were stored")
	}
}

// TestAFloodOfEvents writes Events without end, in either group that serves them.
func TestAFloodOfEvents(t *testing.T) {
	fleet := shared.Start(t)
	ns, second, other := fleet.Namespace(t), fleet.Namespace(t), fleet.Namespace(t)
	config := rest.CopyConfig(fleet.Hub.Tenant(t, second, "events").Config)
	config.QPS = -1
	grouped, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	floodEvents(t, func(i int) error {
		_, err := grouped.EventsV1().Events(second).Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: second, Name: fmt.Sprintf("flood-%d", i)}, EventTime: metav1.NowMicro(),
			ReportingController: "example.com/flood", ReportingInstance: "flood", Action: "Flood", Reason: "Flood", Type: corev1.EventTypeNormal,
			Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: second, Name: "any"},
		}, metav1.CreateOptions{})
		return err
	})

	tenant, neighbour := fleet.Hub.Tenant(t, ns, "events"), fleet.Hub.Tenant(t, other, "events")
	floodEvents(t, func(i int) error { return tenant.Create(t.Context(), eventOf(ns, fmt.Sprintf("flood-%d", i))) })
	if err := neighbour.Create(t.Context(), eventOf(other, "own")); err != nil {
		t.Errorf("the Event of another tenant is refused: %v", err)
	}
	// What the control plane says about the same namespace is stored.
	cm := fleettest.ConfigMap(ns, "template", nil)
	fleettest.Create(t, fleet.Hub, cm, fleettest.Policy(ns, "policy", fleettest.To("member1"), cm))
	expectEvent(t, fleet.Hub, ns, events.ScheduleBindingSucceed)
}

// TestAFloodOfRequests has one tenant send as many requests as it can. Another tenant and the control plane go on.
func TestAFloodOfRequests(t *testing.T) {
	fleet := shared.Start(t)
	ns, other := fleet.Namespace(t), fleet.Namespace(t)
	attacker := fleet.Hub.Tenant(t, ns, "configmaps")
	neighbour := fleet.Hub.Tenant(t, other, "configmaps", "propagationpolicies")
	for i := range 20 {
		fleettest.Create(t, attacker, fleettest.ConfigMap(ns, fmt.Sprintf("large-%d", i), map[string]string{"payload": strings.Repeat("x", 100_000)}))
	}

	ctx, cancel := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	defer flood.Wait()
	defer cancel()
	config := rest.CopyConfig(attacker.Config)
	config.QPS = -1
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSuffix(config.Host, "/") + "/api/v1/namespaces/" + ns + "/configmaps"
	flowSchemas := make(chan string, 1)
	for range 200 {
		flood.Go(func() {
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return
				}
				response, err := httpClient.Do(request)
				if err != nil {
					continue // cancelled, or turned away
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusOK {
					continue // turned away, maybe before a FlowSchema was chosen
				}
				select {
				case flowSchemas <- response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID):
				default:
				}
			}
		})
	}
	matched := <-flowSchemas // the flood has begun
	var schema flowcontrolv1.FlowSchema
	if err := fleet.Hub.Get(t.Context(), client.ObjectKey{Name: "global-default"}, &schema); err != nil {
		t.Fatal(err)
	}
	if matched != string(schema.UID) {
		t.Errorf("the requests of a tenant belong to the FlowSchema with uid %q, not to global-default", matched)
	}
	if m := schema.Spec.DistinguisherMethod; m == nil || m.Type != flowcontrolv1.FlowDistinguisherMethodByUserType {
		t.Errorf("users are not distinguished: %+v", m)
	}
	cm := fleettest.ConfigMap(other, "own", nil)
	fleettest.Create(t, neighbour, cm, fleettest.Policy(other, "policy", fleettest.To("member1"), cm))
	fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.ConfigMap(other, "own", nil), fleettest.Exists)
}
