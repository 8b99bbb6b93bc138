package playground

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/playground/child"
)

// State is what a member's process is doing.
type State string

// The states of a member.
const (
	Stopped  State = "Stopped"
	Starting State = "Starting"
	Running  State = "Running"
	Paused   State = "Paused"
)

// stopPatience is how long a member gets to finish before it is killed; a paused one included, all within the ten
// seconds that a playground has to end.
const stopPatience = 6 * time.Second

// member is one cluster of the playground: at most one process at a time, and one of its agent.
type member struct {
	spec       memberSpec
	dir        layout
	executable string
	// failingImages cannot be pulled.
	failingImages []string
	log           *logFile
	// agentLog is nil for a member without an agent.
	agentLog *logFile
	// onEnd is called when the process ended without being asked to.
	onEnd func(name, how string)

	// op serialises start, stop, pause and resume.
	op sync.Mutex
	// mu guards the rest, and is never held for long.
	mu    sync.Mutex
	run   *child.Process
	agent *child.Process
	state State
	// reaping follows the ends of processes.
	reaping sync.WaitGroup
}

const (
	// MemberCommand is the hidden command a playground starts its own binary with, once per member.
	MemberCommand = "member-process"
	// AgentCommand is the same for agents: the command agent in a process that ends with its parent.
	AgentCommand = "agent-process"
)

// startMark starts the line of a log after which a new process writes to it.
const startMark = "--- start of "

// args is the child's command line.
func (m *member) args() []string {
	args := []string{
		MemberCommand,
		"--name=" + m.spec.Name,
		"--data-dir=" + m.dir.memberData(m.spec.Name),
		"--write-kubeconfig=" + MemberKubeconfig(string(m.dir), m.spec.Name),
		"--port=" + strconv.Itoa(m.spec.Port),
		"--pod-cidr=" + m.spec.PodCIDR,
		"--service-cidr=" + m.spec.ServiceCIDR,
		"--nodes=" + strconv.Itoa(m.spec.Nodes),
	}
	if m.spec.NodeCPU != "" {
		args = append(args, "--node-cpu="+m.spec.NodeCPU)
	}
	if m.spec.NodeMemory != "" {
		args = append(args, "--node-memory="+m.spec.NodeMemory)
	}
	if m.spec.Devices > 0 {
		args = append(args, "--devices="+strconv.Itoa(m.spec.Devices))
	}
	if m.spec.Bare {
		args = append(args, "--bare")
	}
	if len(m.failingImages) > 0 {
		args = append(args, "--failing-images="+strings.Join(m.failingImages, ","))
	}
	return args
}

// start runs the member and returns when it serves, with its agent once it has been registered. What runs already is left alone.
func (m *member) start(ctx context.Context) error {
	m.op.Lock()
	defer m.op.Unlock()
	switch state, _ := m.status(); state {
	case Paused:
		return fmt.Errorf("%s is paused: resume it", m.spec.Name)
	case Running:
	default:
		if err := m.startServer(ctx); err != nil {
			return err
		}
	}
	if m.spec.Pull && m.spec.Joined {
		return m.startAgent()
	}
	return nil
}

func (m *member) startServer(ctx context.Context) error {
	_, _ = io.WriteString(m.log, startMark+m.spec.Name+"\n")
	p, err := child.Spawn(m.executable, m.args(), m.log)
	if err != nil {
		return fmt.Errorf("starting %s: %w", m.spec.Name, err)
	}
	m.set(p, Starting)
	m.reaping.Go(func() { m.reap(p) })
	select {
	case err = <-p.Ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		p.End(stopPatience)
		m.setIfCurrent(p, Stopped)
		if ctx.Err() != nil {
			err = withReport(err, <-p.Ready)
		}
		return fmt.Errorf("starting %s: %w (log: %s)", m.spec.Name, m.withCauses(err), m.log.path)
	}
	m.setIfCurrent(p, Running)
	return nil
}

// withCauses adds what the log has as the reason for the end of the process.
func (m *member) withCauses(err error) error {
	log, readErr := os.ReadFile(m.log.path)
	if readErr != nil {
		return err // which names the file
	}
	for _, cause := range Causes(log) {
		err = fmt.Errorf("%w: %s", err, cause)
	}
	return err
}

// withReport adds to the end of patience what the member was waiting for.
func withReport(err, report error) error {
	if report == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, report)
}

// reap waits for the end of one run and notes it. A failed start is returned by start.
func (m *member) reap(p *child.Process) {
	<-p.Exited
	before := m.setIfCurrent(p, Stopped)
	if !p.Asked.Load() && before != Starting {
		m.onEnd(m.spec.Name, child.Ending(p.Err))
	}
}

// stop ends the member's process and that of its agent. What does not run is left alone.
func (m *member) stop() {
	m.op.Lock()
	defer m.op.Unlock()
	var ending sync.WaitGroup
	if a := m.runningAgent(); a != nil {
		ending.Go(func() { a.End(stopPatience) })
	}
	if _, p := m.status(); p != nil {
		p.End(stopPatience)
		m.setIfCurrent(p, Stopped)
	}
	ending.Wait()
	m.reaping.Wait()
}

// pause freezes the process: it holds its connections and answers nothing.
func (m *member) pause() error { return m.freeze(syscall.SIGSTOP, Running, Paused) }

// resume lets a paused process go on.
func (m *member) resume() error { return m.freeze(syscall.SIGCONT, Paused, Running) }

func (m *member) freeze(s syscall.Signal, from, to State) error {
	m.op.Lock()
	defer m.op.Unlock()
	state, p := m.status()
	switch {
	case state == to:
		return nil
	case state != from || p == nil:
		return fmt.Errorf("%s is %s", m.spec.Name, state)
	}
	for _, p := range []*child.Process{p, m.runningAgent()} { // an agent is in its cluster
		if p == nil {
			continue
		}
		if err := p.Signal(s); err != nil {
			return fmt.Errorf("sending %s to %s: %w", s, m.spec.Name, err)
		}
		if to == Paused {
			p.WaitAtRest()
		}
	}
	m.setIfCurrent(p, to)
	return nil
}

// status returns the state and the process, nil when stopped.
func (m *member) status() (State, *child.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.run
}

func (m *member) set(p *child.Process, s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run, m.state = p, s
}

// setIfCurrent changes the state unless another process has taken p's place, or p has ended in the meantime. It returns
// the state before.
func (m *member) setIfCurrent(p *child.Process, s State) (before State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before = m.state; m.run != p {
		return before
	}
	if m.state = s; s == Stopped {
		m.run = nil
	}
	return before
}
