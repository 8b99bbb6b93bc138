package machine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// DirLock is held while a playground runs. The kernel drops it with the process, whatever way that ends.
type DirLock struct{ file *os.File }

// TakeDir makes the data directory if it is missing and claims it for this process.
func TakeDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot use %s as data directory: %w", dir, reason(err))
	}
	file, err := os.OpenFile(lockFile(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot write to data directory %s: %w", dir, reason(err))
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by a running Flagship%s: stop it, or choose another --data-dir", dir, holder(file))
		}
		return nil, fmt.Errorf("cannot lock data directory %s: %w", dir, err)
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cannot write to data directory %s: %w", dir, reason(err))
	}
	return &DirLock{file}, nil
}

// Release lets another process have the directory.
func (l *DirLock) Release() { _ = l.file.Close() }

func lockFile(dir string) string { return filepath.Join(dir, "playground.lock") }

// holder names the process that signed the lock file.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 20))
	if err != nil || len(text) == 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %s)", strings.TrimSpace(string(text)))
}

// reason drops the path from an error whose message names the directory already.
func reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
