package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	// removeTimeout bounds the removal of keys from an external etcd after a restore that failed.
	removeTimeout = time.Minute
)

// Restore makes a control plane of a backup, in an empty data directory and an empty store. The control plane that is started on it writes
// to no member that it wrote to before, until a person resumes that: the counts of its writes are left out, so that each such member is
// ahead of them. No server starts on it before all of it is there. If there is an error, what Restore wrote is removed.
func Restore(ctx context.Context, from io.Reader, to Storage, progress func(keys int64), identities ...age.Identity) (archive.Header, archive.Summary, error) {
	return restore(ctx, from, to, false, progress, identities...)
}

// restore is Restore. What a standby restores is marked, so that it can be replaced until a server uses it.
func restore(
	ctx context.Context, from io.Reader, to Storage, standby bool, progress func(keys int64), identities ...age.Identity,
) (_ archive.Header, _ archive.Summary, err error) {
	lock, err := datadir.Acquire(to.DataDir)
	if err != nil {
		return archive.Header{}, archive.Summary{}, err
	}
	defer lock.Release()
	if err := expectEmpty(to.DataDir); err != nil {
		return archive.Header{}, archive.Summary{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &restorer{to: to, progress: progress}
	defer func() {
		if err = r.close(ctx, err); err != nil && !r.remains {
			err = errors.Join(err, clear(to.DataDir, lock))
		}
	}()
	if err := lock.BeginRestore(); err != nil {
		return archive.Header{}, archive.Summary{}, err
	}
	header, summary, err := archive.Read(from, archive.Visitor{
		Header: func(header archive.Header) error { return r.open(ctx, header) },
		Page:   func(values []*mvccpb.KeyValue) error { return r.page(ctx, values) },
		File:   r.file,
	}, identities...)
	if err != nil {
		return header, summary, err
	}
	return header, summary, r.end(ctx, lock, standby)
}

type restorer struct {
	to       Storage
	progress func(keys int64)

	storage *etcd.Storage
	client  *clientv3.Client
	// was is what the keys of the backup begin with, and prefix what those in the store do.
	was, prefix string
	rebinder    *rebinder
	// taken is true once the prefix is that of this restore.
	taken bool
	// remains is true after a failure if keys could not be removed from the external etcd. The data directory leads to them.
	remains bool
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
	r.was = header.Prefix
	if r.rebinder, err = newRebinder(ctx, r.was, r.prefix, r.to.EncryptionConfig); err != nil {
		return err
	}
	if r.to.External != nil { // first, so that the keys are found of a restore that is interrupted
		if err := r.to.External.Save(r.to.DataDir); err != nil {
			return err
		}
	}
	if err := etcd.BeginRestore(ctx, r.client, r.prefix); err != nil {
		return err
	}
	r.taken = true
	return nil
}

// end marks what was restored as whole.
func (r *restorer) end(ctx context.Context, lock *datadir.Lock, standby bool) error {
	if standby {
		if err := lock.MarkStandby(); err != nil {
			return err
		}
	}
	if err := etcd.EndRestore(ctx, r.client, r.prefix, standby && r.to.External != nil); err != nil {
		return err
	}
	return lock.EndRestore()
}

func (r *restorer) page(ctx context.Context, values []*mvccpb.KeyValue) error {
	counts := r.was + "/leases/" + clusterv1alpha1.SystemNamespace + "/" + clusterv1alpha1.EpochLease("")
	var puts []clientv3.Op
	var size int
	for _, value := range values {
		if strings.HasPrefix(string(value.Key), counts) {
			continue
		}
		key, content := r.prefix+strings.TrimPrefix(string(value.Key), r.was), value.Value
		if r.was != r.prefix && boundToKey(content) {
			var err error
			if content, err = r.rebinder.rebind(ctx, string(value.Key), content); err != nil {
				return err
			}
		}
		if next := len(key) + len(content); len(puts) == maxOperations || size+next > maxWrite {
			if err := r.write(ctx, puts); err != nil {
				return err
			}
			puts, size = nil, 0
		}
		puts = append(puts, clientv3.OpPut(key, string(content)))
		size += len(key) + len(content)
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

// close ends the use of the store. After a failure it removes the keys that were written to an external one.
func (r *restorer) close(ctx context.Context, failure error) error {
	if failure != nil && r.taken && r.to.External != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		if err := etcd.RemoveRestored(ctx, r.client, r.prefix); err != nil {
			r.remains = true
			failure = fmt.Errorf("%w (remove %s and the keys of etcd that begin with %s/ before the next attempt: %w)", failure, r.to.DataDir, r.prefix, err)
		}
	}
	if r.client != nil {
		_ = r.client.Close()
	}
	if r.storage != nil {
		r.storage.Close()
	}
	return failure
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

// clear removes what a restore wrote, and at last the mark that it is not whole. The directory was empty before.
func clear(dir string, lock *datadir.Lock) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("removing what was restored: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == datadir.LockFile || entry.Name() == datadir.RestoringFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("removing what was restored: %w", err)
		}
	}
	return lock.EndRestore()
}
