package fleettest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Sources without their history are an error of its own.
func TestThePreviousVersionNeedsHistory(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	root := t.TempDir()
	file := filepath.Join(root, previousFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write("# why\n0123456789012345678901234567890123456789\n")
	if _, err := previousCommit(root); !errors.Is(err, errNoHistory) {
		t.Errorf("without a repository: %v", err)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	if _, err := previousCommit(root); !errors.Is(err, errNoHistory) {
		t.Errorf("with a commit that the repository does not have: %v", err)
	}
	head := git("rev-parse", "HEAD")
	write("# why\n" + head + "\n")
	if got, err := previousCommit(root); got != head || err != nil {
		t.Errorf("got %q, %v, want %s", got, err, head)
	}
	sources := t.TempDir()
	if err := extract(root, head, sources); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(sources, previousFile)); err != nil {
		t.Error(err)
	}
}
