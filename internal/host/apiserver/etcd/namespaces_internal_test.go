package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/storage"
)

// TestServersOnOneStorageCountAlike has two servers count the same storage: what was there before them, and what changes.
func TestServersOnOneStorageCountAlike(t *testing.T) {
	e, err := start(t.Context(), t.TempDir()+"/etcd", defaultQuota, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.stop)
	client := v3client.New(e.server.Server)
	t.Cleanup(func() { _ = client.Close() })
	key := func(i int) string { return fmt.Sprintf("/registry/configmaps/shop/cm-%d", i) }
	put := func(i, size int) {
		t.Helper()
		if _, err := client.Put(t.Context(), key(i), strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
	}
	const before = 250 // more than two pages
	for i := range before {
		put(i, 10)
	}
	if _, err := client.Put(t.Context(), "/registry/work.karmada.io/works/shop/w", "any"); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	var servers []*storage.Namespaces
	for range 2 {
		n := storage.NewNamespaces(v3client.New(e.server.Server), clock.RealClock{}, defaultPrefix, notOfNamespaces)
		running.Go(func() { n.Run(ctx); n.Stop() })
		servers = append(servers, n)
	}
	expect := func(wantObjects, wantBytes int64) {
		t.Helper()
		for i, n := range servers {
			var objects, bytes int64
			err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
				var known bool
				objects, bytes, known = n.Of("shop")
				return known && objects == wantObjects && bytes == wantBytes, nil
			})
			if err != nil {
				t.Fatalf("server %d counts %d objects and %d bytes, want %d and %d", i, objects, bytes, wantObjects, wantBytes)
			}
		}
	}
	expect(before, before*10)
	put(0, 100)
	put(before, 10)
	if _, err := client.Delete(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	expect(before, before*10+90)
}
