package playground

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Verb is what a playground can be asked to do with a member.
type Verb string

// The verbs of the control socket.
const (
	// Stop ends the member's process, as a power cut with time to flush would.
	Stop Verb = "stop"
	// StartMember starts a stopped member and returns when it serves.
	StartMember Verb = "start"
	// Pause freezes the process: connections stay open and nothing answers.
	Pause Verb = "pause"
	// Resume ends a pause.
	Resume Verb = "resume"
	// List returns the state of every member.
	List Verb = "list"
)

// MemberStatus is the state of one member of a playground.
type MemberStatus struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// PID is 0 when the member does not run.
	PID int `json:"pid,omitempty"`
	// AgentPID is the same for the member's agent.
	AgentPID int `json:"agentPID,omitempty"`
	// Server is the URL of the member's API server.
	Server string `json:"server"`
}

type request struct {
	Verb   Verb   `json:"verb"`
	Member string `json:"member,omitempty"`
}

type response struct {
	Error   string         `json:"error,omitempty"`
	Members []MemberStatus `json:"members,omitempty"`
}

const socketName = "control.sock"

// Control sends the playground that runs in the data directory a request for one of its members, and returns
// the state of all of them afterwards. The member's name is ignored for List.
func Control(ctx context.Context, dataDir string, verb Verb, member string) ([]MemberStatus, error) {
	path, done, err := socketPath(dataDir)
	if err != nil {
		return nil, notRunning(dataDir, err)
	}
	defer done()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, notRunning(dataDir, err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	if err := json.NewEncoder(conn).Encode(request{verb, member}); err != nil {
		return nil, fmt.Errorf("asking the playground in %s: %w", dataDir, err)
	}
	var answer response
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return nil, fmt.Errorf("the playground in %s ended before it answered: %w", dataDir, err)
	}
	if answer.Error != "" {
		return answer.Members, errors.New(answer.Error)
	}
	return answer.Members, nil
}

func notRunning(dataDir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("no playground runs in %s: start one with 'flagship up --data-dir %s'", dataDir, dataDir)
	}
	return fmt.Errorf("reaching the playground in %s: %w", dataDir, err)
}

// socketPath is how to address the control socket. An address holds some hundred bytes only, so a long path goes
// through a descriptor of the directory, which done closes.
func socketPath(dataDir string) (path string, done func(), err error) {
	const longest = 100
	path = filepath.Join(dataDir, socketName)
	if len(path) <= longest {
		return path, func() {}, nil
	}
	dir, err := os.Open(dataDir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketName), func() { _ = dir.Close() }, nil
}

// listenControl opens the control socket for this user only. The data directory's lock is held, so a socket that is
// there already was left by a process that was killed.
func listenControl(dataDir string) (net.Listener, error) {
	path, done, err := socketPath(dataDir)
	if err != nil {
		return nil, fmt.Errorf("opening the control socket: %w", err)
	}
	defer done()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the old control socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("opening the control socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // by then the path may mean another directory
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("closing the control socket to others: %w", err), l.Close())
	}
	return l, nil
}

// serveControl answers until the listener is closed.
func (p *Playground) serveControl(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		p.answering.Go(func() { p.answer(ctx, conn) })
	}
}

func (p *Playground) answer(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	const readPatience = 10 * time.Second
	_ = conn.SetReadDeadline(time.Now().Add(readPatience))
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })() // the playground ends
	var ask request
	if json.NewDecoder(conn).Decode(&ask) != nil {
		return
	}
	var answer response
	if err := p.do(ctx, ask); err != nil {
		answer.Error = err.Error()
	}
	answer.Members = p.Members()
	_ = json.NewEncoder(conn).Encode(answer)
}

func (p *Playground) do(ctx context.Context, ask request) error {
	if ask.Verb == List {
		return nil
	}
	m, ok := p.member(ask.Member)
	if !ok {
		return fmt.Errorf("there is no member %q here", ask.Member)
	}
	switch ask.Verb {
	case Stop:
		m.stop()
		p.out.say("%s stopped", m.spec.Name)
	case StartMember:
		ctx, cancel := context.WithTimeout(ctx, p.config.StartTimeout)
		defer cancel()
		if err := m.start(ctx); err != nil {
			return err
		}
		p.out.say("%s started", m.spec.Name)
	case Pause:
		if err := m.pause(); err != nil {
			return err
		}
		p.out.say("%s paused", m.spec.Name)
	case Resume:
		if err := m.resume(); err != nil {
			return err
		}
		p.out.say("%s resumed", m.spec.Name)
	default:
		return fmt.Errorf("unknown request %q", ask.Verb)
	}
	return nil
}

// removeSocket tidies up; a socket that stays is removed by the next playground in the directory.
func removeSocket(dataDir string) {
	if path, done, err := socketPath(dataDir); err == nil {
		defer done()
		_ = os.Remove(path)
	}
}
