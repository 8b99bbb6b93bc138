package fleettest

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/tools/playground"
	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

// Part is a control plane or a member in a process of its own: it can be killed, frozen and started again, and the others
// live on, as real clusters would.
type Part struct {
	*Cluster
	// Dir is the data directory.
	Dir string

	program program
	args    []string
	member  bool
	process *Process
}

// StartHub runs `flagship server` with further flags until the test ends.
func StartHub(t testing.TB, args ...string) *Part {
	t.Helper()
	return StartHubIn(t, t.TempDir(), args...)
}

// StartHubIn is StartHub with the data directory.
func StartHubIn(t testing.TB, dir string, args ...string) *Part {
	t.Helper()
	if testing.Short() {
		t.Skip("needs processes of its own")
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	return StartHubOf(t, binary, dir, args...)
}

// StartHubOf is StartHubIn with the binary, which may be that of another version.
func StartHubOf(t testing.TB, binary, dir string, args ...string) *Part {
	t.Helper()
	return startHub(t, program{binary: binary}, dir, args)
}

func startHub(t testing.TB, run program, dir string, args []string) *Part {
	t.Helper()
	p := &Part{Dir: dir, program: run}
	p.args = append([]string{"server", "--data-dir", p.Dir, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
		"--port", FreePort(t)}, args...)
	if InPullMode() {
		p.args = append(p.args, "--enable-bootstrap-token-auth")
	}
	tested, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	// An earlier binary has no such rule. To start any costs a third of a second of processor time.
	if run.binary == tested || strings.Contains(runProgram(t, run, "server", "--help").Stdout, "--allow-loopback-members") {
		p.args = append(p.args, "--allow-loopback-members")
	}
	return p.begin(t, "hub", filepath.Join(p.Dir, "hub.kubeconfig"))
}

// StartMember runs a member cluster that has joined no control plane, with further flags of a playground's member, until the
// test ends.
func StartMember(t testing.TB, name string, args ...string) *Part {
	t.Helper()
	return StartMemberIn(t, t.TempDir(), name, args...)
}

// StartMemberIn is StartMember with the directory of everything that the member writes.
func StartMemberIn(t testing.TB, dir, name string, args ...string) *Part {
	t.Helper()
	if testing.Short() {
		t.Skip("needs processes of its own")
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &Part{Dir: dir, program: program{binary: binary}, member: true}
	kubeconfig := filepath.Join(p.Dir, "kubeconfig")
	p.args = append([]string{playground.MemberCommand, "--name", name, "--data-dir", filepath.Join(p.Dir, "data"),
		"--write-kubeconfig", kubeconfig, "--port", FreePort(t)}, args...)
	return p.begin(t, name, kubeconfig)
}

// FreePort is a port that no other process takes until the test ends, also while nothing listens at it.
func FreePort(t testing.TB) string {
	t.Helper()
	ports := machine.NewPortChooser()
	t.Cleanup(ports.Close)
	port, err := ports.Choose()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

func (p *Part) begin(t testing.TB, name, kubeconfig string) *Part {
	t.Helper()
	ctrllog.SetLogger(logr.Discard()) // else it logs that there is none
	t.Cleanup(func() {
		if p.process != nil {
			p.process.Kill()
		}
	})
	t.Cleanup(func() { // before it is killed
		if t.Failed() && p.process != nil {
			t.Logf("end of the log of %s:\n%s", name, tail([]byte(p.process.Output()), logLines))
		}
	})
	p.Cluster = &Cluster{Name: name}
	p.Start(t)
	var err error
	if p.Cluster, err = connect(name, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

// Start brings a part up that does not run, with the state it had, and returns when it is ready. Clients made before go on
// working. Further flags take the place of the same ones before.
func (p *Part) Start(t testing.TB, args ...string) {
	t.Helper()
	ready := p.Launch(t, args...)
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	if err := ready(ctx); err != nil {
		t.Fatalf("starting %s: %v\n%s", p.Name, err, tail([]byte(p.process.Output()), logLines))
	}
}

// Launch is Start that does not wait; what it returns does.
func (p *Part) Launch(t testing.TB, args ...string) (ready func(context.Context) error) {
	t.Helper()
	p.args = append(p.args, args...)
	cmd := exec.Command(p.program.binary, p.args...)
	cmd.Env = append(os.Environ(), p.program.env...)
	if !p.member {
		p.launch(t, cmd)
		process := p.process
		return func(ctx context.Context) error { return process.WaitFor(ctx, readyMark) }
	}
	// What a playground has: a life line, and a pipe for the report.
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	reports, reporter, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{reporter}
	p.launch(t, cmd)
	_ = reporter.Close()
	report := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(reports).ReadString('\n') // empty if it ended before
		_ = reports.Close()
		report <- strings.TrimSpace(line)
	}()
	return func(ctx context.Context) error {
		select {
		case line := <-report:
			if line != "ready" {
				return fmt.Errorf("it reports %q", line)
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Part) launch(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	var err error
	if p.process, err = launch(cmd); err != nil {
		t.Fatal(err)
	}
}

// Ended is closed when the process has ended.
func (p *Part) Ended() <-chan struct{} { return p.process.Exited() }

// ExpectEnd waits until the process has ended by itself, with an exit code and a line with the error, which contains text.
func (p *Part) ExpectEnd(t testing.TB, code int, text string) {
	t.Helper()
	p.process.expectEnd(t, p.Name, code, text)
}

// Kill ends the process as kill -9 does.
func (p *Part) Kill() { p.process.Kill() }

// Stop ends the process in order.
func (p *Part) Stop(t testing.TB) {
	t.Helper()
	if err := p.process.Stop(); err != nil {
		t.Errorf("ending %s: %v\n%s", p.Name, err, tail([]byte(p.process.Output()), logLines))
	}
}

// Pause freezes the process: it holds its connections and answers nothing. Resume lets it go on.
func (p *Part) Pause(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Resume ends a pause.
func (p *Part) Resume(t testing.TB) { p.signal(t, syscall.SIGCONT) }

func (p *Part) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.process.signal(s); err != nil {
		t.Fatalf("sending %v to %s: %v", s, p.Name, err)
	}
}

// Backup copies the data directory of a part that does not run; the function it returns brings that state back.
func (p *Part) Backup(t testing.TB) (restore func(testing.TB)) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "backup")
	if err := copyFiles(copied, p.Dir); err != nil {
		t.Fatalf("copying the data of %s: %v", p.Name, err)
	}
	return func(t testing.TB) {
		t.Helper()
		if err := os.RemoveAll(p.Dir); err != nil {
			t.Fatal(err)
		}
		if err := copyFiles(p.Dir, copied); err != nil {
			t.Fatalf("restoring the data of %s: %v", p.Name, err)
		}
	}
}

// copyFiles copies a tree, but for what is no file, such as sockets.
func copyFiles(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, info.Mode().Perm())
		case !info.Mode().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	})
}

// Join makes a cluster a member of this control plane, as `flagship join` does, or `flagship register` and an agent with members in Pull
// mode.
func (p *Part) Join(t testing.TB, name, kubeconfig string) {
	t.Helper()
	if InPullMode() {
		p.StartAgent(t, name, kubeconfig)
		return
	}
	if r := Flagship(t, "join", name, "--kubeconfig", p.Kubeconfig, "--cluster-kubeconfig", kubeconfig); r.Code != 0 {
		t.Fatalf("joining %s: %s%s", name, r.Stdout, r.Stderr)
	}
}

// StartAgent registers a cluster with this control plane, in Pull mode, and runs its agent with further flags until the test ends. The
// control plane needs the flag --enable-bootstrap-token-auth.
func (p *Part) StartAgent(t testing.TB, name, kubeconfig string, args ...string) *Agent {
	t.Helper()
	return p.StartAgentIn(t, t.TempDir(), name, kubeconfig, args...)
}

// StartAgentIn is StartAgent with the data directory of the agent.
func (p *Part) StartAgentIn(t testing.TB, dir, name, kubeconfig string, args ...string) *Agent {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	return p.startAgent(t, dir, program{binary: binary}, name, kubeconfig, args)
}

// program is what a process is run with: a binary, and what it has in its environment besides that of the test.
type program struct {
	binary string
	env    []string
}

func (p *Part) startAgent(t testing.TB, dir string, run program, name, kubeconfig string, args []string) *Agent {
	t.Helper()
	a := &Agent{Dir: dir, program: run, args: append([]string{"agent", name, "--cluster-kubeconfig", kubeconfig}, args...)}
	tested, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	if run.binary == tested { // an earlier one has no such rule, and no flag
		a.args = append(a.args, "--allow-loopback-webhooks")
	}
	bootstrap := filepath.Join(a.Dir, "bootstrap.kubeconfig")
	if r := Flagship(t, "token", "create", name, "--kubeconfig", p.Kubeconfig, "--file", bootstrap); r.Code != 0 {
		t.Fatalf("creating a token: %s%s", r.Stdout, r.Stderr)
	}
	register := []string{"register", name, "--bootstrap-kubeconfig", bootstrap, "--cluster-kubeconfig", kubeconfig, "--data-dir", a.Dir}
	if r := runProgram(t, run, register...); r.Code != 0 {
		t.Fatalf("registering %s: %s%s", name, r.Stdout, r.Stderr)
	}
	if a.Cluster, err = connect(name+"-agent", filepath.Join(a.Dir, agentKubeconfig)); err != nil {
		t.Fatal(err)
	}
	a.run(t)
	return a
}

// RunAgent runs an agent with the arguments given, and a data directory, until the test ends.
func RunAgent(t testing.TB, args ...string) *Agent {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{Dir: t.TempDir(), program: program{binary: binary}, args: args}
	a.run(t)
	return a
}

func (a *Agent) run(t testing.TB) {
	t.Helper()
	a.Start(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the log of an agent:\n%s", tail([]byte(a.process.Output()), logLines))
		}
		a.process.Kill()
	})
}

