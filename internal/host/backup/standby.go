package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"filippo.io/age"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup/repository"
)

// Current is the name of the link in the directory of a standby that leads to the data directory to start a server on.
const Current = "current"

// ErrTakenOver is returned once a server was started on the data directory of a standby: nothing may replace it any more.
var ErrTakenOver = etcd.ErrTakenOver

// restored matches the data directories of a standby: the control plane and the time of the backup.
var restored = regexp.MustCompile(`^[0-9a-f]{8}-[0-9]{8}T[0-9]{6}Z$`)

// Standby is a directory with the newest backup of a control plane, restored, so that a server can be started on it at once. It has a data
// directory for that backup, and the link Current to it. With an external etcd, the keys of each backup have a prefix of their own there, and
// the data directory leads to them.
type Standby struct {
	Dir  string
	From repository.Repository
	// ControlPlane is that of the backups to restore; empty if the repository has those of one only.
	ControlPlane string
	Identities   []age.Identity
	// External is the etcd cluster that backups are restored to; its prefix is what those of the backups begin with. Nil means an etcd in the
	// data directory.
	External *etcd.External
	// EncryptionConfig is that of Storage.
	EncryptionConfig string
	// NewID returns a random name, which no other standby on that etcd uses. It is needed with External.
	NewID func() string
}

// Update restores the newest backup, unless it is restored already. It returns that backup, and whether it was restored by this call. A
// backup that cannot be restored changes nothing. After a server was started on the data directory, it returns ErrTakenOver.
func (s *Standby) Update(ctx context.Context, progress func(keys int64)) (_ Stored, updated bool, err error) {
	present, err := s.current()
	if err != nil {
		return Stored{}, false, err
	}
	if present != "" {
		if unused, err := s.unused(ctx, filepath.Join(s.Dir, present)); err != nil || !unused {
			return Stored{}, false, cmp.Or(err, ErrTakenOver)
		}
	}
	if err := s.removeOthers(ctx, present); err != nil {
		return Stored{}, false, err
	}
	newest, err := Newest(ctx, s.From, s.ControlPlane)
	if err != nil {
		return Stored{}, false, err
	}
	next := newest.ControlPlane + "-" + newest.Time.Format(nameTime)
	// The names of one control plane sort by time. A repository that has lost its newest backups does not take the standby back.
	if id, _, _ := strings.Cut(present, "-"); id == newest.ControlPlane && next <= present {
		return newest, false, nil
	}
	if err := s.restore(ctx, newest, next, present, progress); err != nil {
		return newest, false, err
	}
	if present != "" { // the link of a server that runs does not change
		lock, err := s.lockStandby(ctx, filepath.Join(s.Dir, present))
		if err != nil {
			return newest, false, err
		}
		defer lock.Release()
	}
	// What was there until now stays until the next update: a server may have read the link already.
	return newest, true, s.link(next)
}

// current is the data directory that the link leads to; empty if there is none.
func (s *Standby) current() (string, error) {
	link := filepath.Join(s.Dir, Current)
	present, err := os.Readlink(link)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading what the standby has: %w", err)
	}
	if !restored.MatchString(present) {
		return "", fmt.Errorf("%s leads to %s, which is no data directory of this standby: use another directory", link, present)
	}
	return present, nil
}

// Newest returns the newest backup of a control plane in a repository; without a name, of the only one.
func Newest(ctx context.Context, in repository.Repository, controlPlane string) (Stored, error) {
	all, err := List(ctx, in)
	if err != nil {
		return Stored{}, err
	}
	var newest *Stored
	for i, b := range all {
		switch {
		case controlPlane != "" && b.ControlPlane != controlPlane:
		case newest == nil:
			newest = &all[i]
		case newest.ControlPlane != b.ControlPlane:
			return Stored{}, fmt.Errorf("there are backups of the control planes %s and %s: set --control-plane", newest.ControlPlane, b.ControlPlane)
		}
	}
	if newest == nil {
		return Stored{}, errors.New("there is no backup of the control plane")
	}
	return *newest, nil
}

// keysOf returns the external etcd that has the keys of a data directory; nil if there is none.
func (s *Standby) keysOf(dir string) (*etcd.External, error) {
	flags := etcd.External{}
	if s.External != nil { // which may have other servers than when the directory was made
		flags = *s.External
		flags.Prefix = ""
	}
	saved, err := etcd.Saved(dir)
	if err != nil || saved == nil {
		return nil, err
	}
	return etcd.Choose(dir, flags)
}

// unused returns whether no server has used a data directory, or its keys in an external etcd through a copy of the directory.
func (s *Standby) unused(ctx context.Context, dir string) (bool, error) {
	unused, err := datadir.IsStandby(dir)
	if err != nil || !unused {
		return false, err
	}
	keys, err := s.keysOf(dir)
	if err != nil || keys == nil {
		return true, err
	}
	return keys.IsStandby(ctx)
}

// lockStandby locks a data directory that no server has used, nor its keys in an external etcd.
func (s *Standby) lockStandby(ctx context.Context, dir string) (*datadir.Lock, error) {
	lock, err := lockUnused(dir)
	if err != nil {
		return nil, err
	}
	if unused, err := s.unused(ctx, dir); err != nil || !unused {
		lock.Release()
		return nil, cmp.Or(err, ErrTakenOver)
	}
	return lock, nil
}

