package backup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup"
)

// others are keys in the same etcd that are none of the standby, next to its own.
var others = map[string]string{
	"/registry/value": "of others", "/standby/a": "of others", "/standby/zz": "of others", "/standby/00000000-other/flagship.io/restored": "standby",
}

// newExternalStandby is a standby with its keys in an external etcd, which has keys of others, too.
func newExternalStandby(t *testing.T) *standby {
	t.Helper()
	s := newStandby(t)
	s.External = external(t)
	put(t, backup.Storage{External: s.External}, others)
	s.External.Prefix = "/standby"
	ids := 0
	s.NewID = func() string { ids++; return fmt.Sprintf("id%d", ids) }
	return s
}

// keys are those in the external etcd without those of others, by what they begin with.
func (s *standby) keys() map[string]map[string]string {
	s.t.Helper()
	found := map[string]map[string]string{}
	rest := maps.Clone(others)
	for key, value := range stored(s.t, backup.Storage{External: s.External}) {
		if want, known := others[key]; known {
			if want != value {
				s.t.Errorf("%s of others is %q", key, value)
			}
			delete(rest, key)
			continue
		}
		below := strings.SplitAfterN(key, "/", 4)
		prefix := strings.TrimSuffix(strings.Join(below[:3], ""), "/")
		if found[prefix] == nil {
			found[prefix] = map[string]string{}
		}
		found[prefix]["/"+below[3]] = value
	}
	if len(rest) > 0 {
		s.t.Errorf("keys of others are gone: %v", rest)
	}
	return found
}

// expectKeys expects the standby's backups with these values in the external etcd, the newest last, and returns what keys of that one begin with.
func (s *standby) expectKeys(values ...string) string {
	s.t.Helper()
	found := s.keys()
	prefixes := slices.Sorted(maps.Keys(found))
	if len(prefixes) != len(values) {
		s.t.Fatalf("etcd has backups at %v, want %d", prefixes, len(values))
	}
	for i, value := range values {
		if got := found[prefixes[i]]; got["/value"] != value || got["/flagship.io/restored"] != "standby" || len(got) != 2 {
			s.t.Errorf("%s has %v, want %q and a state", prefixes[i], got, value)
		}
	}
	newest := prefixes[len(prefixes)-1]
	led, err := etcd.Choose(s.current(), etcd.External{})
	if err != nil || led == nil || led.Prefix != newest {
		s.t.Errorf("the data directory leads to %v, %v; want %s", led, err, newest)
	}
	return newest
}

// takeOver is what a server does with a data directory before anything else.
func takeOver(t *testing.T, dir string) error {
	t.Helper()
	lock, err := datadir.Acquire(dir)
	if err != nil {
		return err
	}
	t.Cleanup(lock.Release)
	led, err := etcd.Choose(dir, etcd.External{})
	if err != nil {
		return err
	}
	return etcd.TakeOver(t.Context(), dir, led, lock)
}

func TestAStandbyInAnExternalEtcd(t *testing.T) {
	s := newExternalStandby(t)
	s.save(now, "first")
	s.update(true)
	s.update(false)
	s.expectKeys("first")
	s.save(now.Add(time.Hour), "second")
	s.update(true)
	s.expectKeys("first", "second")
	s.update(false)
	prefix := s.expectKeys("second")

	dir := s.current()
	if err := takeOver(t, dir); err != nil {
		t.Fatal(err)
	}
	if got := s.keys()[prefix]; len(got) != 1 || got["/value"] != "second" {
		t.Errorf("the server has %v", got)
	}
	if err := takeOver(t, dir); err == nil {
		t.Error("two servers use a data directory")
	}
}

// TestAStandbyIsTakenOverElsewhere: a server uses a copy of the data directory, with which follow shares nothing but etcd.
func TestAStandbyIsTakenOverElsewhere(t *testing.T) {
	for name, later := range map[string]bool{"the newest": false, "one before the newest": true} {
		t.Run(name, func(t *testing.T) {
			s := newExternalStandby(t)
			s.save(now, "first")
			s.update(true)
			elsewhere := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(elsewhere, os.DirFS(s.current())); err != nil {
				t.Fatal(err)
			}
			if later {
				s.save(now.Add(time.Hour), "second")
				s.update(true)
			}
			if err := takeOver(t, elsewhere); err != nil {
				t.Fatal(err)
			}
			before := s.keys()
			s.save(now.Add(2*time.Hour), "third")
			if _, _, err := s.Update(t.Context(), ignore); !errors.Is(err, backup.ErrTakenOver) {
				t.Errorf("after a server has started: %v", err)
			}
			if !later {
				if err := takeOver(t, s.current()); err != nil {
					t.Errorf("a second server does not join the first: %v", err)
				}
			}
			if after := s.keys(); !maps.EqualFunc(before, after, maps.Equal[map[string]string, map[string]string]) {
				t.Errorf("etcd had %v, and has %v", before, after)
			}
		})
	}
}

// TestACopyOfAnEarlierStandbyIsNoControlPlane: its keys were removed, and a server would begin with an empty store.
func TestACopyOfAnEarlierStandbyIsNoControlPlane(t *testing.T) {
	s := newExternalStandby(t)
	s.save(now, "first")
	s.update(true)
	elsewhere := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(elsewhere, os.DirFS(s.current())); err != nil {
		t.Fatal(err)
	}
	s.save(now.Add(time.Hour), "second")
	s.update(true)
	s.update(false)
	if err := takeOver(t, elsewhere); err == nil || !strings.Contains(err.Error(), "a later backup has replaced them") {
		t.Errorf("a server starts on keys that were removed: %v", err)
	}
	if unused, err := datadir.IsStandby(elsewhere); err != nil || !unused {
		t.Errorf("it is a standby no more: %t, %v", unused, err)
	}
	s.expectKeys("second")
}

