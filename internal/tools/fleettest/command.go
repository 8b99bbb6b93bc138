package fleettest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// commandPatience bounds a command that is expected to end by itself.
const commandPatience = 5 * time.Minute

// Result is how a command ended.
type Result struct {
	Stdout, Stderr string
	// Code is the exit code.
	Code int
}

// Flagship runs the binary with the arguments until it ends.
func Flagship(t testing.TB, args ...string) Result {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	return runProgram(t, program{binary: binary}, args...)
}

// Background runs the binary with the arguments. The test waits for its output or its end; it is stopped when the test ends.
func Background(t testing.TB, args ...string) *Process {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	process, err := run(binary, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Stop(); err != nil {
			t.Errorf("flagship %s: %v\n%s", strings.Join(args, " "), err, tail([]byte(process.Output()), logLines))
		}
	})
	return process
}

func runProgram(t testing.TB, run program, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandPatience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, run.binary, args...)
	cmd.Env = append(os.Environ(), run.env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		t.Fatalf("flagship %s: %v\n%s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// ExpectRefusal runs the binary and fails unless it ends with a failure in one line, which has the text.
func ExpectRefusal(t testing.TB, text string, args ...string) {
	t.Helper()
	r := Flagship(t, args...)
	line := strings.TrimSuffix(r.Stderr, "\n")
	if r.Code == 0 || !strings.HasPrefix(line, "error: ") || strings.Contains(line, "\n") || !strings.Contains(line, text) {
		t.Errorf("flagship %s ended with code %d and printed\n%swant a failure and one line with %q", strings.Join(args, " "), r.Code, r.Stderr, text)
	}
}
