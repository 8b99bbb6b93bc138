package recovery_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/recovery"
)

var errBoom = errors.New("boom")

func TestDo(t *testing.T) {
	if err := recovery.Do(func() error { return nil }); err != nil {
		t.Errorf("a function that returns nil gives %v", err)
	}
	if err := recovery.Do(func() error { return errBoom }); err != errBoom {
		t.Errorf("a function that returns an error gives %v", err)
	}

	err := recovery.Do(func() error {
		list := []error{}
		return list[len(list)]
	})
	panicked, ok := errors.AsType[*recovery.PanicError](err)
	if !ok {
		t.Fatalf("a function that panics gives %v", err)
	}
	if _, ok := errors.AsType[runtime.Error](err); !ok {
		t.Errorf("%v does not unwrap to what the runtime said", err)
	}
	if !strings.Contains(string(panicked.Stack), "TestDo") {
		t.Errorf("the stack does not show where it happened:\n%s", panicked.Stack)
	}
	if strings.Contains(err.Error(), "recovery_test.go") {
		t.Errorf("the message holds the stack: %v", err)
	}
	if err := recovery.Do(func() error { panic("text") }); err == nil || err.Error() != "panic: text" {
		t.Errorf("got %v", err)
	}
}
