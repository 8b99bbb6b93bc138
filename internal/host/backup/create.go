package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup/archive"
	"github.com/flagship-k8s/flagship/internal/knowledge/version"
)

// Storage is where a control plane keeps what it has.
type Storage struct {
	// DataDir has keys, certificates and configuration and, unless there is an external etcd, the store.
	DataDir string
	// External is the etcd cluster of the control plane. Nil means the etcd inside the server that uses DataDir.
	External *etcd.External
	// EncryptionConfig is the path of the EncryptionConfiguration of the server, if that is not the built-in one. A restore reads it for values
	// that are bound to their keys, if those get another prefix.
	EncryptionConfig string
}

const (
	// pageKeys is how many keys are read at once.
	pageKeys = 500
	// maxFiles bounds the files of a data directory, in bytes. A control plane has less than 1 MiB of them.
	maxFiles = 32 << 20
)

// errFilesChanged is returned when keys or certificates were replaced while the store was read: with old files, new values in the store
// could not be decrypted.
var errFilesChanged = errors.New("keys or configuration in the data directory changed during the backup: run it again")

// Create writes a backup of a control plane that runs. Progress is called with the number of keys that are written.
func Create(ctx context.Context, from Storage, to io.Writer, now time.Time, progress func(keys int64), recipients ...age.Recipient) (archive.Summary, error) {
	client, prefix, err := etcd.Connect(ctx, from.DataDir, from.External)
	if err != nil {
		return archive.Summary{}, fmt.Errorf("%w: a backup is made while the control plane runs, on its machine, with its --data-dir", err)
	}
	defer func() { _ = client.Close() }()
	before, err := filesOf(from.DataDir)
	if err != nil {
		return archive.Summary{}, err
	}
	latest, err := client.Get(ctx, prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return archive.Summary{}, fmt.Errorf("reading the revision of the store: %w", err)
	}
	w, err := archive.NewWriter(to, archive.Header{
		Time: now.UTC().Truncate(time.Second), Release: version.Get().Version, Prefix: prefix, Revision: latest.Header.Revision,
	}, recipients...)
	if err != nil {
		return archive.Summary{}, err
	}
	if err := copyStore(ctx, client, prefix, latest.Header.Revision, w, progress); err != nil {
		return archive.Summary{}, err
	}
	after, err := filesOf(from.DataDir)
	if err != nil {
		return archive.Summary{}, err
	}
	if !maps.EqualFunc(before, after, bytes.Equal) {
		return archive.Summary{}, errFilesChanged
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if err := w.File(name, after[name]); err != nil {
			return archive.Summary{}, err
		}
	}
	return w.Close()
}

// copyStore writes all keys at one revision. Keys with a lease end by themselves, as Events do, and are left out.
func copyStore(ctx context.Context, client *clientv3.Client, prefix string, revision int64, w *archive.Writer, progress func(keys int64)) error {
	start, end := prefix+"/", clientv3.GetPrefixRangeEnd(prefix+"/")
	var written int64
	for {
		page, err := client.Get(ctx, start, clientv3.WithRange(end), clientv3.WithRev(revision), clientv3.WithLimit(pageKeys))
		if errors.Is(err, rpctypes.ErrCompacted) {
			return fmt.Errorf("the store took so long to read that its state of the beginning was compacted: run it again: %w", err)
		}
		if err != nil {
			return fmt.Errorf("reading the store: %w", err)
		}
		kept := slices.DeleteFunc(slices.Clone(page.Kvs), func(value *mvccpb.KeyValue) bool {
			return value.Lease != 0 || etcd.IsStateOfRestore(prefix, string(value.Key))
		})
		if len(kept) > 0 {
			if err := w.Page(kept); err != nil {
				return err
			}
		}
		written += int64(len(kept))
		progress(written)
		if !page.More {
			return nil
		}
		start = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// filesOf reads the files of a data directory that a control plane cannot do without, by their path in it, with slashes. Left out are the store, sockets,
// logs, the settings of an external etcd, which a restore writes anew, and files that are being written.
func filesOf(dir string) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	found, size := map[string][]byte{}, int64(0)
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{"etcd", "sockets", "audit"}, name) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || name == datadir.LockFile || name == etcd.SettingsFile || strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(name, "etcd") && path.Ext(name) == ".log" {
			return nil
		}
		content, err := fs.ReadFile(root.FS(), name)
		if err != nil {
			return err
		}
		if size += int64(len(content)); size > maxFiles {
			return fmt.Errorf("it has more than %d MiB of files besides the store: is it the data directory of a control plane?", maxFiles>>20)
		}
		found[name] = content
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the data directory %s: %w", dir, err)
	}
	return found, nil
}
