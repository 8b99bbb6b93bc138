package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPortChooserLeavesTakenPortsAlone(t *testing.T) {
	ports := NewPortChooser()
	seen := map[int]bool{}
	for range 20 {
		port, err := ports.Choose()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] || port < firstPort || port > lastPort {
			t.Errorf("chose %d, which is taken or outside the range", port)
		}
		seen[port] = true
	}
}

func TestDataDirHasOneUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "deep")
	lock, err := TakeDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = TakeDir(dir)
	if err == nil || !strings.Contains(err.Error(), "pid") {
		t.Errorf("a second user got %v, want a refusal that names the first", err)
	}
	lock.Release()
	again, err := TakeDir(dir)
	if err != nil {
		t.Fatalf("after release: %v", err)
	}
	again.Release()

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeDir(filepath.Join(file, "below")); err == nil || !strings.Contains(err.Error(), "cannot use") {
		t.Errorf("a directory that cannot be made gave %v", err)
	}
}
