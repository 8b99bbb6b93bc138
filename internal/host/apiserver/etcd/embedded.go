package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// dirName is the directory of the data in a data directory.
const dirName = "etcd"

const (
	// etcdQuota bounds the database. Reaching it makes storage read-only, so it is far above what a
	// control plane of thousands of objects needs.
	defaultQuota = 8 << 30
	// freeToDisarm is the part of the quota that must be free before a database that was full accepts writes again.
	freeToDisarm = 1.0 / 16
	// shrinkFrom is how much of the database file must be free, in bytes, for it to be shrunk. At least a third of it must be free, too: the
	// whole file is in memory.
	shrinkFrom = 64 << 20
	// etcdPrefix is what all keys start with.
	defaultPrefix = "/registry"
	// etcdDial is how long a connection to an etcd elsewhere may take to come about.
	dialTimeout = 20 * time.Second
	// readyPoll is how often a start checks whether etcd makes progress, and readyPatience for how long it may make none. A start takes less
	// than a second, and an entry that is applied is progress.
	readyPoll, readyPatience = 100 * time.Millisecond, 15 * time.Second
	// longestSocketPath is what the kernel allows in a socket address, less the length of the name.
	longestSocketPath = 90
)

// embedded is the etcd inside this process. It listens on sockets in directories that only its owner
// may enter, and on no port.
type embedded struct {
	server  *embed.Etcd
	dir     string
	sockets string
	// temporary is true if the socket directory is not in the data directory and is removed at the end.
	temporary bool
	// failures has a Failure when this etcd cannot go on. It cannot be stopped any more then.
	failures *failures
	counts   counts
}

// counts are what this etcd has done to have free space, for metrics.
type counts struct{ compacted, compactionFailed, defragmented, defragmentationFailed atomic.Int64 }

// start runs etcd on dir and waits until it serves.
func start(ctx context.Context, dir string, quota int64, noFsync bool) (*embedded, error) {
	if err := check(ctx, dir); err != nil {
		return nil, err
	}
	sockets, temporary, err := socketDir(dir)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	failures := newFailures(dir)
	running := &embedded{dir: dir, sockets: sockets, temporary: temporary, failures: failures}
	cfg := config(dir, sockets, quota, noFsync)
	err = failures.attach(cfg)
	if err == nil {
		running.server, err = launch(ctx, cfg, failures)
	}
	if err == nil {
		err = running.awaitReady(ctx)
	}
	switch failure := (*Failure)(nil); {
	case errors.As(err, &failure), err != nil && running.server == nil:
		running.removeSockets() // the rest of it cannot be stopped
		return nil, err
	case err != nil:
		running.stop()
		return nil, err
	}
	if err := running.freeSpace(ctx); err != nil { // it serves without it
		log.FromContext(ctx).Info("The database was not shrunk", "error", err.Error())
	}
	return running, nil
}

// launch starts etcd.
func launch(ctx context.Context, cfg *embed.Config, failures *failures) (*embed.Etcd, error) {
	type result struct {
		server *embed.Etcd
		err    error
	}
	launched := make(chan result, 1)
	// StartEtcd has no context: after a failure, or when the start is aborted, it may never return, and the process ends without it.
	go func() {
		defer func() {
			if reason := recover(); reason != nil {
				failures.report(&Failure{Dir: cfg.Dir, What: fmt.Sprint(reason)})
			}
		}()
		server, err := embed.StartEtcd(cfg)
		launched <- result{server, err}
	}()
	select {
	case r := <-launched:
		if _, network := errors.AsType[*net.OpError](r.err); network {
			return nil, fmt.Errorf("starting etcd: %w", r.err)
		}
		if r.err != nil {
			return nil, &Failure{Dir: cfg.Dir, What: "starting etcd", Cause: r.err}
		}
		return r.server, nil
	case <-failures.failed:
		return nil, failures.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for etcd: %w", ctx.Err())
	}
}