// lockUnused locks a data directory that no server has used.
func lockUnused(dir string) (*datadir.Lock, error) {
	lock, err := datadir.Acquire(dir)
	if _, inUse := errors.AsType[*datadir.InUseError](err); inUse {
		return nil, fmt.Errorf("%w: %w", ErrTakenOver, err)
	}
	if err != nil {
		return nil, err
	}
	if unused, err := datadir.IsStandby(dir); err != nil || !unused {
		lock.Release()
		return nil, cmp.Or(err, ErrTakenOver)
	}
	return lock, nil
}

// partial is the data directory that is being restored.
const partial = "partial"

// restore makes a data directory of a backup. It gets its name when it is complete.
func (s *Standby) restore(ctx context.Context, from Stored, name, present string, progress func(keys int64)) (err error) {
	dir := filepath.Join(s.Dir, partial)
	if err := s.removePartial(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the standby: %w", err)
	}
	file, err := s.From.Open(ctx, from.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	to := Storage{DataDir: dir, EncryptionConfig: s.EncryptionConfig}
	if s.External != nil {
		keys := *s.External
		keys.Prefix = path.Join(keys.Prefix, name+"-"+s.NewID())
		to.External = &keys
	}
	if _, _, err := restore(ctx, file, to, true, progress, s.Identities...); err != nil {
		return fmt.Errorf("restoring %s: %w", from.Path, err)
	}
	if err := s.checkOrigin(dir, present, from); err != nil {
		return errors.Join(err, s.removePartial(ctx))
	}
	if err := s.rename(dir, filepath.Join(s.Dir, name)); err != nil {
		return fmt.Errorf("naming the data directory: %w", err)
	}
	return nil
}

// checkOrigin returns an error unless a data directory was made by who has the private key of the control plane's authority, which is the one
// that the standby has already, if it has one. Whoever may write to the repository can put a backup there that recipients decrypt, since
// their keys are public, and no person checks each backup that a standby restores.
func (s *Standby) checkOrigin(dir, present string, from Stored) error {
	certificate, key := filepath.Join("pki", "ca.crt"), filepath.Join("pki", "ca.key")
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, certificate), filepath.Join(dir, key)); err != nil {
		return fmt.Errorf("%s is not restored: its authority has no private key that belongs to it: %w", from.Path, err)
	}
	id, err := controlPlane(dir)
	if err != nil {
		return err
	}
	if id != from.ControlPlane {
		return fmt.Errorf("%s is not restored: it is a backup of the control plane %s", from.Path, id)
	}
	if was, _, _ := strings.Cut(present, "-"); was != id {
		return nil
	}
	is, err := os.ReadFile(filepath.Join(dir, certificate))
	if err != nil {
		return fmt.Errorf("reading the restored authority: %w", err)
	}
	trusted, err := os.ReadFile(filepath.Join(s.Dir, present, certificate))
	if err != nil {
		return fmt.Errorf("reading the authority of the standby: %w", err)
	}
	if !bytes.Equal(is, trusted) {
		return fmt.Errorf("%s is not restored: its authority is another one than that of the standby", from.Path)
	}
	return nil
}

// removeOthers removes the data directories of the standby but one, unless a server uses one of them.
func (s *Standby) removeOthers(ctx context.Context, keep string) error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading what the standby has: %w", err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == keep || !restored.MatchString(entry.Name()) {
			continue
		}
		if err := s.remove(ctx, filepath.Join(s.Dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Standby) remove(ctx context.Context, dir string) error {
	if err := s.removePartial(ctx); err != nil {
		return err
	}
	lock, err := s.lockToRemove(ctx, dir)
	if err != nil {
		return err
	}
	defer lock.Release()
	// First it loses its name, so that what is left of an interrupted removal is none of the standby's data directories.
	if err := s.rename(dir, filepath.Join(s.Dir, partial)); err != nil {
		return fmt.Errorf("removing an earlier state of the standby: %w", err)
	}
	return s.removePartial(ctx)
}

// lockToRemove locks a data directory that no server has used, and keeps servers from its keys.
func (s *Standby) lockToRemove(ctx context.Context, dir string) (*datadir.Lock, error) {
	keys, err := s.keysOf(dir)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return s.lockStandby(ctx, dir)
	}
	lock, err := lockUnused(dir)
	if err != nil {
		return nil, err
	}
	if err := keys.Withdraw(ctx); err != nil {
		lock.Release()
		return nil, err
	}
	return lock, nil
}

// removePartial removes what an interrupted restore or removal left, at first from the external etcd: the data directory leads there.
func (s *Standby) removePartial(ctx context.Context) error {
	dir := filepath.Join(s.Dir, partial)
	keys, err := s.keysOf(dir)
	if err != nil {
		return err
	}
	if keys != nil {
		if err := keys.RemoveRestored(ctx); err != nil {
			return fmt.Errorf("removing an earlier state of the standby: %w", err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing an earlier state of the standby: %w", err)
	}
	return nil
}

// link makes the link to the data directory, or replaces it in one step.
func (s *Standby) link(target string) error {
	link := filepath.Join(s.Dir, Current)
	next := link + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replacing what the standby has: %w", err)
	}
	if err := os.Symlink(target, next); err != nil {
		return fmt.Errorf("replacing what the standby has: %w", err)
	}
	if err := s.rename(next, link); err != nil {
		return fmt.Errorf("replacing what the standby has: %w", err)
	}
	return nil
}

// rename renames in the directory of the standby. It survives a loss of power: keys in etcd are removed after it.
func (s *Standby) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	dir, err := os.Open(s.Dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
