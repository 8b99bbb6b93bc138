package playground

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/playground/child"
)

// roleVar makes this test binary play a part of the cast instead of running tests.
const roleVar = "PLAYGROUND_TEST_ROLE"

// PlayRole plays the part that this process was started for, and returns false if it is to run tests.
func PlayRole() (code int, played bool) {
	switch os.Getenv(roleVar) {
	case "member":
		return playMember(), true
	case "broken member":
		return fail(child.NewChild().Report(errors.New("no disk\nat all"))), true
	case "crashing member":
		fmt.Println("panic: so it goes\n\ngoroutine 1 [running]:" + strings.Repeat("\nmain.main()", 40))
		return 2, true
	case "parent":
		return playParent(), true
	}
	return 0, false
}

func fail(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// playMember serves until its parent ends or signals it to end.
func playMember() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	child := child.NewChild()
	ctx, cancel := child.Bind(ctx)
	defer cancel()
	if err := child.Report(nil); err != nil {
		return fail(err)
	}
	<-ctx.Done()
	return 0
}

// playParent starts a member, says its pid and waits to be killed.
func playParent() int {
	_ = os.Setenv(roleVar, "member")
	p, err := child.Spawn(os.Args[0], nil, io.Discard)
	if err == nil {
		err = <-p.Ready
	}
	if err != nil {
		return fail(err)
	}
	fmt.Println(p.Cmd.Process.Pid)
	<-p.Exited
	return 0
}

// testMember is a member whose process is this binary in the given role.
func testMember(t *testing.T, role string) (*member, chan string) {
	t.Helper()
	t.Setenv(roleVar, role)
	log, err := openLog(filepath.Join(t.TempDir(), "log"), maxLogBytes)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	m := &member{
		spec: memberSpec{Name: "member1"}, dir: layout(t.TempDir()), executable: os.Args[0], log: log, state: Stopped,
		onEnd: func(name, how string) { ended <- name + ": " + how },
	}
	t.Cleanup(func() { m.stop(); _ = log.Close() })
	return m, ended
}

func (m *member) mustBe(t *testing.T, want State) {
	t.Helper()
	if got, _ := m.status(); got != want {
		t.Fatalf("member is %s, want %s", got, want)
	}
}

func TestMemberLife(t *testing.T) {
	m, ended := testMember(t, "member")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := m.pause(); err == nil {
		t.Error("paused a member that does not run")
	}
	must(m.start(t.Context()))
	m.mustBe(t, Running)
	_, first := m.status()
	must(m.start(t.Context()))
	if _, again := m.status(); again != first {
		t.Error("starting a running member started a second process")
	}
	must(m.pause())
	must(m.pause())
	m.mustBe(t, Paused)
	if err := m.start(t.Context()); err == nil {
		t.Error("started a paused member")
	}
	must(m.resume())
	m.mustBe(t, Running)
	must(m.pause())
	m.stop() // a paused process is ended, too
	m.mustBe(t, Stopped)
	must(m.start(t.Context()))
	m.stop()
	m.stop()
	m.mustBe(t, Stopped)
	select {
	case how := <-ended:
		t.Errorf("an end that was asked for was reported: %s", how)
	default:
	}
}

func TestMemberThatEndsByItselfIsReported(t *testing.T) {
	m, ended := testMember(t, "member")
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, p := m.status()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case how := <-ended:
		if want := "member1: signal: killed"; how != want {
			t.Errorf("reported %q, want %q", how, want)
		}
	case <-time.After(3 * time.Minute):
		t.Fatal("not reported")
	}
	m.mustBe(t, Stopped)
	if err := m.start(t.Context()); err != nil {
		t.Errorf("cannot be started again: %v", err)
	}
}

func TestAMemberThatCannotStartReportsWhy(t *testing.T) {
	for role, want := range map[string]string{
		"broken member":   "starting member1: no disk; at all (log: ",
		"crashing member": "starting member1: ended while starting: exit status 2: panic: so it goes (log: ",
	} {
		t.Run(role, func(t *testing.T) {
			m, ended := testMember(t, role)
			err := m.start(t.Context())
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s…", err, want)
			}
			m.mustBe(t, Stopped)
			select {
			case how := <-ended:
				t.Errorf("reported twice: %s", how)
			default:
			}
		})
	}
}

// TestMemberNeverOutlivesItsParent: not even when the parent is killed, nor when the member is paused and reads nothing.
func TestMemberNeverOutlivesItsParent(t *testing.T) {
	for name, freeze := range map[string]bool{"Running": false, "Paused": true} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), roleVar+"=parent")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if freeze {
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			ExpectProcessGone(t, pid)
		})
	}
}

// ExpectProcessGone waits until the process does not run; it may remain as a zombie.
func ExpectProcessGone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(3 * time.Minute)
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("process %d outlives its parent: %s", pid, stat)
		}
	}
}
