package controlloop

import (
	"context"
	"errors"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
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

func TestWithoutATracerThereIsNoSpan(t *testing.T) {
	set := NewSet(nil, clock.RealClock{})
	set.Trace(nil)
	if err := set.Loop("apply").Do(t.Context(), "key", func(ctx context.Context) error { About(ctx, "shop/web"); return nil }); err != nil {
		t.Fatal(err)
	}
}
