package controlloop_test

import (
	"testing"

	"github.com/go-logr/logr"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// BenchmarkEvent is what an event of an informer costs whose handler does nothing, without and with the handling of panics.
func BenchmarkEvent(b *testing.B) {
	plain := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) {}}
	handlers := map[string]toolscache.ResourceEventHandler{
		"Plain":   plain,
		"Wrapped": controlloop.NewSet(nil, clock.RealClock{}).Loop("aggregate").Handlers().Wrap(logr.Discard(), plain),
	}
	before, after := config("a", 1), config("a", 2)
	for name, handler := range handlers {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				handler.OnUpdate(before, after)
			}
		})
	}
}