// TestAServerAndARemoval exclude each other: a server that has read the link before the update is refused once the removal has begun.
func TestAServerAndARemoval(t *testing.T) {
	s := newExternalStandby(t)
	s.save(now, "first")
	s.update(true)
	led, err := etcd.Choose(s.current(), etcd.External{})
	if err != nil {
		t.Fatal(err)
	}
	if err := led.Withdraw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := takeOver(t, s.current()); err == nil || !strings.Contains(err.Error(), `state is "removing"`) {
		t.Errorf("a server starts on keys that are being removed: %v", err)
	}
}

// TestAnInterruptedUpdate ends after each of its steps: what was there can be taken over, and the next update removes what was left.
func TestAnInterruptedUpdate(t *testing.T) {
	for name, interrupt := range map[string]func(s *standby, client *clientv3.Client){
		"before the keys": func(s *standby, _ *clientv3.Client) {
			s.half("/standby/half")
		},
		"while keys are written": func(s *standby, client *clientv3.Client) {
			s.half("/standby/half")
			if err := etcd.BeginRestore(s.t.Context(), client, "/standby/half"); err != nil {
				s.t.Fatal(err)
			}
			put(s.t, backup.Storage{External: s.External}, map[string]string{"/standby/half/a": "1", "/standby/half/z": "1"})
		},
		"before the name": func(s *standby, client *clientv3.Client) {
			s.half("/standby/half")
			err := errors.Join(etcd.BeginRestore(s.t.Context(), client, "/standby/half"), etcd.EndRestore(s.t.Context(), client, "/standby/half", true))
			if err != nil {
				s.t.Fatal(err)
			}
		},
		"while keys are removed": func(s *standby, client *clientv3.Client) {
			s.half("/standby/half")
			half := *s.External
			half.Prefix = "/standby/half"
			if err := errors.Join(etcd.BeginRestore(s.t.Context(), client, half.Prefix), half.Withdraw(s.t.Context())); err != nil {
				s.t.Fatal(err)
			}
			put(s.t, backup.Storage{External: s.External}, map[string]string{"/standby/half/z": "1"})
		},
		"before an earlier one is removed": func(s *standby, _ *clientv3.Client) {
			earlier, err := etcd.Choose(s.earlier(), etcd.External{})
			if err != nil {
				s.t.Fatal(err)
			}
			if err := earlier.Withdraw(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newExternalStandby(t)
			s.save(now, "first")
			s.update(true)
			s.save(now.Add(time.Hour), "second")
			s.update(true)
			interrupt(s, connect(t, backup.Storage{External: s.External}))
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			if _, _, err := s.Update(canceled, ignore); err == nil {
				t.Error("a canceled update succeeds")
			}
			copied := filepath.Join(t.TempDir(), "copy") // so that the rest of the test goes on with the standby
			if err := os.CopyFS(copied, os.DirFS(s.current())); err != nil {
				t.Fatal(err)
			}
			led, err := etcd.Choose(copied, etcd.External{})
			if err != nil {
				t.Fatal(err)
			}
			if ready, err := led.IsStandby(t.Context()); err != nil || !ready {
				t.Errorf("nothing can be taken over: %t, %v", ready, err)
			}
			s.save(now.Add(2*time.Hour), "third")
			s.update(true)
			s.expectKeys("second", "third")
			s.update(false)
			s.expectKeys("third")
			s.expectDirs(1)
		})
	}
}

// half makes a data directory that leads to keys and has no name yet.
func (s *standby) half(prefix string) {
	s.t.Helper()
	dir, keys := filepath.Join(s.Dir, "partial"), *s.External
	keys.Prefix = prefix
	if err := errors.Join(os.MkdirAll(dir, 0o700), keys.Save(dir)); err != nil {
		s.t.Fatal(err)
	}
}

// earlier is the data directory before the newest.
func (s *standby) earlier() string {
	s.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(s.Dir, "*-*Z"))
	if err != nil || len(dirs) != 2 {
		s.t.Fatalf("there are %v, %v; want two", dirs, err)
	}
	return slices.Min(dirs)
}

// TestAStandbyWithoutItsEtcd stays as it is, and goes on later.
func TestAStandbyWithoutItsEtcd(t *testing.T) {
	s := newExternalStandby(t)
	s.save(now, "first")
	s.update(true)
	reachable := s.External
	s.External = &etcd.External{Endpoints: []string{"http://127.0.0.1:1"}, Prefix: "/standby"}
	s.save(now.Add(time.Hour), "second")
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := s.Update(soon, ignore); err == nil || errors.Is(err, backup.ErrTakenOver) {
		t.Errorf("without etcd: %v", err)
	}
	s.External = reachable
	s.expectKeys("first")
	s.update(true)
	s.expectKeys("first", "second")
}

// TestAStandbyMovesToAnExternalEtcd, and back.
func TestAStandbyMovesToAnExternalEtcd(t *testing.T) {
	s := newExternalStandby(t)
	there := s.External
	s.External = nil
	s.save(now, "first")
	s.update(true)
	s.External = there
	s.save(now.Add(time.Hour), "second")
	s.update(true)
	s.expectKeys("second")
	s.External = nil
	s.save(now.Add(2*time.Hour), "third")
	s.update(true)
	s.update(false)
	s.expectDirs(1)
	s.External = there
	if left := s.keys(); len(left) != 0 {
		t.Errorf("etcd still has %v", left)
	}
}
