package backup_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/host/backup/repository"
)

// standby is a control plane, a repository of its backups, and a standby of it.
type standby struct {
	backup.Standby
	t    *testing.T
	from backup.Storage
	own  *age.X25519Identity
}

func newStandby(t *testing.T) *standby {
	t.Helper()
	s := &standby{t: t, from: dataDir(t), own: key(t)}
	authority(t, s.from)
	s.Standby = backup.Standby{
		Dir: filepath.Join(t.TempDir(), "standby"), From: repository.Directory(filepath.Join(t.TempDir(), "backups")), Identities: []age.Identity{s.own},
	}
	return s
}

// authority gives a control plane a new authority.
func authority(t *testing.T, of backup.Storage) {
	t.Helper()
	keys := filepath.Join(of.DataDir, "pki")
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := os.Remove(filepath.Join(keys, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := pki.Open(keys, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Authority("ca", "test"); err != nil {
		t.Fatal(err)
	}
}

// save stores a value and makes a backup.
func (s *standby) save(at time.Time, value string) {
	s.t.Helper()
	put(s.t, s.from, map[string]string{"/registry/value": value})
	if _, _, err := backup.Save(s.t.Context(), s.from, s.From, at, ignore, s.own.Recipient()); err != nil {
		s.t.Fatal(err)
	}
}

// update expects that the newest backup is restored, or was.
func (s *standby) update(want bool) {
	s.t.Helper()
	_, updated, err := s.Update(s.t.Context(), ignore)
	if err != nil || updated != want {
		s.t.Fatalf("updated %t, %v; want %t", updated, err, want)
	}
}

// all are the backups, the newest first.
func (s *standby) all() []backup.Stored {
	s.t.Helper()
	found, err := backup.List(s.t.Context(), s.From)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// current is the data directory that a server would be started on.
func (s *standby) current() string {
	s.t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join(s.Dir, backup.Current))
	if err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// expectDirs counts data directories.
func (s *standby) expectDirs(want int) {
	s.t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		s.t.Fatal(err)
	}
	count := 0
	for _, entry := range entries {
		if entry.IsDir() {
			count++
		}
	}
	if count != want {
		s.t.Errorf("the standby has %d directories, want %d: %v", count, want, entries)
	}
}

func TestAStandbyHasTheNewestBackup(t *testing.T) {
	s := newStandby(t)
	if _, _, err := s.Update(t.Context(), ignore); err == nil {
		t.Error("nothing is restored without an error")
	}
	s.save(now, "first")
	s.update(true)
	s.update(false)
	s.expectDirs(1)
	s.save(now.Add(time.Hour), "second")
	s.update(true)
	s.expectDirs(2)
	s.update(false)
	s.expectDirs(1)

	dir := s.current()
	serve(t, dir)
	if got := stored(t, backup.Storage{DataDir: dir})["/registry/value"]; got != "second" {
		t.Errorf("the standby has %q", got)
	}
}

func TestAStandbyDoesNotGoBack(t *testing.T) {
	s := newStandby(t)
	s.save(now, "first")
	s.save(now.Add(time.Hour), "second")
	s.update(true)
	if err := s.From.Delete(t.Context(), filepath.Base(s.all()[0].Path)); err != nil {
		t.Fatal(err)
	}
	s.update(false)
	if !strings.HasSuffix(s.current(), "T040405Z") {
		t.Errorf("the standby has %s", s.current())
	}
}

// TestABackupThatCannotBeRestored leaves the standby as it is.
func TestABackupThatCannotBeRestored(t *testing.T) {
	s := newStandby(t)
	s.save(now, "first")
	s.update(true)
	before := s.current()
	s.save(now.Add(time.Hour), "second")
	second := s.all()[0]
	if err := os.Truncate(second.Path, second.Bytes-1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Update(t.Context(), ignore); err == nil {
		t.Error("half a backup is restored")
	}
	if s.current() != before {
		t.Errorf("the standby has %s, want %s", s.current(), before)
	}
	s.save(now.Add(2*time.Hour), "third")
	s.update(true)
}

// TestAStandbyThatWasTakenOver is not replaced: neither while its server runs, nor after.
func TestAStandbyThatWasTakenOver(t *testing.T) {
	for name, later := range map[string]bool{"the newest": false, "one before the newest": true} {
		t.Run(name, func(t *testing.T) {
			s := newStandby(t)
			s.save(now, "first")
			s.update(true)
			taken := s.current()
			if later { // the server has read the link before the update
				s.save(now.Add(time.Hour), "second")
				s.update(true)
			}
			lock, err := datadir.Acquire(taken)
			if err != nil {
				t.Fatal(err)
			}
			s.save(now.Add(2*time.Hour), "third")
			if _, _, err := s.Update(t.Context(), ignore); !errors.Is(err, backup.ErrTakenOver) {
				t.Errorf("while a server starts: %v", err)
			}
			if err := lock.TakeOver(); err != nil {
				t.Fatal(err)
			}
			lock.Release()
			if _, _, err := s.Update(t.Context(), ignore); !errors.Is(err, backup.ErrTakenOver) {
				t.Errorf("after a server has ended: %v", err)
			}
			if _, err := os.Stat(filepath.Join(taken, "pki", "ca.key")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAStandbySelectsItsControlPlane(t *testing.T) {
	s := newStandby(t)
	s.save(now, "first")
	other := "flagship-00000000-20300102T030405Z.tar.gz.age"
	if _, err := s.From.Write(t.Context(), other, func(io.Writer) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Update(t.Context(), ignore); err == nil || !strings.Contains(err.Error(), "set --control-plane") {
		t.Errorf("with backups of two control planes: %v", err)
	}
	s.ControlPlane = s.all()[1].ControlPlane
	s.update(true)
}

// TestABackupOfOthersIsNotRestored: who may write to the repository puts a backup there, under the name of a newer one of the control plane.
func TestABackupOfOthersIsNotRestored(t *testing.T) {
	for name, tc := range map[string]struct {
		forge func(t *testing.T, s *standby)
		want  string
	}{
		"another authority": {func(t *testing.T, s *standby) { authority(t, s.from) }, "is a backup of the control plane"},
		"without the private key": {func(t *testing.T, s *standby) {
			certificate := filepath.Join(s.from.DataDir, "pki", "ca.crt")
			own, err := os.ReadFile(certificate)
			if err != nil {
				t.Fatal(err)
			}
			authority(t, s.from)
			if err := os.WriteFile(certificate, own, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "no private key that belongs to it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStandby(t)
			s.save(now, "first")
			s.update(true)
			before, own := s.current(), s.all()[0].ControlPlane
			tc.forge(t, s)
			forged := create(t, s.from, s.own.Recipient())
			later := "flagship-" + own + "-20270102T030405Z.tar.gz.age"
			if _, err := s.From.Write(t.Context(), later, func(w io.Writer) error { _, err := w.Write(forged); return err }); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Update(t.Context(), ignore); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q in it", err, tc.want)
			}
			if s.current() != before {
				t.Errorf("the standby has %s, want %s", s.current(), before)
			}
			s.expectDirs(1)
		})
	}
}
