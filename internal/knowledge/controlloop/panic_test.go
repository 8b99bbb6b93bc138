package controlloop_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

var errBoom = errors.New("boom")

func TestCatchPanic(t *testing.T) {
	if err := controlloop.CatchPanic(func() error { return nil }); err != nil {
		t.Errorf("a function that returns nil gives %v", err)
	}
	if err := controlloop.CatchPanic(func() error { return errBoom }); !errors.Is(err, errBoom) {
		t.Errorf("a function that returns an error gives %v", err)
	}

	err := controlloop.CatchPanic(func() error {
		list := []error{}
		return list[len(list)]
	})
	panicked, ok := errors.AsType[*controlloop.PanicError](err)
	if !ok {
		t.Fatalf("a function that panics gives %v", err)
	}
	if _, ok := errors.AsType[runtime.Error](err); !ok {
		t.Errorf("%v does not unwrap to what the runtime said", err)
	}
	if !strings.Contains(string(panicked.Stack), "TestCatchPanic") {
		t.Errorf("the stack does not show where it happened:\n%s", panicked.Stack)
	}
	if strings.Contains(err.Error(), "panic_test.go") {
		t.Errorf("the message holds the stack: %v", err)
	}
	if err := controlloop.CatchPanic(func() error { panic("text") }); err == nil || err.Error() != "panic: text" {
		t.Errorf("got %v", err)
	}
}
