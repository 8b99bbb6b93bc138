package fleettest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// Kill ends the control plane as kill -9 does; its members end with it.
func (f *Fleet) Kill(t testing.TB) {
	t.Helper()
	f.process.Kill()
}

// Stop ends the fleet in order.
func (f *Fleet) Stop(t testing.TB) {
	t.Helper()
	if err := f.process.Stop(); err != nil {
		t.Fatalf("ending the fleet: %v\n%s", err, f.process.Output())
	}
}

// Restart brings a fleet that was killed or stopped up again, with its state, and returns when it is ready. Clients made
// before go on working.
func (f *Fleet) Restart(t testing.TB) {
	t.Helper()
	if err := f.up(t.Context()); err != nil {
		t.Fatalf("starting the fleet again: %v", err)
	}
}

// Process is the running `flagship up`.
func (f *Fleet) Process() *Process { return f.process }

// StopMember ends a member's process and starts it again when the test ends.
func (f *Fleet) StopMember(t testing.TB, name string) {
	t.Helper()
	f.control(t, playground.Stop, name)
	t.Cleanup(func() { f.restore(t, playground.StartMember, name) })
}

// StartMember starts a member that was stopped and returns when it serves.
func (f *Fleet) StartMember(t testing.TB, name string) {
	t.Helper()
	f.control(t, playground.StartMember, name)
}

// PauseMember freezes a member's process, so that it answers nothing, and resumes it when the test ends.
func (f *Fleet) PauseMember(t testing.TB, name string) {
	t.Helper()
	f.control(t, playground.Pause, name)
	t.Cleanup(func() { f.restore(t, playground.Resume, name) })
}

// ResumeMember ends a pause.
func (f *Fleet) ResumeMember(t testing.TB, name string) {
	t.Helper()
	f.control(t, playground.Resume, name)
}

// KillMember ends a member's process as kill -9 does and starts it again when the test ends.
func (f *Fleet) KillMember(t testing.TB, name string) {
	t.Helper()
	pid := f.MemberPID(t, name)
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatalf("killing %s (pid %d): %v", name, pid, err)
	}
	t.Cleanup(func() { f.restore(t, playground.StartMember, name) })
}

// MemberPID is the id of a member's process, 0 if it does not run.
func (f *Fleet) MemberPID(t testing.TB, name string) int {
	t.Helper()
	for _, m := range f.control(t, playground.List, "") {
		if m.Name == name {
			return m.PID
		}
	}
	t.Fatalf("there is no member %s", name)
	return 0
}

func (f *Fleet) control(t testing.TB, verb playground.Verb, member string) []playground.MemberStatus {
	t.Helper()
	members, err := playground.Control(t.Context(), f.Dir, verb, member)
	if err != nil {
		t.Fatalf("%s %s: %v", verb, member, err)
	}
	return members
}

// restore undoes an outage for the tests that follow, in a cleanup, where the test's own context has ended.
func (f *Fleet) restore(t testing.TB, verb playground.Verb, member string) {
	t.Helper()
	select {
	case <-f.process.exited:
		return // the test ended the whole fleet; the next start brings every member back
	default:
	}
	ctx, cancel := cleanupContext(t)
	defer cancel()
	if _, err := playground.Control(ctx, f.Dir, verb, member); err != nil {
		t.Errorf("%s %s: %v", verb, member, err)
	}
}

// explain shows the end of every log if the test failed.
func (f *Fleet) explain(t testing.TB) {
	t.Helper()
	if t.Failed() {
		t.Logf("output of flagship up:\n%s%s", tail([]byte(f.process.Output()), logLines), f.logs())
	}
}

// logLines is how much of each log a failed test shows: few lines, since a test has several logs and a gate that keeps only the end of
// its output has to show the failure too.
const logLines = 12

// logs is the end of the log of the hub and of every member.
func (f *Fleet) logs() string {
	var out strings.Builder
	files := playground.LogFiles(f.Dir, f.options.Members)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&out, "end of the log of %s:\n%s", name, tail(text, logLines))
	}
	return out.String()
}

// tail is the last lines of a log, each cut to a readable length, after those with the reason for the end of its process.
func tail(text []byte, lines int) string {
	const width = 300
	all := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	var out strings.Builder
	for _, cause := range playground.Causes(text) {
		fmt.Fprintf(&out, "cause of the end: %s\n", cause)
	}
	for _, line := range all[max(0, len(all)-lines):] {
		out.Write(line[:min(len(line), width)])
		out.WriteByte('\n')
	}
	return out.String()
}