// Stop ends the process in order.
func (a *Agent) Stop(t testing.TB) {
	t.Helper()
	if err := a.process.Stop(); err != nil {
		t.Errorf("ending the agent: %v", err)
	}
}

// agentKubeconfig is the file in the data directory of an agent that leads to the control plane.
const agentKubeconfig = "agent.kubeconfig"

// Agent is the agent of a cluster in Pull mode. The Cluster in it is the control plane as the agent reaches it.
type Agent struct {
	*Cluster
	// Dir is the data directory, with the credential.
	Dir     string
	program program
	args    []string
	process *Process
}

// Start runs the agent again after Kill. Further flags take the place of the same ones before.
func (a *Agent) Start(t testing.TB, args ...string) {
	t.Helper()
	a.args = append(a.args, args...)
	cmd := exec.Command(a.program.binary, append(a.args, "--data-dir", a.Dir)...)
	cmd.Env = append(os.Environ(), a.program.env...)
	var err error
	if a.process, err = launch(cmd); err != nil {
		t.Fatal(err)
	}
}

// ExpectEnd waits until the agent has ended by itself, with exit code 1 and one line that contains text.
func (a *Agent) ExpectEnd(t testing.TB, text string) {
	t.Helper()
	a.process.expectEnd(t, "the agent", 1, text)
}

