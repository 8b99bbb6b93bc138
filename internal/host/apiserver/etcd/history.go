package etcd

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// historyPeriod is how often the size of the database is read.
	historyPeriod = 2 * time.Second
	// historyFrom is the part of the quota that must be in use, and historyGrowth the part by which that must have grown since
	// the last time, for history to be compacted early.
	historyFrom, historyGrowth = 1.0 / 2, 1.0 / 16
	// historyKept is the part of the quota that the versions which are kept take, if each is as large as can be: a watch that
	// lags behind them starts over.
	historyKept = 1.0 / 8
	// freePause is the shortest pause between two times that a full database is shrunk.
	freePause = time.Second
	// shrinkUpTo is how much may be in use, in bytes, for the database to be shrunk while it runs. That much takes a second to copy, in which
	// nothing is answered.
	shrinkUpTo = 256 << 20
	// idleFor is for how long a database must be idle before it is shrunk while it runs, and idleWrites how many writes are made in a
	// historyPeriod of an idle one: an idle control plane renews its leases.
	idleFor, idleWrites = 30 * time.Second, 40
	// largestValue is about the largest value of etcd, in bytes.
	largestValue = 3 << 19
)

// history compacts the versions of objects that were replaced, when they fill the database. API servers compact what is older
// than five minutes. In that time a user who updates a few large objects again and again, within any limit of what is
// stored for him, could fill a database of 8 GiB, after which no client could write.
type history struct {
	etcd *embedded
	// base is what was in use when least was since the last compaction, in bytes.
	base int64
	// freeAgain is when a full database may be shrunk again, and failed whether the last time failed, such as for lack of space for the copy.
	freeAgain time.Time
	failed    bool
	// revision is that of the last period, and busy when more than idleWrites were made in one.
	revision int64
	busy     time.Time
}

// run watches the size until the context ends.
func (h *history) run(ctx context.Context, clk clock.WithTicker) {
	ticker := clk.NewTicker(historyPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
		if err := errors.Join(h.bound(ctx), h.free(ctx, clk), h.shrink(clk)); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Info("The database was not made smaller", "error", err.Error())
		}
	}
}

// bound compacts if that is due.
func (h *history) bound(ctx context.Context) error {
	server := h.etcd.server.Server
	used, quota := server.Backend().SizeInUse(), float64(server.Cfg.QuotaBackendBytes)
	if h.base == 0 || used < h.base {
		h.base = used
	}
	if float64(used) < historyFrom*quota || float64(used-h.base) < historyGrowth*quota {
		return nil
	}
	revision := server.KV().Rev() - int64(historyKept*quota/largestValue)
	if revision <= 0 {
		return nil
	}
	h.base = used // what is freed lowers it
	_, err := h.etcd.compact(ctx, revision)
	return err
}

// free makes a database that was full accept writes again after objects were deleted. Each time etcd answers nothing for as long as it
// takes to copy the database, so the pauses are ten times as long.
func (h *history) free(ctx context.Context, clk clock.PassiveClock) error {
	began := clk.Now()
	if !h.etcd.full() || began.Before(h.freeAgain) {
		return nil
	}
	changed, err := h.etcd.compact(ctx, h.etcd.server.Server.KV().Rev())
	if err != nil || !changed && !h.failed {
		return err
	}
	err = h.etcd.disarm(ctx)
	h.failed = err != nil
	h.freeAgain = clk.Now().Add(max(freePause, 10*clk.Since(began)))
	return err
}

// shrink gives back what a burst took, ten minutes after it: by then its history is compacted. Requests that come meanwhile wait for as long
// as it takes to copy what is in use, so it is done while the database is idle.
func (h *history) shrink(clk clock.PassiveClock) error {
	revision, now := h.etcd.server.Server.KV().Rev(), clk.Now()
	if revision-h.revision > idleWrites {
		h.busy = now
	}
	h.revision = revision
	if now.Sub(h.busy) < idleFor || h.etcd.server.Server.Backend().SizeInUse() > shrinkUpTo {
		return nil
	}
	h.busy = now // one that failed, such as for lack of space, is tried again later
	return h.etcd.shrink()
}
