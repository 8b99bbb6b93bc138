package fleettest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// mountsVar names the environment variable of a test process that has mounts of its own.
const mountsVar = "FLAGSHIP_TEST_OWN_MOUNTS"

// InOwnMounts runs a test again in a process with mounts of its own, which end with it however it ends, and returns true there. In the
// process that calls it first it returns false when the other has ended. That needs no root where the kernel lets users make namespaces;
// elsewhere the test is skipped.
func InOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(mountsVar) != "" {
		return true
	}
	if testing.Short() {
		t.Skip("needs processes of its own")
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v", "-test.count=1")
	if deadline, limited := t.Deadline(); limited {
		cmd.Args = append(cmd.Args, "-test.timeout="+time.Until(deadline).String())
	}
	cmd.Env = append(os.Environ(), mountsVar+"=1", binaryVar+"="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	process, err := launch(cmd)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("the kernel makes no user namespace with mounts of its own here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Kill)
	<-process.Exited()
	t.Logf("in a process with mounts of its own:\n%s", process.Output())
	if process.err != nil {
		t.Errorf("it ended with %v", process.err)
	}
	return false
}

// Disk is a file system of its own, which is in memory and can be filled.
type Disk struct {
	// Dir is where it is mounted.
	Dir string
}

// StartDisk mounts an empty file system of some MiB until the test ends. The test is one for which InOwnMounts is true.
func StartDisk(t testing.TB, mebibytes int) *Disk {
	t.Helper()
	d := &Disk{Dir: t.TempDir()}
	if err := syscall.Mount("flagship-test", d.Dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes)); err != nil {
		t.Skipf("a file system of its own cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.Dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", d.Dir, err)
		}
	})
	return d
}

func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }

// Fill takes all that is free, until Free.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	file, err := os.Create(d.filler())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("filling %s: %v", d.Dir, err)
		}
	}
}

// Free gives back what Fill took.
func (d *Disk) Free(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		t.Fatal(err)
	}
}
