package controlloop

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"
)

// TestEachReconcileIsASpan: with the key, the binding and whether it failed, and without the text of the error.
func TestEachReconcileIsASpan(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	set := NewSet(nil, clock.RealClock{})
	set.Trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	failed := errors.New("secret")
	for _, err := range []error{nil, failed} {
		if got := set.Loop("apply").Do(t.Context(), "m1 es/web", func(ctx context.Context) error {
			About(ctx, "shop/web")
			About(ctx, "")
			return err
		}); !errors.Is(got, err) {
			t.Fatal(got)
		}
	}
	spans := recorder.Ended()
	if len(spans) != 2 {
		t.Fatalf("%d spans ended", len(spans))
	}
	for i, span := range spans {
		if span.Name() != "apply" || len(span.Attributes()) != 2 || span.Attributes()[0] != objectAttribute.String("m1 es/web") ||
			span.Attributes()[1] != bindingAttribute.String("shop/web") {
			t.Errorf("span %d is %s %v", i, span.Name(), span.Attributes())
		}
		if want := []codes.Code{codes.Unset, codes.Error}[i]; span.Status().Code != want || span.Status().Description != "" || len(span.Events()) > 0 {
			t.Errorf("span %d has the status %v and the events %v", i, span.Status(), span.Events())
		}
	}
	if spans[0].SpanContext().TraceID() == spans[1].SpanContext().TraceID() {
		t.Error("two reconciles are one trace")
	}
}

// TestASpanLinksToItsCause: the span of a reconcile about a binding links to that of the request that changed its template, if that is known.
func TestASpanLinksToItsCause(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	set := NewSet(nil, clock.RealClock{})
	set.Trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	request := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	set.Link(func(binding string) trace.SpanContext {
		if binding == "shop/web" {
			return request
		}
		return trace.SpanContext{}
	})
	for _, binding := range []string{"shop/web", "shop/other"} {
		if err := set.Loop("apply").Do(t.Context(), binding, func(ctx context.Context) error { About(ctx, binding); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	spans := recorder.Ended()
	if links := spans[0].Links(); len(links) != 1 || !links[0].SpanContext.Equal(request) || spans[0].SpanContext().TraceID() == request.TraceID() {
		t.Errorf("the span links to %v, want the request, in a trace of its own", links)
	}
	if links := spans[1].Links(); len(links) != 0 {
		t.Errorf("the span of a binding without a known request links to %v", links)
	}
}

// TestTheSamplingRateIsObeyed: each reconcile is sampled at the rate of the provider, whatever the context that it is called with, and what it
// links to.
func TestTheSamplingRateIsObeyed(t *testing.T) {
	const reconciles, rate = 4000, 0.25
	recorder := tracetest.NewSpanRecorder()
	set := NewSet(nil, clock.RealClock{})
	set.Trace(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(rate)))))
	sampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	set.Link(func(string) trace.SpanContext { return sampled })
	for range reconciles {
		if err := set.Loop("apply").Do(trace.ContextWithRemoteSpanContext(t.Context(), sampled), "key", func(ctx context.Context) error {
			About(ctx, "shop/web")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	// Six standard deviations.
	if got := len(recorder.Ended()); got < 0.209*reconciles || got > 0.291*reconciles {
		t.Errorf("%d of %d reconciles are sampled, want a quarter", got, reconciles)
	}
}

func TestWithoutATracerThereIsNoSpan(t *testing.T) {
	set := NewSet(nil, clock.RealClock{})
	set.Trace(nil)
	set.Link(func(string) trace.SpanContext {
		t.Error("the cause of a reconcile without a span is looked up")
		return trace.SpanContext{}
	})
	if err := set.Loop("apply").Do(t.Context(), "key", func(ctx context.Context) error {
		if About(ctx, "shop/web"); trace.SpanFromContext(ctx).SpanContext().IsValid() {
			t.Error("there is a span")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
