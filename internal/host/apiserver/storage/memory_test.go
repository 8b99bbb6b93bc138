package storage

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// reportRetained reports how many bytes of the heap each of n values keeps.
func reportRetained(b *testing.B, n int, value func(i int) any) {
	b.Helper()
	for b.Loop() {
		kept := make([]any, n)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			kept[i] = value(i)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric((float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(n), "retained-B/object")
		runtime.KeepAlive(kept)
	}
}

// BenchmarkCompact is what Compact saves of Works that carry the same definition to many clusters, and of Works of small manifests.
func BenchmarkCompact(b *testing.B) {
	work := func(manifest string) func(int) *workv1alpha1.Work {
		return func(i int) *workv1alpha1.Work {
			decoded := &workv1alpha1.Work{}
			err := json.Unmarshal(fmt.Appendf(nil, `{"metadata": {"namespace": "karmada-es-m%d", "name": "web", "finalizers": ["karmada.io/execution-controller"],
				"labels": {"work.karmada.io/permanent-id": "%d", "endpointslice.karmada.io/provision-cluster": "m%d"}},
				"spec": {"workload": {"manifests": [%s]}},
				"status": {"conditions": [{"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "message": "Manifest has been successfully applied"}]}}`,
				i, i, i, manifest), decoded)
			if err != nil {
				b.Fatal(err)
			}
			return decoded
		}
	}
	for name, make := range map[string]func(int) *workv1alpha1.Work{
		"Definition": work(`{"description": "` + strings.Repeat("x", 8<<10) + `"}`),
		"ConfigMap":  work(`{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}`),
	} {
		b.Run(name+"/AsDecoded", func(b *testing.B) { reportRetained(b, 2000, func(i int) any { return make(i) }) })
		b.Run(name+"/Compact", func(b *testing.B) {
			reportRetained(b, 2000, func(i int) any {
				object := make(i)
				Compact(object)
				return object
			})
		})
	}
}

// BenchmarkVersions is what versions of one Pod keep if they share what they have in common, which is most.
func BenchmarkVersions(b *testing.B) {
	b.Run("Alone", func(b *testing.B) {
		reportRetained(b, 2000, func(i int) any { return pod(fmt.Sprint(i), fmt.Sprint("phase", i%2)) })
	})
	b.Run("Shared", func(b *testing.B) {
		seen := versions{}
		reportRetained(b, 2000, func(i int) any {
			object := pod(fmt.Sprint(i), fmt.Sprint("phase", i%2))
			seen.add(watch.Event{Type: watch.Modified, Object: object})
			return object
		})
	})
}
