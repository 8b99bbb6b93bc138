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
		if err := errors.Join(h.bound(ctx), h.free(ctx, clk)); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Info("The history of storage was not compacted early", "error", err.Error())
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
