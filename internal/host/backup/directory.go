package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/flagship-k8s/flagship/internal/host/backup/archive"
	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// nameTime is the time in the name of a backup.
const nameTime = "20060102T150405Z"

// named matches names of backups: the control plane and the time.
var named = regexp.MustCompile(`^flagship-([0-9a-f]{8})-([0-9]{8}T[0-9]{6}Z)\.tar\.gz\.age$`)

// Stored is a backup in a directory.
type Stored struct {
	Path string `json:"path"`
	// ControlPlane is the beginning of the hash of the control plane's authority, so that backups of several can be in one directory.
	ControlPlane string    `json:"controlPlane"`
	Time         time.Time `json:"time"`
	Bytes        int64     `json:"bytes"`
}

// Save writes a backup to a new file of a directory. The file gets its name when it is complete.
func Save(ctx context.Context, from Storage, dir string, now time.Time, progress func(keys int64), recipients ...age.Recipient) (_ Stored, _ archive.Summary, err error) {
	id, err := controlPlane(from.DataDir)
	if err != nil {
		return Stored{}, archive.Summary{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Stored{}, archive.Summary{}, fmt.Errorf("making the directory of backups: %w", err)
	}
	now = now.UTC().Truncate(time.Second)
	stored := Stored{Path: filepath.Join(dir, "flagship-"+id+"-"+now.Format(nameTime)+".tar.gz.age"), ControlPlane: id, Time: now}
	file, err := os.CreateTemp(dir, ".flagship-*")
	if err != nil {
		return Stored{}, archive.Summary{}, fmt.Errorf("writing a backup: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // after the rename there is none
	summary, err := Create(ctx, from, file, now, progress, recipients...)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return Stored{}, summary, err
	}
	info, err := os.Stat(file.Name())
	if err != nil {
		return Stored{}, summary, fmt.Errorf("reading the size of the backup: %w", err)
	}
	stored.Bytes = info.Size()
	// A link, unlike a rename, replaces no other backup.
	if err := errors.Join(os.Link(file.Name(), stored.Path), syncDir(dir)); err != nil {
		return Stored{}, summary, fmt.Errorf("naming the backup: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(from.DataDir, lastFile), []byte(now.Format(time.RFC3339)+"\n"), 0o600); err != nil {
		return Stored{}, summary, fmt.Errorf("the backup %s is complete; noting its time in the data directory, for the metric of its age: %w", stored.Path, err)
	}
	return stored, summary, nil
}

// lastFile is the file in a data directory with the time of the last backup. Backups leave out files that begin with a dot.
const lastFile = ".last-backup"

// Last is when the last backup of the control plane with this data directory was begun that is complete; false if none is known.
func Last(dataDir string) (time.Time, bool) {
	text, err := os.ReadFile(filepath.Join(dataDir, lastFile))
	if err != nil {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(string(text)))
	return at, err == nil
}

// List returns the backups in a directory by their names, the newest first.
func List(dir string) ([]Stored, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing backups: %w", err)
	}
	var found []Stored
	for _, entry := range entries {
		parts := named.FindStringSubmatch(entry.Name())
		if parts == nil || !entry.Type().IsRegular() {
			continue
		}
		at, err := time.Parse(nameTime, parts[2])
		if err != nil {
			continue // a name that only resembles one
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("listing backups: %w", err)
		}
		found = append(found, Stored{Path: filepath.Join(dir, entry.Name()), ControlPlane: parts[1], Time: at, Bytes: info.Size()})
	}
	slices.SortFunc(found, func(a, b Stored) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Path, b.Path)) })
	return found, nil
}

// Prune deletes all but the newest backups of a control plane in a directory, and returns what it deleted.
func Prune(dir, controlPlane string, keep int) ([]Stored, error) {
	all, err := List(dir)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(all, func(s Stored) bool { return s.ControlPlane != controlPlane })
	if len(own) <= keep {
		return nil, nil
	}
	for i, old := range own[keep:] {
		if err := os.Remove(old.Path); err != nil {
			return own[keep : keep+i], fmt.Errorf("deleting an old backup: %w", err)
		}
	}
	return own[keep:], nil
}

// controlPlane is the beginning of the hash of an authority's certificate.
func controlPlane(dataDir string) (string, error) {
	certificate, err := os.ReadFile(filepath.Join(dataDir, "pki", "ca.crt"))
	if err != nil {
		return "", fmt.Errorf("%s is not the data directory of a control plane: %w", dataDir, err)
	}
	sum := sha256.Sum256(certificate)
	return hex.EncodeToString(sum[:4]), nil
}

func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
