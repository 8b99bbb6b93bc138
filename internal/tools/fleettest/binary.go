package fleettest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// binaryVar names the environment variable that holds the path of the binary under test.
const binaryVar = "FLAGSHIP_BINARY"

// Binary returns the path of the flagship binary, building it if need be. Several test packages that call it at the same time
// build it once.
func Binary() (string, error) {
	if path := os.Getenv(binaryVar); path != "" {
		path, err := filepath.Abs(path)
		if err == nil {
			_, err = os.Stat(path) // the go tool then records that the test result depends on this file
		}
		if err != nil {
			return "", fmt.Errorf("using %s: %w", binaryVar, err)
		}
		return path, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if err := touchSources(root); err != nil {
		return "", err
	}
	return build(root)
}

func build(root string) (string, error) {
	dir := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a place for the binary: %w", err)
	}
	unlock, err := lockBuild(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	path := filepath.Join(dir, "flagship")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./cmd/flagship")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building flagship: %w\n%s", err, out)
	}
	return path, nil
}

// lockBuild waits until no other process builds in the folder, and has others wait until unlock is called.
func lockBuild(dir string) (unlock func(), err error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("taking the build lock: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}

// moduleRoot is the nearest folder above with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the module: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the module: no go.mod above the test")
		}
		dir = parent
	}
}

// touchSources reads the state of every source file of the binary. The go tool takes a test result from its cache as long as the
// files that the test opened stay the same, and it has no record of what a binary was built from.
func touchSources(root string) error {
	for _, top := range []string{"go.mod", "api", "cmd", "examples", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !entry.IsDir() && !strings.HasSuffix(path, "_test.go") {
				_, err = os.Stat(path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the sources: %w", err)
		}
	}
	return nil
}
