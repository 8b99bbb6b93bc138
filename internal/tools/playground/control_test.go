package playground

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serveTestControl answers on a control socket for the given members.
func serveTestControl(t *testing.T, dir string, members ...*member) {
	t.Helper()
	p := &Playground{config: Config{DataDir: dir, StartTimeout: time.Minute}, out: newProgress(io.Discard), members: members}
	l, err := listenControl(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); _ = l.Close() })
	go p.serveControl(ctx, l)
}

func TestControl(t *testing.T) {
	dir := t.TempDir()
	m, _ := testMember(t, "member")
	serveTestControl(t, dir, m)
	info, err := os.Stat(filepath.Join(dir, socketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v; want it closed to others", info.Mode(), err)
	}
	steps := []struct {
		verb Verb
		want State
	}{
		{List, Stopped}, {StartMember, Running}, {Pause, Paused}, {List, Paused}, {Resume, Running}, {Stop, Stopped},
	}
	for _, s := range steps {
		got, err := Control(t.Context(), dir, s.verb, "member1")
		if err != nil {
			t.Fatalf("%s: %v", s.verb, err)
		}
		if len(got) != 1 || got[0].State != s.want || (got[0].PID != 0) != (s.want != Stopped) {
			t.Errorf("after %s: %+v, want %s", s.verb, got, s.want)
		}
	}
	if _, err := Control(t.Context(), dir, Stop, "member7"); err == nil || !strings.Contains(err.Error(), `no member "member7"`) {
		t.Errorf("a member that is not there gave %v", err)
	}
	if _, err := Control(t.Context(), dir, "explode", "member1"); err == nil {
		t.Error("accepted an unknown verb")
	}
}

func TestControlWithoutPlayground(t *testing.T) {
	for name, dir := range map[string]string{"Empty": t.TempDir(), "Missing": filepath.Join(t.TempDir(), "none")} {
		if _, err := Control(t.Context(), dir, List, ""); err == nil || !strings.Contains(err.Error(), "no playground runs in "+dir) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestControlInDeepDirectory: a socket address holds a hundred bytes, a path any number.
func TestControlInDeepDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	serveTestControl(t, dir)
	if _, err := Control(t.Context(), dir, List, ""); err != nil {
		t.Error(err)
	}
}
