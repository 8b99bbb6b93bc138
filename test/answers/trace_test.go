package answers_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// receiver takes spans by OTLP, as a collector does.
type receiver struct {
	collectorv1.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*tracev1.Span
}

// Export implements the service.
func (r *receiver) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				s.Attributes = append(s.Attributes, resource.Resource.Attributes...) // which process it is from
			}
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// received returns all spans so far.
func (r *receiver) received() []*tracev1.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

func startReceiver(t *testing.T) (*receiver, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, server := &receiver{}, grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, r)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r, listener.Addr().String()
}

// TestTraces: of one object, the request of the user, the reconcile of each stage and the write to the member are spans, which the binding and
// the traces lead to. Those of an agent are among them.
func TestTraces(t *testing.T) {
	spans, address := startReceiver(t)
	config := filepath.Join(t.TempDir(), "tracing.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: " + address + "\nsamplingRatePerMillion: 1000000\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	hub := fleettest.StartHub(t, "--enable-bootstrap-token-auth", "--tracing-config-file", config)
	member := fleettest.StartMember(t, "member1")
	hub.Join(t, "member1", member.Kubeconfig)
	far := fleettest.StartMember(t, "member2")
	hub.StartAgent(t, "member2", far.Kubeconfig, "--tracing-endpoint", address)
	prices := fleettest.ConfigMap("shop", "traced", map[string]string{"a": seed})
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, prices,
		fleettest.Policy("shop", "traced", fleettest.To("member1", "member2"), prices))
	fleettest.ExpectEventually(t, member.Cluster, prices, fleettest.Exists)
	fleettest.ExpectEventually(t, far.Cluster, prices, fleettest.Exists)

	binding := "shop/" + workv1alpha2.BindingName("ConfigMap", "traced")
	stages := []string{"propagate", "schedule", "render", "apply", "observe", "report", "aggregate"}
	t.Cleanup(func() {
		if lacking := missing(spans.received(), binding, stages); len(lacking) > 0 {
			seen := map[string]int{}
			for _, s := range spans.received() {
				seen[s.Name+" "+attributeOf(s, "flagship.binding")]++
			}
			t.Logf("no span of %v is about %s; there are %v", lacking, binding, seen)
		}
	})
	// Spans arrive in batches, in no order.
	fleettest.Eventually(t, "spans of all stages", func() bool {
		return len(missing(spans.received(), binding, stages)) == 0
	})
	fleettest.Eventually(t, "a span of the request of the user", func() bool {
		return slices.ContainsFunc(spans.received(), func(s *tracev1.Span) bool {
			return strings.Contains(s.Name, "POST /api/v1/namespaces/{:namespace}/configmaps")
		})
	})
	fleettest.Eventually(t, "the write to the member as a span of apply", func() bool { return written(spans.received(), binding, "member1", "") })
	fleettest.Eventually(t, "the write of the agent as a span of apply", func() bool { return written(spans.received(), binding, "member2", "flagship-agent") })
	fleettest.Eventually(t, "the report of the agent as a span", func() bool {
		return slices.ContainsFunc(spans.received(), func(s *tracev1.Span) bool {
			return s.Name == "report" && attributeOf(s, "flagship.binding") == binding && attributeOf(s, "flagship.cluster") == "member2"
		})
	})
	// The traces of the stages lead to that of the request. An agent does not receive it.
	for _, stage := range []string{"propagate", "schedule", "render", "apply", "aggregate"} {
		fleettest.Eventually(t, "a link from "+stage+" to the request of the user", func() bool { return linked(spans.received(), stage, binding) })
	}
	for _, s := range spans.received() {
		if strings.Contains(s.String(), seed) {
			t.Errorf("a span has a part of an object: %s", s)
		}
	}
}

// linked returns whether a reconcile of a binding links to a span in the trace of the request that created its template.
func linked(spans []*tracev1.Span, stage, binding string) bool {
	return slices.ContainsFunc(spans, func(s *tracev1.Span) bool {
		return s.Name == stage && attributeOf(s, "flagship.binding") == binding && slices.ContainsFunc(s.Links, func(link *tracev1.Span_Link) bool {
			return slices.ContainsFunc(spans, func(request *tracev1.Span) bool {
				return string(request.TraceId) == string(link.TraceId) && strings.Contains(request.Name, "POST /api/v1/namespaces/{:namespace}/configmaps")
			})
		})
	})
}

// TestNothingIsTracedByDefault: without the flag no span is sent, also if the environment names a collector as programs of OpenTelemetry read it.
func TestNothingIsTracedByDefault(t *testing.T) {
	spans, address := startReceiver(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
	t.Setenv("OTEL_EXPORTER_OTLP_INSECURE", "true")
	t.Cleanup(func() { // once the control plane has ended, and sent the last
		if got := spans.received(); len(got) > 0 {
			t.Errorf("%d spans are sent, such as %s", len(got), got[0])
		}
	})
	hub := fleettest.StartHub(t)
	member := fleettest.StartMember(t, "member1")
	hub.Join(t, "member1", member.Kubeconfig)
	prices := fleettest.ConfigMap("shop", "untraced", map[string]string{"a": "1"})
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, prices,
		fleettest.Policy("shop", "untraced", fleettest.To("member1"), prices))
	fleettest.ExpectEventually(t, member.Cluster, prices, fleettest.Exists)
}

// written returns whether a write to a member is a child of a reconcile of a binding, in a service if one is named.
func written(spans []*tracev1.Span, binding, member, service string) bool {
	return slices.ContainsFunc(spans, func(s *tracev1.Span) bool {
		return s.Name == "apply" && attributeOf(s, "flagship.binding") == binding && (service == "" || attributeOf(s, "service.name") == service) && slices.ContainsFunc(spans, func(c *tracev1.Span) bool {
			return string(c.TraceId) == string(s.TraceId) && c.Kind == tracev1.Span_SPAN_KIND_CLIENT &&
				strings.Contains(fmt.Sprint(c.Attributes), member+"/api/v1/namespaces/shop/configmaps/traced")
		})
	})
}

// missing are the stages that have no span about a binding.
func missing(spans []*tracev1.Span, binding string, stages []string) []string {
	return slices.DeleteFunc(slices.Clone(stages), func(stage string) bool {
		return slices.ContainsFunc(spans, func(s *tracev1.Span) bool { return s.Name == stage && attributeOf(s, "flagship.binding") == binding })
	})
}

func attributeOf(s *tracev1.Span, key string) string {
	i := slices.IndexFunc(s.Attributes, func(a *commonv1.KeyValue) bool { return a.Key == key })
	if i < 0 {
		return ""
	}
	return s.Attributes[i].Value.GetStringValue()
}
