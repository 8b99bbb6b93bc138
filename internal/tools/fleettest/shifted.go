package fleettest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// offsetVar names the environment variable with what a program that shifted builds adds to its clock.
const offsetVar = "FLAGSHIP_TEST_CLOCK_OFFSET"

// shiftedSource is added to package time of such a program.
const shiftedSource = `package time

import "syscall"

var testOffset = func() int64 {
	text, _ := syscall.Getenv("` + offsetVar + `")
	offset, err := ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return int64(offset / Second)
}()
`

// shifted builds a command of this module with a clock that can be off: the sources are those that are tested, but for the function time.Now
// of the standard library. No process has a wall clock of its own otherwise: the kernel gives a time namespace other monotonic clocks only,
// and a static binary has no library whose functions could be replaced. The first time compiles all that the command links.
func shifted(t testing.TB, command string) string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	if err := touchSources(root); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "bin", "test", "shifted")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("making a place for the overlay: %v", err)
	}
	unlock, err := lockBuild(dir) // after the first test there is nothing to build
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	overlay, err := writeOverlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, command)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", path, "./cmd/"+command)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s whose clock can be off: %v\n%s", command, err, out)
	}
	return path
}

// writeOverlay writes what replaces files of package time, and the file that names both for the go tool.
func writeOverlay(dir string) (path string, err error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("looking for the standard library: %w", err)
	}
	std := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return "", fmt.Errorf("reading package time: %w", err)
	}
	const before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(source), before) {
		return "", fmt.Errorf("time.Now in %s is another one than this test replaces", std)
	}
	files := map[string]string{
		"time.go":   strings.Replace(string(source), before, before+"\tsec += testOffset\n", 1),
		"offset.go": shiftedSource,
	}
	replace := map[string]string{}
	for name, content := range files {
		replace[filepath.Join(std, name)] = filepath.Join(dir, name+".txt")
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(content), 0o600); err != nil {
			return "", fmt.Errorf("writing the overlay: %w", err)
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, content, 0o600)
}

// StartShiftedAgent is StartAgent with a process whose clock is ahead by some time, or behind. It registers its cluster by that clock, too.
func (p *Part) StartShiftedAgent(t testing.TB, ahead time.Duration, name, kubeconfig string, args ...string) *Agent {
	t.Helper()
	return p.startAgent(t, t.TempDir(), programAhead(t, "flagship-agent", ahead), name, kubeconfig, args)
}

// StartShiftedHubIn is StartHubIn with a process whose clock is ahead by some time, or behind.
func StartShiftedHubIn(t testing.TB, ahead time.Duration, dir string, args ...string) *Part {
	t.Helper()
	if testing.Short() {
		t.Skip("needs processes of its own")
	}
	return startHub(t, programAhead(t, "flagship-server", ahead), dir, args)
}

func programAhead(t testing.TB, command string, ahead time.Duration) program {
	t.Helper()
	return program{binary: shifted(t, command), env: []string{offsetVar + "=" + ahead.String()}}
}
