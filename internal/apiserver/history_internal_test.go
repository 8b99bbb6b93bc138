package apiserver

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// TestHistoryDoesNotFillStorage writes one value again and again, five times as much as storage may take.
func TestHistoryDoesNotFillStorage(t *testing.T) {
	const quota = 64 << 20
	e, err := startEtcd(t.Context(), t.TempDir()+"/etcd", quota, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	client := v3client.New(e.server.Server)
	t.Cleanup(func() { _ = client.Close() })
	h := history{etcd: e}
	value := strings.Repeat("x", 1<<20)
	for i := range 5 * quota >> 20 {
		if _, err := client.Put(t.Context(), "/registry/configmaps/shop/a", value); err != nil {
			t.Fatalf("after %d MB, base %d in use %d size %d: %v", i, h.base, e.server.Server.Backend().SizeInUse(), e.server.Server.Backend().Size(), err)
		}
		if err := h.bound(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := client.Get(t.Context(), "/registry/configmaps/shop/a", clientv3.WithCountOnly())
	if err != nil || answer.Count != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
}
