package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
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
	for i := range before {
		if _, err := client.Put(t.Context(), fmt.Sprintf("/registry/work.karmada.io/works/shop/w-%d", i), "any"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.Put(t.Context(), "/registry/zones/shop/last", strings.Repeat("x", 10)); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	var servers []*storage.Namespaces
	reads := &reads{}
	for range 2 {
		own := v3client.New(e.server.Server)
		own.KV = countingKV{own.KV, reads}
		n := storage.NewNamespaces(own, clock.RealClock{}, defaultPrefix, notOfNamespaces)
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
	expect(before+1, before*10+10)
	if reads.of("/registry/work.karmada.io/works/") > 0 {
		t.Error("Works, which do not count, were read")
	}
	put(0, 100)
	put(before, 10)
	if _, err := client.Delete(t.Context(), key(1)); err != nil {
		t.Fatal(err)
	}
	expect(before+1, before*10+100)
}

// reads are the keys that were read.
type reads struct {
	mu   sync.Mutex
	keys []string
}

// of is how many keys with a prefix were read.
func (r *reads) of(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.keys {
		if strings.HasPrefix(key, prefix) {
			n++
		}
	}
	return n
}

// countingKV records what is read.
type countingKV struct {
	clientv3.KV
	reads *reads
}

func (k countingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	response, err := k.KV.Get(ctx, key, opts...)
	if err == nil {
		k.reads.mu.Lock()
		defer k.reads.mu.Unlock()
		for _, kv := range response.Kvs {
			k.reads.keys = append(k.reads.keys, string(kv.Key))
		}
	}
	return response, err
}
