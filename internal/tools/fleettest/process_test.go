package fleettest

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestAProcessIsReadyByItsOutput(t *testing.T) {
	p, err := run("/bin/sh", "-c", "echo preparing; echo Flagship is ready: go on; exec cat")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	// cat ends at once: there is no standard input
	if err := p.WaitFor(t.Context(), readyMark); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(p.Output(), "preparing\n") {
		t.Errorf("output %q", p.Output())
	}
}

func TestProcessThatEndsBeforeItIsReady(t *testing.T) {
	p, err := run("/bin/sh", "-c", "echo error: no luck; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitFor(t.Context(), readyMark); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want its exit status", err)
	}
	if err := p.Stop(); err == nil {
		t.Error("a failure was called a success")
	}
}

func TestAProcessWithoutOutput(t *testing.T) {
	p, err := run("/bin/sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.WaitFor(ctx, readyMark); err == nil {
		t.Error("was ready without printing it")
	}
}
