package playground

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// process is one run of a member. It cannot outlive this process: it ends when its standard input closes, and, since a
// stopped process does not notice that, the kernel kills it when the thread that started it is gone (where there is
// such a thing: see bindToParent). That is why one goroutine starts the child and keeps its thread until the child ended.
type process struct {
	cmd *exec.Cmd
	// stdin is the life line.
	stdin io.Closer
	// ready yields one value: nil once the member serves, or what went wrong.
	ready chan error
	// exited is closed after the child has been reaped; err is set before.
	exited chan struct{}
	err    error
	// asked is set before this process ends the child on purpose.
	asked atomic.Bool
}

// readyFD is the descriptor a member reports on: the first one after the standard three.
const readyFD = 3

// spawn starts the child. Its output goes to out until it ends.
func spawn(executable string, args []string, out io.Writer) (*process, error) {
	reports, reporter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	p := &process{cmd: exec.Command(executable, args...), ready: make(chan error, 1), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.ExtraFiles = []*os.File{reporter}
	// A group of its own keeps the terminal's Ctrl-C from the children: this process ends them, in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bindToParent(p.cmd.SysProcAttr)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), reports.Close(), reporter.Close())
	}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, after the child
		err := p.cmd.Start()
		_ = reporter.Close()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", executable, err), reports.Close())
	}
	go p.readReport(reports)
	return p, nil
}

// readReport turns the line a member writes into a value on ready.
func (p *process) readReport(reports *os.File) {
	defer func() { _ = reports.Close() }()
	line, err := bufio.NewReader(reports).ReadString('\n')
	switch line = strings.TrimSpace(line); {
	case err != nil:
		<-p.exited
		p.ready <- fmt.Errorf("ended while starting: %s", ending(p.err))
	case line == readyLine:
		p.ready <- nil
	default:
		p.ready <- errors.New(line)
	}
}

func (p *process) signal(s syscall.Signal) error {
	err := p.cmd.Process.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// waitAtRest returns when a child that was sent a stop signal does nothing any more, or after a second: a thread in the
// middle of a disk write stops only after it.
func (p *process) waitAtRest() {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	deadline := time.After(time.Second)
	for !atRest(p.cmd.Process.Pid) {
		select {
		case <-look.C:
		case <-deadline:
			return
		case <-p.exited:
			return
		}
	}
}

// end asks the child to finish, and kills it when it has not after patience.
func (p *process) end(patience time.Duration) {
	p.asked.Store(true)
	_ = p.stdin.Close()
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.exited:
		return
	case <-timer.C:
	}
	_ = p.signal(syscall.SIGKILL)
	<-p.exited
}

// ending says in a word or two how a process ended.
func ending(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
