package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/flagship-k8s/flagship/internal/host/backup/archive"
	"github.com/flagship-k8s/flagship/internal/host/backup/repository"
	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
)

// nameTime is the time in the name of a backup.
const nameTime = "20060102T150405Z"

// named matches names of backups: the control plane and the time.
var named = regexp.MustCompile(`^flagship-([0-9a-f]{8})-([0-9]{8}T[0-9]{6}Z)\.tar\.gz\.age$`)

// Stored is a backup in a repository.
type Stored struct {
	// Path is where it is: a path, or s3://BUCKET/NAME.
	Path string `json:"path"`
	// ControlPlane is the beginning of the hash of the control plane's authority, so that backups of several can be in one repository.
	ControlPlane string    `json:"controlPlane"`
	Time         time.Time `json:"time"`
	Bytes        int64     `json:"bytes"`

	name string
}

// Save writes a backup to a repository. It is there when it is complete.
func Save(ctx context.Context, from Storage, to repository.Repository, now time.Time, progress func(keys int64), recipients ...age.Recipient) (Stored, archive.Summary, error) {
	id, err := controlPlane(from.DataDir)
	if err != nil {
		return Stored{}, archive.Summary{}, err
	}
	now = now.UTC().Truncate(time.Second)
	name := "flagship-" + id + "-" + now.Format(nameTime) + ".tar.gz.age"
	var summary archive.Summary
	size, err := to.Write(ctx, name, func(w io.Writer) (err error) {
		summary, err = Create(ctx, from, w, now, progress, recipients...)
		return err
	})
	if err != nil {
		return Stored{}, summary, err
	}
	stored := Stored{Path: to.Location(name), ControlPlane: id, Time: now, Bytes: size, name: name}
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

// List returns the backups in a repository by their names, the newest first.
func List(ctx context.Context, in repository.Repository) ([]Stored, error) {
	files, err := in.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing backups: %w", err)
	}
	var found []Stored
	for _, file := range files {
		parts := named.FindStringSubmatch(file.Name)
		if parts == nil {
			continue
		}
		at, err := time.Parse(nameTime, parts[2])
		if err != nil {
			continue // a name that only resembles one
		}
		found = append(found, Stored{Path: in.Location(file.Name), ControlPlane: parts[1], Time: at, Bytes: file.Bytes, name: file.Name})
	}
	slices.SortFunc(found, func(a, b Stored) int { return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Path, b.Path)) })
	return found, nil
}

// Prune deletes all but the newest backups of a control plane in a repository, and returns what it deleted.
func Prune(ctx context.Context, in repository.Repository, controlPlane string, keep int) ([]Stored, error) {
	all, err := List(ctx, in)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(all, func(s Stored) bool { return s.ControlPlane != controlPlane })
	if len(own) <= keep {
		return nil, nil
	}
	for i, old := range own[keep:] {
		if err := in.Delete(ctx, old.name); err != nil {
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
