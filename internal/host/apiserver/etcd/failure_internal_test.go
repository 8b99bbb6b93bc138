package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
)

func TestAFailureIsOneLineWithWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		failure Failure
		code    int
		want    string
	}{
		"Full": {
			Failure{"/data/etcd", "failed to save", fmt.Errorf("wal: %w", &os.PathError{Op: "write", Path: "0.wal", Err: syscall.ENOSPC})}, datadir.ExitUnwritable,
			"the file system of /data/etcd is full (failed to save: wal: write 0.wal: no space left on device). " +
				"Nothing that was stored is lost: free space there and start again",
		},
		"Quota": {
			Failure{"/data/etcd", "failed to commit tx", syscall.EDQUOT}, datadir.ExitUnwritable,
			"the file system of /data/etcd is full (failed to commit tx: disk quota exceeded). Nothing that was stored is lost: free space there and start again",
		},
		"ReadOnly": {
			Failure{"/data/etcd", "failed to commit tx", syscall.EROFS}, datadir.ExitUnwritable,
			"/data/etcd cannot be written (failed to commit tx: read-only file system). Nothing that was stored is lost: make its file system writable and start again",
		},
		"Damaged": {
			Failure{"/data/etcd", "assertion failed:\n  page 7", nil}, datadir.ExitDamaged,
			"the data in /data/etcd cannot be used (assertion failed: page 7). If the next start fails, too, restore a backup with 'flagship restore from': see docs/storage.md",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.failure.Error(); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if got := tc.failure.ExitStatus(); got != tc.code {
				t.Errorf("exit code %d, want %d", got, tc.code)
			}
		})
	}
}

func TestOnlyAnErrorOfTheFileSystemIsUnwritable(t *testing.T) {
	other := errors.New("another process listens")
	if err := unwritable("/data/etcd", other); !errors.Is(err, other) || errors.As(err, new(*Failure)) {
		t.Errorf("got %v", err)
	}
	if err := unwritable("/data/etcd", fmt.Errorf("starting: %w", syscall.ENOSPC)); !errors.As(err, new(*Failure)) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

// TestFull: a full file system is a Failure whichever file was written there, once, and nothing else is.
func TestFull(t *testing.T) {
	full := fmt.Errorf("writing the encryption configuration: %w", &os.PathError{Op: "write", Path: "/data/encryption.yaml", Err: syscall.ENOSPC})
	err := Full("/data", full)
	if failure, ok := errors.AsType[*Failure](err); !ok || failure.ExitStatus() != datadir.ExitUnwritable || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full file system: %v", err)
	}
	if again := Full("/other", fmt.Errorf("starting: %w", err)); errors.Unwrap(again) != err {
		t.Errorf("a Failure was changed: %v", again)
	}
	for _, other := range []error{syscall.EACCES, errors.New("another process listens")} {
		if err := Full("/data", other); err != other {
			t.Errorf("%v became %v", other, err)
		}
	}
}

