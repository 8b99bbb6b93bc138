package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	etcdservererrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestHistoryIsCompactedEarly writes one value again and again, until that fills more than half of storage.
func TestHistoryIsCompactedEarly(t *testing.T) {
	const quota = 64 << 20
	e, err := start(t.Context(), t.TempDir()+"/etcd", quota, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	client := v3client.New(e.server.Server)
	t.Cleanup(func() { _ = client.Close() })
	h := history{etcd: e}
	if err := h.bound(t.Context()); err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("x", 1<<20)
	const writes = 40
	for range writes {
		if _, err := client.Put(t.Context(), "/registry/configmaps/shop/a", value); err != nil {
			t.Fatal(err)
		}
	}
	e.server.Server.Backend().ForceCommit() // what is in use is counted by then
	if used := e.server.Server.Backend().SizeInUse(); used < writes<<20*9/10 {
		t.Fatalf("%d bytes are in use after %d MB were written", used, writes)
	}
	if err := h.bound(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What was compacted is free one transaction later.
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.Put(ctx, "/registry/configmaps/shop/small", "x")
		return e.server.Server.Backend().SizeInUse() < quota/4, err
	})
	if err != nil {
		t.Fatalf("%d bytes are in use: %v", e.server.Server.Backend().SizeInUse(), err)
	}
	answer, err := client.Get(t.Context(), "/registry/configmaps/shop/a")
	if err != nil || answer.Count != 1 || string(answer.Kvs[0].Value) != value {
		t.Fatalf("the present version is gone: %v, %v", answer, err)
	}
}

// TestAFullDatabaseAcceptsWritesAgain fills a database, and then deletes from it.
func TestAFullDatabaseAcceptsWritesAgain(t *testing.T) {
	const quota = 16 << 20
	for name, again := range map[string]func(*testing.T, *embedded, string) *embedded{
		"while it runs": func(t *testing.T, e *embedded, _ string) *embedded {
			if err := (&history{etcd: e}).free(t.Context(), clock.RealClock{}); err != nil {
				t.Fatal(err)
			}
			return e
		},
		"with the next start": func(t *testing.T, e *embedded, dir string) *embedded {
			e.stop()
			e, err := start(t.Context(), dir, quota, true)
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/etcd"
			e, err := start(t.Context(), dir, quota, true)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.stop() })
			put := func(name string) error {
				_, err := e.server.Server.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte(name), Value: bytes.Repeat([]byte("x"), large)})
				e.server.Server.Backend().ForceCommit() // the size is that of the last commit, which is one of many writes otherwise
				return err
			}
			stored := 0
			for err = put("/large/0"); err == nil && stored < 4*quota/large; err = put(fmt.Sprintf("/large/%d", stored)) {
				stored++
			}
			if !errors.Is(err, etcdservererrors.ErrNoSpace) || !e.full() {
				t.Fatalf("%d objects were stored, then: %v", stored, err)
			}
			if capacity, _ := (&Storage{embedded: e}).Capacity(); !capacity.Full || capacity.Quota != quota || capacity.Free <= 0 || capacity.Defragmented != 0 {
				t.Errorf("a full database has %+v", capacity)
			}
			if err := put("/more"); !errors.Is(err, etcdservererrors.ErrNoSpace) {
				t.Fatalf("a write to a full database: %v", err)
			}
			most := &etcdserverpb.DeleteRangeRequest{Key: []byte("/large/1"), RangeEnd: []byte("/large0")}
			if _, err := e.server.Server.DeleteRange(t.Context(), most); err != nil {
				t.Fatal(err)
			}
			e = again(t, e, dir)
			if err := put("/more"); err != nil {
				t.Fatalf("after objects were deleted: %v", err)
			}
			if capacity, _ := (&Storage{embedded: e}).Capacity(); capacity.Full || capacity.Compacted != 1 || capacity.Defragmented != 1 {
				t.Errorf("a database that takes writes again has %+v", capacity)
			}
			answer, err := e.server.Server.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("/large/"), RangeEnd: []byte("/large0")})
			if err != nil || answer.Count != 1 || len(answer.Kvs[0].Value) != large {
				t.Errorf("%d objects are left: %v", answer.Count, err)
			}
		})
	}
}