// awaitReady waits until etcd serves.
func (e *embedded) awaitReady(ctx context.Context) error {
	server := e.server.Server
	last := time.Now()
	// passed is the time in which etcd could have done something: on a machine without free processors, and in a process that was stopped,
	// the ticks are rare.
	passed := last
	watched := progress{at: passed, consistent: passed}
	watched.stored, _ = etcdschema.ReadConsistentIndex(server.Backend().ReadTx())
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		select {
		case <-server.ReadyNotify():
			return nil
		case <-e.failures.failed:
			return e.failures.err
		case err := <-e.server.Err():
			return fmt.Errorf("starting etcd: %w", err)
		case <-server.StopNotify():
			return errors.New("etcd stopped while starting")
		case <-ctx.Done():
			return fmt.Errorf("waiting for etcd: %w", ctx.Err())
		case now := <-tick.C:
			passed, last = passed.Add(min(now.Sub(last), 2*readyPoll)), now
			if what := watched.check(server, passed); what != "" {
				return &Failure{Dir: e.dir, What: what}
			}
		}
	}
}

// progress is what an etcd has done since its start.
type progress struct {
	// stored is the last entry of the write-ahead log that the database has.
	stored uint64
	// applied is the last entry that was applied, and at is when that grew.
	applied uint64
	at      time.Time
	// consistent is when etcd was last not known to lack entries that the database has.
	consistent time.Time
}

// check returns why etcd will not be ready, if it will not. After entries were lost, etcd numbers new entries as these were, and does not
// apply them.
func (p *progress) check(server *etcdserver.EtcdServer, now time.Time) string {
	if index := server.AppliedIndex(); index != p.applied {
		p.applied, p.at = index, now
	}
	committed := server.CommittedIndex()
	if server.Lead() == 0 || committed >= p.stored {
		p.consistent = now
	}
	switch {
	case now.Sub(p.consistent) >= readyPatience:
		return fmt.Sprintf("the write-ahead log ends at entry %d, and the database has entry %d", committed, p.stored)
	case now.Sub(p.at) >= readyPatience:
		return fmt.Sprintf("etcd is not ready and has done nothing for %s", readyPatience)
	}
	return ""
}

// freeSpace shrinks the database file if it is full, or if most of it is free, before anything is served.
func (e *embedded) freeSpace(ctx context.Context) error {
	if e.full() {
		if _, err := e.compact(ctx, e.server.Server.KV().Rev()); err != nil {
			return fmt.Errorf("compacting etcd: %w", err)
		}
		return e.disarm(ctx)
	}
	return e.shrink()
}

// shrink makes the database file smaller if most of it is free. Meanwhile etcd answers nothing.
func (e *embedded) shrink() error {
	backend := e.server.Server.Backend()
	inUse := backend.SizeInUse()
	if backend.Size()-inUse < max(shrinkFrom, inUse/2) {
		return nil
	}
	if free, err := e.diskFree(); err != nil || free < 2*inUse { // it is copied
		return err
	}
	return e.defragment()
}

// full returns whether etcd refuses writes for lack of space. It does so until the alarm is disarmed, which no other process can do.
func (e *embedded) full() bool {
	return slices.ContainsFunc(e.server.Server.Alarms(), func(a *etcdserverpb.AlarmMember) bool {
		return a.Alarm == etcdserverpb.AlarmType_NOSPACE
	})
}

