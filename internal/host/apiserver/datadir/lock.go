package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock is held on a data directory for as long as a server uses it. The kernel releases it when
// the process ends, however that happens.
type Lock struct{ file *os.File }

// LockFile is the name of the file in a data directory that is locked.
const LockFile = "lock"

// InUseError means that another process serves from the data directory.
type InUseError struct {
	// Dir is the data directory.
	Dir string
	// PID is the process that holds it, 0 if it did not say.
	PID int
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d", e.Dir, e.PID)
}

// Acquire makes the data directory if it is missing, and locks it for this process.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making data directory %s: %w", dir, withoutPath(err))
	}
	file, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s is not writable: %w", dir, withoutPath(err))
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer func() { _ = file.Close() }()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &InUseError{Dir: dir, PID: lockHolder(file)}
		}
		return nil, fmt.Errorf("locking data directory %s: %w", dir, err)
	}
	lock := &Lock{file: file}
	if err := lock.sign(); err != nil {
		lock.Release()
		return nil, fmt.Errorf("data directory %s is not writable: %w", dir, withoutPath(err))
	}
	return lock, nil
}

func (l *Lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Release unlocks the data directory.
func (l *Lock) Release() { _ = l.file.Close() }

// Holder returns the process that locked a data directory last, which may have ended since. It takes no lock, which could keep a server
// from starting.
func Holder(dir string) (int, error) {
	file, err := os.Open(filepath.Join(dir, LockFile))
	if err != nil {
		return 0, fmt.Errorf("finding the process of data directory %s: %w", dir, withoutPath(err))
	}
	defer func() { _ = file.Close() }()
	pid := lockHolder(file)
	if pid == 0 {
		return 0, fmt.Errorf("data directory %s names no process", dir)
	}
	return pid, nil
}

func lockHolder(file *os.File) int {
	data, err := io.ReadAll(io.LimitReader(file, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}

// withoutPath drops the path from a file error whose message already names the directory.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// RestoringFile is the name of the file that marks a data directory which a backup is being restored to.
const RestoringFile = ".restoring"

// standbyFile marks a data directory of a standby: it was restored from a backup, and no server has used it.
const standbyFile = ".standby"

// dir is the directory that is locked.
func (l *Lock) dir() string { return filepath.Dir(l.file.Name()) }

// MarkStandby marks the data directory as one that no server has used, until a server calls TakeOver.
func (l *Lock) MarkStandby() error { return l.mark(standbyFile) }

// IsStandby returns whether no server has used a data directory since MarkStandby. It takes no lock, which could keep a server from starting.
func IsStandby(dir string) (bool, error) { return isMarked(dir, standbyFile) }

// TakeOver ends the mark of a standby. A server calls it before it writes anything else, since a standby is replaced by later backups.
func (l *Lock) TakeOver() error { return l.unmark(standbyFile) }

// BeginRestore marks the data directory as one that is not whole: CheckWhole returns an error until EndRestore.
func (l *Lock) BeginRestore() error { return l.mark(RestoringFile) }

// EndRestore ends what BeginRestore began.
func (l *Lock) EndRestore() error { return l.unmark(RestoringFile) }

// CheckWhole returns an error if a restore into the data directory has not ended: a server would serve a part of what the backup has.
func (l *Lock) CheckWhole() error {
	restoring, err := isMarked(l.dir(), RestoringFile)
	if err != nil {
		return err
	}
	if restoring {
		return fmt.Errorf("the restore of a backup into %s was interrupted: remove the directory, and restore again", l.dir())
	}
	return nil
}

func (l *Lock) mark(name string) error {
	if err := os.WriteFile(filepath.Join(l.dir(), name), nil, 0o600); err != nil {
		return fmt.Errorf("marking the data directory: %w", err)
	}
	return l.sync()
}

func isMarked(dir, name string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the mark of the data directory: %w", err)
	}
	return true, nil
}

func (l *Lock) unmark(name string) error {
	err := os.Remove(filepath.Join(l.dir(), name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the mark of the data directory: %w", err)
	}
	return l.sync()
}

// sync has marks survive a loss of power.
func (l *Lock) sync() error {
	dir, err := os.Open(l.dir())
	if err != nil {
		return fmt.Errorf("marking the data directory: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("marking the data directory: %w", err)
	}
	return nil
}
