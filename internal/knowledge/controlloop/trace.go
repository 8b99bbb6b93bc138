package controlloop

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of the spans of reconciles.
const (
	// objectAttribute is the key of the object in its loop.
	objectAttribute = attribute.Key("flagship.object")
	// bindingAttribute is the binding that a reconcile is about, "namespace/name", by which the spans of all stages of an object are found.
	bindingAttribute = attribute.Key("flagship.binding")
)

// Trace has each reconcile be a span of the provider. It is called before the loops run. Nil: none.
func (s *Set) Trace(provider trace.TracerProvider) {
	if provider != nil {
		s.tracer = provider.Tracer("flagship")
	}
}

// Link has the span of a reconcile about a binding link to the span that cause returns, if it is valid: that of the request which changed the
// template last. It is called before the loops run.
func (s *Set) Link(cause func(binding string) trace.SpanContext) { s.cause = cause }

// causeKey is the key of Set.Link's function in the context of a reconcile.
type causeKey struct{}

// span begins the span of a reconcile, which the returned function ends. It has no text of the error, which may have parts of objects.
func (l *Loop) span(ctx context.Context, key any) (context.Context, func(error)) {
	if l.set.tracer == nil {
		return ctx, func(error) {}
	}
	if l.set.cause != nil {
		ctx = context.WithValue(ctx, causeKey{}, l.set.cause)
	}
	ctx, span := l.set.tracer.Start(ctx, l.name, trace.WithNewRoot(), trace.WithAttributes(objectAttribute.String(fmt.Sprint(key))))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// About notes the binding that a reconcile is about, "namespace/name", in its span, if it has one, with what Link has about it. "" notes nothing.
func About(ctx context.Context, binding string) {
	span := trace.SpanFromContext(ctx)
	if binding == "" || !span.IsRecording() {
		return
	}
	span.SetAttributes(bindingAttribute.String(binding))
	cause, ok := ctx.Value(causeKey{}).(func(string) trace.SpanContext)
	if !ok {
		return
	}
	if of := cause(binding); of.IsValid() {
		span.AddLink(trace.Link{SpanContext: of})
	}
}