// TestAFailedDefragmentationIsTriedAgain: what made it fail, such as a full disk, is no change of the database.
func TestAFailedDefragmentationIsTriedAgain(t *testing.T) {
	const quota = 16 << 20
	e, err := start(t.Context(), t.TempDir()+"/etcd", quota, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	arm := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE}
	if _, err := e.server.Server.Alarm(t.Context(), arm); err != nil {
		t.Fatal(err)
	}
	clk := clocktesting.NewFakeClock(time.Now())
	h := history{etcd: e, failed: true}
	if _, err := e.compact(t.Context(), e.server.Server.KV().Rev()); err != nil {
		t.Fatal(err)
	}
	if err := h.free(t.Context(), clk); err != nil || e.full() || h.failed {
		t.Errorf("full: %v, failed: %v, %v", e.full(), h.failed, err)
	}
}

// large is the size of the objects of a database that is mostly free.
const large = 1 << 20

// mostlyFree starts an etcd of which a hundredth is in use.
func mostlyFree(t *testing.T, dir string, quota int64) *embedded {
	t.Helper()
	e, err := start(t.Context(), dir, quota, true)
	if err != nil {
		t.Fatal(err)
	}
	server := e.server.Server
	for i := range 100 {
		put := &etcdserverpb.PutRequest{Key: fmt.Appendf(nil, "/large/%d", i), Value: bytes.Repeat([]byte("x"), large)}
		if _, err := server.Put(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.DeleteRange(t.Context(), &etcdserverpb.DeleteRangeRequest{Key: []byte("/large/1"), RangeEnd: []byte("/large0")}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.compact(t.Context(), server.KV().Rev()); err != nil {
		t.Fatal(err)
	}
	// bbolt counts pages as free with the second commit after the one that has freed them, and a commit writes only if something was put.
	for server.Backend().SizeInUse() > 2*large {
		if _, err := server.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte("/small"), Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		server.Backend().ForceCommit()
	}
	return e
}

// shrunk fails unless the file was shrunk once, with all that was in use.
func shrunk(t *testing.T, e *embedded, before int64) {
	t.Helper()
	if size := e.server.Server.Backend().Size(); size > before/2 || e.counts.defragmented.Load() != 1 {
		t.Errorf("the file has %d bytes after %d", size, before)
	}
	answer, err := e.server.Server.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("/large/0")})
	if err != nil || answer.Count != 1 || len(answer.Kvs[0].Value) != large {
		t.Errorf("%v is left: %v", answer, err)
	}
}

func TestAMostlyFreeDatabaseIsShrunkAtAStart(t *testing.T) {
	const quota = 256 << 20
	dir := t.TempDir() + "/etcd"
	e := mostlyFree(t, dir, quota)
	before := e.server.Server.Backend().Size()
	e.stop()
	e, err := start(t.Context(), dir, quota, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	shrunk(t, e, before)
}

// TestAMostlyFreeDatabaseIsShrunkOnceItIsIdle: not while many write, since they would wait.
func TestAMostlyFreeDatabaseIsShrunkOnceItIsIdle(t *testing.T) {
	e := mostlyFree(t, t.TempDir()+"/etcd", 256<<20)
	t.Cleanup(e.stop)
	before := e.server.Server.Backend().Size()
	clk := clocktesting.NewFakeClock(time.Now())
	h := history{etcd: e}
	period := func(writes int) {
		for range writes {
			if _, err := e.server.Server.Put(t.Context(), &etcdserverpb.PutRequest{Key: []byte("/small"), Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		clk.Step(historyPeriod)
		if err := h.shrink(clk); err != nil {
			t.Fatal(err)
		}
	}
	for passed := time.Duration(0); passed < 2*idleFor; passed += historyPeriod {
		period(idleWrites + 1)
	}
	for passed := historyPeriod; passed < idleFor; passed += historyPeriod {
		period(idleWrites)
	}
	if done := e.counts.defragmented.Load(); done != 0 {
		t.Fatalf("%d defragmentations of a database that was busy within %s", done, idleFor)
	}
	period(idleWrites)
	shrunk(t, e, before)
	for passed := time.Duration(0); passed < 2*idleFor; passed += historyPeriod {
		period(0)
	}
	shrunk(t, e, before) // nothing is free to give back
}
