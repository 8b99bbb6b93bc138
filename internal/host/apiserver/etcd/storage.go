package etcd

import (
	"cmp"
	"context"
	"path/filepath"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
)

// StorageOptions say which etcd to use.
type Options struct {
	// External is an etcd that runs elsewhere; nil means one inside this process.
	External *External
	// DataDir holds the data of the etcd inside this process, Quota bounds its database in bytes (0 means 8 GiB), and NoFsync
	// lets it trust the kernel to write its data.
	DataDir string
	Quota   int64
	NoFsync bool
	// Count counts what is stored. An etcd inside this process then compacts its history early when that fills the database.
	Count bool
	// Clock paces compaction and counting.
	Clock clock.WithTicker
}

// Storage is the etcd of an API server.
type Storage struct {
	// Transport is how the API server connects to it.
	Transport storagebackend.TransportConfig
	// Direct calls the etcd inside this process; nil for an external one.
	Direct *storage.Direct
	// Usage has the resources that have objects, and Namespaces how much is stored in each namespace. Both are nil unless
	// it is counted.
	Usage      *storage.Usage
	Namespaces *storage.Namespaces
	// Size is the size of the database and its quota, in bytes; nil unless it is counted.
	Size func(context.Context) (used, quota int64, err error)
	// Events is the connection for the storage of Events; nil unless it is counted.
	Events *clientv3.Client

	embedded *embedded
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// OpenStorage starts the etcd inside this process, unless there is an external one. It runs until Close; the context ends the
// start only.
func Open(ctx context.Context, o Options) (_ *Storage, err error) {
	s := &Storage{}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	prefix, newClient := defaultPrefix, func() (*clientv3.Client, error) { return v3client.New(s.embedded.server.Server), nil }
	if o.External != nil {
		s.Transport = o.External.transport()
		prefix, newClient = o.External.prefix(), o.External.client
	} else {
		s.embedded, err = start(ctx, filepath.Join(o.DataDir, dirName), cmp.Or(o.Quota, defaultQuota), o.NoFsync)
		if err != nil {
			return nil, err
		}
		s.Transport.ServerList = []string{s.embedded.endpoint()}
		s.Direct = storage.New(s.embedded.server.Server, o.Clock, uncached()...)
	}
	if !o.Count {
		return s, nil
	}
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	s.Usage = storage.NewUsage(client, o.Clock, prefix)
	counting, err := newClient()
	if err != nil {
		return nil, err
	}
	s.Namespaces = storage.NewNamespaces(counting, o.Clock, prefix, notOfNamespaces)
	if s.Events, err = newClient(); err != nil {
		return nil, err
	}
	s.Size = func(ctx context.Context) (used, quota int64, err error) { return largest(ctx, counting) }
	if s.embedded != nil {
		s.Size = s.embedded.size
		s.running.Go(func() { (&history{etcd: s.embedded}).run(running, o.Clock) })
	}
	s.running.Go(func() { s.Usage.Run(running) })
	s.running.Go(func() { s.Namespaces.Run(running) })
	return s, nil
}

// Capacity is what an embedded etcd has to store things, and what it did to have it.
type Capacity struct {
	// Full is true while the database is at its quota, and takes nothing but deletions.
	Full bool
	// Quota is the largest size of the database, and Free what its file system has free, in bytes; -1 if that cannot be read.
	Quota, Free int64
	// Compacted and Defragmented count early compactions and defragmentations of this process; the others those that failed.
	Compacted, CompactionFailed, Defragmented, DefragmentationFailed int64
}

// Capacity returns false for an external etcd, which is left to its operator.
func (s *Storage) Capacity() (Capacity, bool) {
	if s.embedded == nil {
		return Capacity{}, false
	}
	free, err := s.embedded.diskFree()
	if err != nil {
		free = -1
	}
	c := &s.embedded.counts
	return Capacity{
		Full: s.embedded.full(), Quota: s.embedded.server.Server.Cfg.QuotaBackendBytes, Free: free,
		Compacted: c.compacted.Load(), CompactionFailed: c.compactionFailed.Load(),
		Defragmented: c.defragmented.Load(), DefragmentationFailed: c.defragmentationFailed.Load(),
	}, true
}

// Failed is closed when the etcd inside this process cannot go on: Failure returns why. Nothing that uses it ends in order then. It is never
// closed for an external one.
func (s *Storage) Failed() <-chan struct{} {
	if s.embedded == nil {
		return nil
	}
	return s.embedded.failures.failed
}

// Failure is why the etcd inside this process cannot go on. It may be called once Failed is closed.
func (s *Storage) Failure() error { return s.embedded.failures.err }

// Close ends everything that Open started. The API server must have ended before. It does not wait for what
// uses an etcd that has failed.
func (s *Storage) Close() {
	if s.embedded == nil {
		s.close()
		return
	}
	s.embedded.failures.unlessFailed(s.close)
	s.embedded.removeSockets() // which close does not reach after a failure
}

func (s *Storage) close() {
	s.cancel()
	s.running.Wait()
	if s.Events != nil {
		_ = s.Events.Close()
	}
	if s.Namespaces != nil {
		s.Namespaces.Stop()
	}
	if s.Usage != nil {
		s.Usage.Stop()
	}
	if s.Direct != nil {
		s.Direct.Stop()
	}
	if s.embedded != nil {
		s.embedded.stop()
	}
}

// notOfNamespaces is the path of Works: they are stored in the namespace of their cluster, and with encryption the key does not show for
// which namespace.
const notOfNamespaces = workv1alpha1.GroupName + "/works/"
