package history_test

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// TestCauses: the cause is the last request of a user that changed the template, if it was sampled.
func TestCauses(t *testing.T) {
	span := func(n byte, flags trace.TraceFlags) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{n}, SpanID: trace.SpanID{n}, TraceFlags: flags})
	}
	authors := &history.Authors{}
	created, updated, unsampled := history.Change{UID: "u"}, history.Change{UID: "u", From: "5"}, history.Change{UID: "u", From: "6"}
	disputed, again := history.Change{UID: "u", From: "7"}, history.Change{UID: "v"}
	authors.Requested(created, "alice", span(1, trace.FlagsSampled))
	authors.Requested(updated, "bob", span(2, trace.FlagsSampled))
	authors.Requested(unsampled, "bob", span(3, 0))
	authors.Requested(disputed, "bob", span(4, trace.FlagsSampled))
	authors.Requested(disputed, "mallory", span(5, trace.FlagsSampled))
	authors.Requested(again, "alice", span(6, trace.FlagsSampled))
	const web = "shop/web-deployment"
	causes := history.NewCauses(authors)
	for i, step := range []struct {
		what string
		do   func()
		want trace.SpanContext
	}{
		{"nothing", func() {}, trace.SpanContext{}},
		{"created", func() { causes.Created(web, created) }, span(1, trace.FlagsSampled)},
		{"written by the control plane", func() { causes.Changed(web, history.Change{UID: "u", From: "4"}) }, span(1, trace.FlagsSampled)},
		{"updated", func() { causes.Changed(web, updated) }, span(2, trace.FlagsSampled)},
		{"noted again", func() { causes.Created(web, created) }, span(2, trace.FlagsSampled)},
		{"updated by a request that is not sampled", func() { causes.Changed(web, unsampled) }, trace.SpanContext{}},
		{"noted again", func() { causes.Created(web, created) }, trace.SpanContext{}},
		{"requested by two users", func() { causes.Changed(web, updated); causes.Changed(web, disputed) }, trace.SpanContext{}},
		{"deleted and created again", func() { causes.Deleted(web); causes.Created(web, again) }, span(6, trace.FlagsSampled)},
		{"others", func() {
			for n := range 10_000 {
				causes.Changed(fmt.Sprint("shop/", n), updated)
			}
		}, trace.SpanContext{}},
	} {
		if step.do(); !causes.Of(web).Equal(step.want) {
			t.Errorf("step %d, %s: the cause is %v, want %v", i, step.what, causes.Of(web).TraceID(), step.want.TraceID())
		}
	}
}
