package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
)

func acquire(t *testing.T, dir string) *datadir.Lock {
	t.Helper()
	lock, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestOnlyTheOwnerReadsADataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	defer acquire(t, dir).Release()
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "lock"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, info.Mode(), err, want)
		}
	}
}

func TestADataDirectoryHasOneServer(t *testing.T) {
	dir := t.TempDir()
	lock := acquire(t, dir)
	for range 2 { // a refused server leaves the record of the first as it is
		_, err := datadir.Acquire(dir)
		inUse, ok := errors.AsType[*datadir.InUseError](err)
		if !ok || inUse.Dir != dir || inUse.PID != os.Getpid() {
			t.Fatalf("a second server gets %v, want the directory in use by this process", err)
		}
	}
	lock.Release()
	acquire(t, dir).Release()
}

func TestAnErrorNamesTheServerThatUsesTheDirectory(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"PID":     {strconv.Itoa(os.Getpid()) + "\n", " is in use by process " + strconv.Itoa(os.Getpid())},
		"Empty":   {"", " is in use by another process"}, // it has the lock and has not written its PID yet
		"Garbage": {"garbage\n", " is in use by another process"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			defer acquire(t, dir).Release()
			if err := os.WriteFile(filepath.Join(dir, "lock"), []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := datadir.Acquire(dir); err == nil || err.Error() != "data directory "+dir+tc.want {
				t.Errorf("got %v, want ...%s", err, tc.want)
			}
		})
	}
}

func TestThePIDOfAServerThatWasKilledIsReplaced(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lock")
	if err := os.WriteFile(file, []byte("12345678901234567890\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer acquire(t, dir).Release()
	if text, err := os.ReadFile(file); err != nil || string(text) != strconv.Itoa(os.Getpid())+"\n" {
		t.Errorf("the lock has %q, %v; want the PID of this process and nothing else", text, err)
	}
}

func TestAPathThatCannotBeADataDirectoryIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	blocked := t.TempDir()
	if err := os.Mkdir(filepath.Join(blocked, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ dir, want string }{
		"File":      {file, "making data directory " + file + ": not a directory"},
		"BelowFile": {filepath.Join(file, "data"), "making data directory " + filepath.Join(file, "data") + ": not a directory"},
		"LockIsDir": {blocked, "data directory " + blocked + " is not writable: is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := datadir.Acquire(tc.dir)
			if err == nil || err.Error() != tc.want {
				t.Fatalf("got %v, want %s", err, tc.want)
			}
			if strings.Count(err.Error(), tc.dir) != 1 {
				t.Errorf("%v names the directory more than once", err)
			}
		})
	}
}
