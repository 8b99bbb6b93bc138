package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup/archive"
)

const (
	// maxWrite bounds the keys and values of one transaction, in bytes. etcd refuses requests of more than 1.5 MiB, and transactions of more
	// than 128 operations.
	maxWrite, maxOperations = 1 << 20, 100
)

// Restore makes a control plane of a backup, in an empty data directory and an empty store. The control plane that is started on it writes
// to no member that it wrote to before, until a person resumes that: the counts of its writes are left out, so that each such member is
// ahead of them. If there is an error, what Restore wrote to the data directory is removed.
func Restore(ctx context.Context, from io.Reader, to Storage, progress func(keys int64), identities ...age.Identity) (_ archive.Header, _ archive.Summary, err error) {
	lock, err := datadir.Acquire(to.DataDir)
	if err != nil {
		return archive.Header{}, archive.Summary{}, err
	}
	defer lock.Release()
	if err := expectEmpty(to.DataDir); err != nil {
		return archive.Header{}, archive.Summary{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, clear(to.DataDir))
		}
	}()
	r := &restorer{to: to, progress: progress}
	defer r.close()
	header, summary, err := archive.Read(from, archive.Visitor{
		Header: func(header archive.Header) error { return r.open(ctx, header) },
		Page:   func(values []*mvccpb.KeyValue) error { return r.page(ctx, values) },
		File:   r.file,
	}, identities...)
	if err != nil && to.External != nil && r.written > 0 {
		err = fmt.Errorf("%w (remove the keys of etcd that begin with %s/ before the next attempt: %d were written)", err, r.prefix, r.written)
	}
	return header, summary, err
}

type restorer struct {
	to       Storage
	progress func(keys int64)

	storage *etcd.Storage
	client  *clientv3.Client
	prefix  string
	written int64
}

// open opens the store and refuses one that is not empty.
func (r *restorer) open(ctx context.Context, header archive.Header) error {
	if r.to.External == nil {
		var err error
		if r.storage, err = etcd.Open(ctx, etcd.Options{DataDir: r.to.DataDir, Clock: clock.RealClock{}}); err != nil {
			return err
		}
	}
	var err error
	if r.client, r.prefix, err = etcd.Connect(ctx, r.to.DataDir, r.to.External); err != nil {
		return err
	}
	if r.prefix != header.Prefix {
		return fmt.Errorf("the keys of the backup begin with %s, to which encrypted values are bound, and not with %s: set --etcd-prefix %s",
			header.Prefix, r.prefix, header.Prefix)
	}
	present, err := r.client.Get(ctx, r.prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("reading the store: %w", err)
	}
	if present.Count > 0 {
		return fmt.Errorf("the store has %d keys that begin with %s/: restore into an empty one", present.Count, r.prefix)
	}
	return nil
}

func (r *restorer) page(ctx context.Context, values []*mvccpb.KeyValue) error {
	counts := r.prefix + "/leases/" + clusterv1alpha1.SystemNamespace + "/" + clusterv1alpha1.EpochLease("")
	var puts []clientv3.Op
	var size int
	for _, value := range values {
		if strings.HasPrefix(string(value.Key), counts) {
			continue
		}
		if next := len(value.Key) + len(value.Value); len(puts) == maxOperations || size+next > maxWrite {
			if err := r.write(ctx, puts); err != nil {
				return err
			}
			puts, size = nil, 0
		}
		puts = append(puts, clientv3.OpPut(string(value.Key), string(value.Value)))
		size += len(value.Key) + len(value.Value)
	}
	if err := r.write(ctx, puts); err != nil {
		return err
	}
	r.written += int64(len(values))
	r.progress(r.written)
	return nil
}

func (r *restorer) write(ctx context.Context, puts []clientv3.Op) error {
	if len(puts) == 0 {
		return nil
	}
	if _, err := r.client.Txn(ctx).Then(puts...).Commit(); err != nil {
		return fmt.Errorf("writing to the store: %w", err)
	}
	return nil
}

func (r *restorer) file(name string, content []byte) error {
	path := filepath.Join(r.to.DataDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of %s: %w", name, err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

func (r *restorer) close() {
	if r.client != nil {
		_ = r.client.Close()
	}
	if r.storage != nil {
		r.storage.Close()
	}
}

func expectEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the data directory %s: %w", dir, err)
	}
	for _, entry := range entries {
		if entry.Name() != datadir.LockFile {
			return fmt.Errorf("the data directory %s is not empty, it has %q: restore into a new one", dir, entry.Name())
		}
	}
	return nil
}

// clear removes what a restore wrote. The directory was empty before.
func clear(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("removing what was restored: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == datadir.LockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("removing what was restored: %w", err)
		}
	}
	return nil
}