// Ended is closed when the process has ended.
func (a *Agent) Ended() <-chan struct{} { return a.process.Exited() }

// Output is what the agent has printed since its last start.
func (a *Agent) Output() string { return a.process.Output() }

// Kill ends the process as kill -9 does.
func (a *Agent) Kill() { a.process.Kill() }

// Pause freezes the process: it holds its connections and answers nothing. Resume lets it go on.
func (a *Agent) Pause(t testing.TB) { a.signal(t, syscall.SIGSTOP) }

// Resume ends a pause.
func (a *Agent) Resume(t testing.TB) { a.signal(t, syscall.SIGCONT) }

func (a *Agent) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := a.process.signal(s); err != nil {
		t.Fatalf("sending %v to %s: %v", s, a.Name, err)
	}
}

// StartLink starts the agent again with a network between it and the control plane. What it returns besides starts it without.
func (a *Agent) StartLink(t testing.TB) (network *Link, direct func()) {
	t.Helper()
	network = StartLink(t, a.Cluster)
	return network, a.StartThrough(t, network.Kubeconfig)
}

// StartThrough starts the agent again with another kubeconfig that leads to the control plane. What it returns starts it with its own.
func (a *Agent) StartThrough(t testing.TB, other string) (direct func()) {
	t.Helper()
	kubeconfig := filepath.Join(a.Dir, agentKubeconfig)
	before, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	through, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	restart := func(content []byte) {
		t.Helper()
		a.Kill()
		if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
			t.Fatal(err)
		}
		a.Start(t)
	}
	restart(through)
	return func() { t.Helper(); restart(before) }
}
