package etcd

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/apimachinery/pkg/util/wait"
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
