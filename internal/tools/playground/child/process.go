package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is one run of a member. It cannot outlive this process: it ends when its standard input closes, and, since a
// stopped process does not read that, the kernel kills it when the thread that started it is gone (where there is
// such a thing: see bindToParent). That is why one goroutine starts the child and keeps its thread until the child ended.
type Process struct {
	Cmd *exec.Cmd
	// stdin is the life line.
	stdin io.Closer
	// Ready yields one value: nil once the member serves, or what went wrong.
	Ready chan error
	// Exited is closed after the child has been reaped; err is set before.
	Exited chan struct{}
	Err    error
	// Asked is set before this process ends the child on purpose.
	Asked atomic.Bool
	// reporting reads the report, whose pipe the end of the process closes.
	reporting sync.WaitGroup
}

// readyFD is the descriptor a member reports on: the first one after the standard three.
const readyFD = 3

// Spawn starts the child. Its output goes to out until it ends.
func Spawn(executable string, args []string, out io.Writer) (*Process, error) {
	reports, reporter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	p := &Process{Cmd: exec.Command(executable, args...), Ready: make(chan error, 1), Exited: make(chan struct{})}
	p.Cmd.Stdout, p.Cmd.Stderr = out, out
	p.Cmd.ExtraFiles = []*os.File{reporter}
	// A group of its own keeps the terminal's Ctrl-C from the children: this process ends them, in order.
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bindToParent(p.Cmd.SysProcAttr)
	if p.stdin, err = p.Cmd.StdinPipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), reports.Close(), reporter.Close())
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, after the child
		err := p.Cmd.Start()
		_ = reporter.Close()
		started <- err
		if err != nil {
			return
		}
		p.Err = p.Cmd.Wait()
		close(p.Exited)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", executable, err), reports.Close())
	}
	p.reporting.Go(func() { p.readReport(reports) })
	return p, nil
}

// readReport turns the line a member writes into a value on ready.
func (p *Process) readReport(reports *os.File) {
	defer func() { _ = reports.Close() }()
	line, err := bufio.NewReader(reports).ReadString('\n')
	switch line = strings.TrimSpace(line); {
	case err != nil:
		<-p.Exited
		p.Ready <- fmt.Errorf("ended while starting: %s", Ending(p.Err))
	case line == readyLine:
		p.Ready <- nil
	default:
		p.Ready <- errors.New(line)
	}
}

func (p *Process) Signal(s syscall.Signal) error {
	err := p.Cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// WaitAtRest returns when a child that was sent a stop signal does nothing any more, or after a second: a thread in the
// middle of a disk write stops only after it.
func (p *Process) WaitAtRest() {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	deadline := time.After(time.Second)
	for !atRest(p.Cmd.Process.Pid) {
		select {
		case <-look.C:
		case <-deadline:
			return
		case <-p.Exited:
			return
		}
	}
}

// End signals the child to end, and kills it if it has not ended after patience.
func (p *Process) End(patience time.Duration) {
	p.Asked.Store(true)
	defer p.reporting.Wait()
	_ = p.stdin.Close()
	_ = p.Signal(syscall.SIGTERM)
	_ = p.Signal(syscall.SIGCONT)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.Exited:
		return
	case <-timer.C:
	}
	_ = p.Signal(syscall.SIGKILL)
	<-p.Exited
}

// Ending reports in a word or two how a process ended.
func Ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
