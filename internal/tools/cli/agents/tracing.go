package agents

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"k8s.io/component-base/tracing"
	tracingv1 "k8s.io/component-base/tracing/api/v1"

	"github.com/flagship-k8s/flagship/internal/host/agent"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// lastSpans is how long the end of an agent waits for its last spans to be sent.
const lastSpans = 5 * time.Second

// mostSamples is the rate at which every reconcile is sampled.
const mostSamples = 1_000_000

// tracingFlags say where spans are sent.
type tracingFlags struct {
	endpoint string
	rate     int
}

func (t *tracingFlags) add(f *pflag.FlagSet) {
	f.StringVar(&t.endpoint, "tracing-endpoint", "", "where spans are sent to a collector, by OTLP over gRPC, such as localhost:4317 (default: nowhere)")
	f.IntVar(&t.rate, "tracing-sampling-rate-per-million", mostSamples, "how many of a million reconciles are sampled, with --tracing-endpoint")
}

// check returns an error of use if spans cannot be sampled as the flags have it.
func (t *tracingFlags) check() error {
	if t.endpoint != "" && (t.rate < 1 || t.rate > mostSamples) {
		return cli.UsageErrorf("--tracing-sampling-rate-per-million must be from 1 to %d, not %d", mostSamples, t.rate)
	}
	return nil
}

// start sets the tracer of an agent. The returned function sends the last spans.
func (t *tracingFlags) start(ctx context.Context, s cli.Streams, o *agent.Options) (flush func(), err error) {
	if t.endpoint == "" {
		return func() {}, nil
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	rate := int32(t.rate)
	provider, err := tracing.NewProvider(ctx, &tracingv1.TracingConfiguration{Endpoint: &t.endpoint, SamplingRatePerMillion: &rate}, nil,
		[]resource.Option{resource.WithAttributes(attribute.String("service.name", "flagship-agent"), attribute.String("flagship.cluster", o.Cluster))})
	if err != nil {
		return nil, fmt.Errorf("preparing to send spans to %s: %w", t.endpoint, err)
	}
	o.Tracer = provider
	return func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(last); err != nil {
			fmt.Fprintf(s.Err, "the last spans were not sent to %s: %v\n", t.endpoint, err)
		}
	}, nil
}
