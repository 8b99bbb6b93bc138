package fleettest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// startPatience is how long a fleet may take to be ready: far more than it needs, on a machine far busier.
	startPatience = 4 * time.Minute
	// stopPatience is how long a process may take to end, on a machine far busier.
	stopPatience = 2 * time.Minute
	// readyMark is the start of the line that a fleet which is ready prints.
	readyMark = "Flagship is ready"
)

// Process is a run of the binary that goes on beside the test. It is killed when the test process ends, however it does.
type Process struct {
	cmd    *exec.Cmd
	output *transcript
	// exited is closed when the process has ended; err is set before.
	exited chan struct{}
	err    error
	killed atomic.Bool
}

// run starts the binary with the arguments.
func run(binary string, args ...string) (*Process, error) {
	return launch(exec.Command(binary, args...))
}

// launch starts a command whose input and further files are set.
func launch(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, output: newTranscript(), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	bindToParent(p.cmd.SysProcAttr)
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the kernel kills the process when this thread ends, and the thread ends with the goroutine
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what the process has printed so far.
func (p *Process) Output() string { return p.output.String() }

// WaitFor returns when the process has printed a line that starts with the text.
func (p *Process) WaitFor(ctx context.Context, text string) error {
	for {
		seen, changed := p.output.line(text)
		if seen {
			return nil
		}
		select {
		case <-changed:
		case <-p.exited:
			if seen, _ := p.output.line(text); seen {
				return nil
			}
			return fmt.Errorf("it ended (%v) before it printed %q", p.err, text)
		case <-ctx.Done():
			return fmt.Errorf("waiting until it prints %q: %w", text, ctx.Err())
		}
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// expectEnd waits until the process has ended by itself, with an exit code and a line with the error, which contains text.
func (p *Process) expectEnd(t testing.TB, name string, code int, text string) {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(cleanupPatience):
		t.Fatalf("%s runs; want an end with %q\n%s", name, text, tail([]byte(p.Output()), logLines))
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("%s ended with exit code %d, want %d", name, got, code)
	}
	var last string // other goroutines may write to the log after it
	for line := range strings.Lines(p.Output()) {
		if strings.HasPrefix(line, "error: ") {
			last = line
		}
	}
	if !strings.Contains(last, text) {
		t.Errorf("%s ended with the error %q, want one with %q\n%s", name, last, text, tail([]byte(p.Output()), logLines))
	}
}

// Kill ends the process as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	p.killed.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *Process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Stop signals the process to end and returns how it did; one that takes too long is killed, which is an error. A process
// that has been killed on purpose has ended well.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-p.exited:
		if p.killed.Load() {
			return nil
		}
		return p.err
	case <-timer.C:
		p.Kill()
		return errors.New("it did not end within " + stopPatience.String())
	}
}

// transcript keeps the output of a process and notifies of more.
type transcript struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

var _ io.Writer = (*transcript)(nil)

// Write keeps p.
func (r *transcript) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	return r.text.Write(p)
}

// String is everything so far.
func (r *transcript) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// line returns whether a line starts with the text, and a channel that is closed with the next output.
func (r *transcript) line(start string) (bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := bufio.NewScanner(bytes.NewReader(r.text.Bytes()))
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), start) {
			return true, r.changed
		}
	}
	return false, r.changed
}