// TestDamagedDataEndsTheStart damages the data of an etcd in every way in which it is damaged by a power cut, a bad disk or a person.
// Without a check some of these panic in a library, and some have etcd wait for ever.
func TestDamagedDataEndsTheStart(t *testing.T) {
	original := t.TempDir() + "/etcd"
	fill(t, original)
	for name, tc := range map[string]struct {
		damage func(t *testing.T, wal, db string)
		want   string
	}{
		"EmptyLog":        {func(t *testing.T, wal, _ string) { truncate(t, wal, 0) }, "is empty"},
		"ShortLog":        {func(t *testing.T, wal, _ string) { truncate(t, wal, 4096) }, "cannot be used"},
		"GarbageInTheLog": {func(t *testing.T, wal, _ string) { overwrite(t, wal, 4096, 4096) }, "cannot be used"},
		"EmptyDatabase":   {func(t *testing.T, _, db string) { truncate(t, db, 0) }, "db is empty"},
		"ShortDatabase":   {func(t *testing.T, _, db string) { truncate(t, db, 5*4096) }, "cannot be used"},
		"NoDatabase":      {func(t *testing.T, _, db string) { remove(t, db) }, "db is missing"},
		"DatabaseHeader":  {func(t *testing.T, _, db string) { overwrite(t, db, 0, 2*4096) }, "the database: invalid database"},
		"RootPage":        {func(t *testing.T, _, db string) { overwritePage(t, db, func(pages []int) int { return pages[0] }) }, "cannot be used"},
		"LastPage":        {func(t *testing.T, _, db string) { overwritePage(t, db, slices.Max[[]int]) }, "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/etcd"
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			logs, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
			if err != nil || len(logs) == 0 {
				t.Fatalf("there is no write-ahead log: %v", err)
			}
			tc.damage(t, slices.Max(logs), filepath.Join(dir, "member", "snap", "db"))
			e, err := start(t.Context(), dir, 64<<20, true)
			if err == nil {
				e.stop()
				t.Fatal("it starts")
			}
			failure, ok := errors.AsType[*Failure](err)
			if !ok || failure.ExitStatus() != datadir.ExitDamaged || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q and exit code %d", err, tc.want, datadir.ExitDamaged)
			}
		})
	}
}

// TestAnEtcdThatFailsWhileItEnds: a goroutine that cannot write holds the locks of the database for ever, and the end waits for them.
func TestAnEtcdThatFailsWhileItEnds(t *testing.T) {
	e, err := start(t.Context(), filepath.Join(t.TempDir(), "etcd"), 64<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	lock := e.server.Server.Backend().BatchTx()
	lock.Lock()
	want := &Failure{Dir: e.dir, What: "for the test"}
	e.failures.report(want)
	e.stop()
	if e.failures.err != error(want) {
		t.Errorf("got %v, want the failure that was reported", e.failures.err)
	}
	lock.Unlock()
	<-e.server.Server.StopNotify() // before its directory goes
}

// TestStorageThatFailsWhileItIsRead: what reads an etcd that cannot write waits for ever, whatever its context, and storage closes all the same.
func TestStorageThatFailsWhileItIsRead(t *testing.T) {
	s, err := Open(t.Context(), Options{DataDir: t.TempDir(), NoFsync: true, Count: true, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	server, free := s.embedded.server.Server, make(chan struct{})
	s.running.Go(func() { <-free }) // a read
	want := &Failure{Dir: "data", What: "for the test"}
	s.embedded.failures.report(want)
	s.Close()
	if s.Failure() != error(want) {
		t.Errorf("got %v, want the failure that was reported", s.Failure())
	}
	close(free)
	<-server.StopNotify() // before its directory goes
}

// fill stores enough that the database has pages of all sorts.
func fill(t *testing.T, dir string) {
	t.Helper()
	e, err := start(t.Context(), dir, 64<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	for i := range 200 {
		put := &etcdserverpb.PutRequest{Key: fmt.Appendf(nil, "/registry/configmaps/shop/%d", i), Value: bytes.Repeat([]byte("x"), 1<<10)}
		if _, err := e.server.Server.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	e.server.Server.Backend().ForceCommit()
}

func truncate(t *testing.T, file string, size int64) {
	t.Helper()
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func overwrite(t *testing.T, file string, offset int64, size int) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, size), offset); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// overwritePage overwrites one of the pages with keys, of which the first is the root.
func overwritePage(t *testing.T, file string, choose func([]int) int) {
	t.Helper()
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	var pages []int
	err = db.View(func(tx *bbolt.Tx) error {
		pages = append(pages, int(tx.Bucket([]byte("key")).Root())) //nolint:gosec // a small number
		for id := 0; ; id++ {
			info, err := tx.Page(id)
			if err != nil || info == nil {
				return err
			}
			if info.Type == "leaf" && info.Count > 2 {
				pages = append(pages, id)
			}
		}
	})
	size := db.Info().PageSize
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	overwrite(t, file, int64(choose(pages))*int64(size), size)
}