// diskFree is how much the file system of the data has free, in bytes.
func (e *embedded) diskFree() (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(e.dir, &stat); err != nil {
		return 0, fmt.Errorf("reading how much the file system of %s has free: %w", e.dir, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:gosec,unconvert // the type is another one on darwin, and no file system has 2^63 bytes
}

// compact drops the versions of objects that were replaced or deleted before a revision. It returns false if that was done before. The
// API servers do not compact while etcd is full, since they write a key first.
func (e *embedded) compact(ctx context.Context, revision int64) (bool, error) {
	_, err := e.server.Server.Compact(ctx, &etcdserverpb.CompactionRequest{Revision: revision, Physical: true})
	if errors.Is(err, mvcc.ErrCompacted) {
		return false, nil
	}
	count(err, &e.counts.compacted, &e.counts.compactionFailed)
	return err == nil, err
}

// defragment copies the database file without its free pages. Meanwhile etcd answers nothing.
func (e *embedded) defragment() error {
	err := e.server.Server.Backend().Defrag()
	count(err, &e.counts.defragmented, &e.counts.defragmentationFailed)
	if err != nil {
		return fmt.Errorf("defragmenting %s: %w", e.dir, err)
	}
	return nil
}

func count(err error, done, failed *atomic.Int64) {
	if err != nil {
		done = failed
	}
	done.Add(1)
}

// disarm shrinks the database file, and ends the alarm if enough is free then.
func (e *embedded) disarm(ctx context.Context) error {
	server := e.server.Server
	if err := e.defragment(); err != nil {
		return err
	}
	if free := server.Cfg.QuotaBackendBytes - server.Backend().Size(); float64(free) < freeToDisarm*float64(server.Cfg.QuotaBackendBytes) {
		return nil
	}
	for _, alarm := range server.Alarms() {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		_, err := server.Alarm(ctx, &etcdserverpb.AlarmRequest{
			Action: etcdserverpb.AlarmRequest_DEACTIVATE, Alarm: alarm.Alarm, MemberID: alarm.MemberID,
		})
		if err != nil {
			return fmt.Errorf("disarming the alarm of etcd: %w", err)
		}
	}
	return nil
}

func config(dir, sockets string, quota int64, noFsync bool) *embed.Config {
	socket := func(name string) url.URL {
		return url.URL{Scheme: "unix", Path: filepath.Join(sockets, name+".sock")}
	}
	client := socket("client")

	cfg := embed.NewConfig()
	cfg.Name = "flagship"
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.Dir = dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// On a socket of its own, so that connections to the other need not be distinguished.
	cfg.ListenClientHttpUrls = []url.URL{socket("http")}
	// The advertised peer address stays the default one: it is recorded in the data, which may be
	// moved to another directory, and in a cluster of one no member connects to it.
	cfg.ListenPeerUrls = []url.URL{socket("peer")}
	cfg.QuotaBackendBytes = quota
	cfg.UnsafeNoFsync = noFsync
	// There is no follower to catch up, so the log kept in memory may be short. The API server
	// compacts the history every five minutes itself.
	cfg.SnapshotCount = etcdserver.DefaultSnapshotCount / 2
	cfg.SnapshotCatchUpEntries = 500
	cfg.EnableGRPCGateway = false
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{filepath.Join(filepath.Dir(dir), "etcd.log")}
	cfg.EnableLogRotation = true
	cfg.LogRotationConfigJSON = `{"maxsize": 10, "maxbackups": 1}`
	return cfg
}

// size is how much of its quota the database file takes, in bytes. The file does not shrink when objects are deleted: its
// free space is used again, or given back later.
func (e *embedded) size(context.Context) (used, quota int64, err error) {
	return e.server.Server.Backend().Size(), e.server.Server.Cfg.QuotaBackendBytes, nil
}

// endpoint is where a client in this process reaches etcd.
func (e *embedded) endpoint() string { return endpointIn(e.sockets) }

func endpointIn(sockets string) string { return "unix://" + filepath.Join(sockets, "client.sock") }

// stop ends etcd. Whoever uses it must have ended before: clients of a stopped etcd wait for ever. So does the end of an etcd that has
// failed, or fails while it ends, such as for lack of space: it goes on without this.
func (e *embedded) stop() {
	e.failures.unlessFailed(e.server.Close)
	e.removeSockets()
}

func (e *embedded) removeSockets() {
	if e.temporary {
		_ = os.RemoveAll(e.sockets)
	}
}

// socketsName is the directory of the sockets, beside that of the data.
const socketsName = "sockets"

// socketDir is a directory beside the data, or a link there to a private temporary one where that path is too long for a socket address.
func socketDir(dir string) (path string, temporary bool, err error) {
	path = filepath.Join(filepath.Dir(dir), socketsName)
	if len(path) <= longestSocketPath {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return "", false, fmt.Errorf("making the socket directory: %w", err)
		}
		return path, false, nil
	}
	link := path
	path, err = os.MkdirTemp("", "flagship-")
	if err != nil {
		return "", false, fmt.Errorf("making the socket directory: %w", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.RemoveAll(link), os.Symlink(path, link)); err != nil {
		return "", false, fmt.Errorf("linking the socket directory: %w", err)
	}
	return path, true, nil
}

// uncached are the resources upstream keeps no watch cache for.
func uncached() []schema.GroupResource {
	var resources []schema.GroupResource
	for resource, size := range kubeapiserver.DefaultWatchCacheSizes() {
		if size == 0 {
			resources = append(resources, resource)
		}
	}
	return resources
}
