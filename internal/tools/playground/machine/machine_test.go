package machine

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPortChooserLeavesTakenPortsAlone(t *testing.T) {
	ports, others := NewPortChooser(), NewPortChooser()
	defer ports.Close()
	defer others.Close()
	seen := map[int]bool{}
	for i := range 20 {
		ports := ports
		if i%2 > 0 {
			ports = others
		}
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

// TestAPortIsReservedUntilItsChooserIsClosed: no server listens at it meanwhile, and one may.
func TestAPortIsReservedUntilItsChooserIsClosed(t *testing.T) {
	ports := NewPortChooser()
	port, err := ports.Choose()
	if err != nil {
		t.Fatal(err)
	}
	if err := tryListen(port); err != nil {
		t.Errorf("its server cannot listen: %v", err)
	}
	if other, err := net.ListenPacket("udp", address(port)); err == nil {
		_ = other.Close()
		t.Error("another chooser can reserve it")
	}
	ports.Close()
	other, err := net.ListenPacket("udp", address(port))
	if err != nil {
		t.Fatalf("after the end: %v", err)
	}
	_ = other.Close()
}
