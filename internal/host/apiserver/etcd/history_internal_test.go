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
	const quota, large = 16 << 20, 1 << 20
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
				return err
			}
			stored := 0
			for err = put("/large/0"); err == nil && stored < 4*quota/large; err = put(fmt.Sprintf("/large/%d", stored)) {
				stored++
			}
			if !errors.Is(err, etcdservererrors.ErrNoSpace) || !e.full() {
				t.Fatalf("%d objects were stored, then: %v", stored, err)
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
			answer, err := e.server.Server.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("/large/"), RangeEnd: []byte("/large0")})
			if err != nil || answer.Count != 1 || len(answer.Kvs[0].Value) != large {
				t.Errorf("%d objects are left: %v", answer.Count, err)
			}
		})
	}
}
