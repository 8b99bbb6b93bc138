package backup_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/flagship-k8s/flagship/internal/host/backup"
)

// BenchmarkCreate makes backups of a store like that of a thousand members with a hundred Works each: 100,000 values of 2.5 KiB. Works are
// encrypted at rest, unless --plain-secrets is set, and encrypted values cannot be compressed.
func BenchmarkCreate(b *testing.B) {
	for name, value := range map[string]func(*rand.Rand, int) string{"Encrypted": sealed, "Plain": plain} {
		b.Run(name, func(b *testing.B) {
			const keys, page = 100_000, 100
			from, own := dataDir(b), key(b)
			client := connect(b, from)
			random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same values in each run
			for at := 0; at < keys; at += page {
				var puts []clientv3.Op
				for i := at; i < at+page; i++ {
					puts = append(puts, clientv3.OpPut(fmt.Sprintf("/registry/work.karmada.io/works/karmada-es-%d/work-%d", i/100, i), value(random, i)))
				}
				if _, err := client.Txn(b.Context()).Then(puts...).Commit(); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				written := &counter{}
				if _, err := backup.Create(b.Context(), from, written, now, ignore, own.Recipient()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(written.bytes)/1e6, "MB/backup")
			}
		})
	}
}

// sealed is like an encrypted value.
func sealed(random *rand.Rand, _ int) string {
	content := make([]byte, 0, 2560)
	for len(content) < cap(content) {
		content = binary.LittleEndian.AppendUint64(content, random.Uint64())
	}
	return "k8s:enc:secretbox:v1:generated:" + string(content)
}

// plain is like a Work with a Deployment. A part is random, as names and hashes are.
func plain(random *rand.Rand, i int) string {
	var ids strings.Builder
	for range 20 {
		fmt.Fprintf(&ids, `"%016x",`, random.Uint64())
	}
	fields := strings.Repeat(`{"apiVersion":"apps/v1","kind":"Deployment","image":"registry.example.com/shop:1","managedFields":{"f:spec":{}}},`, 18)
	return fmt.Sprintf(`{"name":"work-%d","ids":[%s],"manifests":[%s]}`, i, ids.String(), fields)
}

type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

var _ io.Writer = &counter{}
