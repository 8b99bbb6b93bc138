package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/kubeapiserver"
)

const (
	// etcdQuota bounds the database. Reaching it makes storage read-only, so it is far above what a
	// control plane of thousands of objects needs.
	defaultQuota = 8 << 30
	// freeToDisarm is the part of the quota that must be free before a database that was full accepts writes again.
	freeToDisarm = 1.0 / 16
	// etcdPrefix is what all keys start with.
	defaultPrefix = "/registry"
	// etcdDial is how long a connection to an etcd elsewhere may take to come about.
	dialTimeout = 20 * time.Second
	// longestSocketPath is what the kernel allows in a socket address, less the length of the name.
	longestSocketPath = 90
)

// etcd is the storage inside this process. It listens on sockets in directories that only its owner
// may enter, and on no port.
type embedded struct {
	server  *embed.Etcd
	sockets string
	// temporary is true if the socket directory is not in the data directory and is removed at the end.
	temporary bool
}

// startEtcd runs etcd on dir and waits until it serves.
func start(ctx context.Context, dir string, quota int64, noFsync bool) (*embedded, error) {
	sockets, temporary, err := socketDir(dir)
	if err != nil {
		return nil, err
	}
	running := &embedded{sockets: sockets, temporary: temporary}
	server, err := embed.StartEtcd(config(dir, sockets, quota, noFsync))
	if err != nil {
		running.removeSockets()
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	running.server = server
	select {
	case <-server.Server.ReadyNotify():
		if err := running.disarmFull(ctx); err != nil {
			running.stop()
			return nil, fmt.Errorf("disarming the alarm of etcd: %w", err)
		}
		return running, nil
	case err := <-server.Err():
		running.stop()
		return nil, fmt.Errorf("starting etcd: %w", err)
	case <-server.Server.StopNotify():
		running.stop()
		return nil, errors.New("etcd stopped while starting")
	case <-ctx.Done():
		running.stop()
		return nil, fmt.Errorf("waiting for etcd: %w", ctx.Err())
	}
}

// disarmFull ends the alarm of an etcd that was full, if it is not any more.
func (e *embedded) disarmFull(ctx context.Context) error {
	if !e.full() {
		return nil
	}
	if _, err := e.compact(ctx, e.server.Server.KV().Rev()); err != nil {
		return err
	}
	return e.disarm(ctx)
}

// full returns whether etcd refuses writes for lack of space. It does so until the alarm is disarmed, which no other process can do.
func (e *embedded) full() bool {
	return slices.ContainsFunc(e.server.Server.Alarms(), func(a *etcdserverpb.AlarmMember) bool {
		return a.Alarm == etcdserverpb.AlarmType_NOSPACE
	})
}

// compact drops the versions of objects that were replaced or deleted before a revision. It returns false if that was done before. The
// API servers do not compact while etcd is full, since they write a key first.
func (e *embedded) compact(ctx context.Context, revision int64) (bool, error) {
	_, err := e.server.Server.Compact(ctx, &etcdserverpb.CompactionRequest{Revision: revision, Physical: true})
	if errors.Is(err, mvcc.ErrCompacted) {
		return false, nil
	}
	return err == nil, err
}

// disarm shrinks the database file, and ends the alarm if enough is free then. Meanwhile etcd answers nothing.
func (e *embedded) disarm(ctx context.Context) error {
	server := e.server.Server
	if err := server.Backend().Defrag(); err != nil {
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
			return err
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
// free space is used again.
func (e *embedded) size(context.Context) (used, quota int64, err error) {
	return e.server.Server.Backend().Size(), e.server.Server.Cfg.QuotaBackendBytes, nil
}

// endpoint is where a client in this process reaches etcd.
func (e *embedded) endpoint() string { return endpointIn(e.sockets) }

func endpointIn(sockets string) string { return "unix://" + filepath.Join(sockets, "client.sock") }

// stop ends etcd. Whoever uses it must have ended before: clients of a stopped etcd wait for ever.
func (e *embedded) stop() {
	e.server.Close()
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
