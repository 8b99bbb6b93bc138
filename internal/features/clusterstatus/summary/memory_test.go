package summary

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkMemory measures what is kept of a member with 1,000 nodes and 10,000 pods.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := heap()
		r := largeMember(1000, 10_000)
		b.ReportMetric(float64(heap()-before)/1000, "kB/member")
		runtime.KeepAlive(r)
	}
}

func largeMember(nodes, pods int) *Resources {
	r := NewResources(func(string, bool) {})
	replace(r.Nodes)
	replace(r.Pods)
	for i := range nodes {
		update(r.Nodes, largeNode(i))
	}
	for i := range pods {
		pod := podOf(fmt.Sprintf("3e6e6c1a-0d7e-4b1b-9d5c-%012d", i), fmt.Sprintf("node-%d.eu-west-1.compute.internal", i%nodes), corev1.PodRunning, list("100m", "128Mi", ""))
		pod.Namespace, pod.Name = fmt.Sprintf("namespace-%d", i%50), fmt.Sprintf("deployment-%d-6d4b75cb6d-%05d", i%500, i)
		update(r.Pods, pod)
	}
	return r
}

// largeNode has the labels that a node of a cloud has.
func largeNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%d.eu-west-1.compute.internal", i)
	node := nodeOf(name, true, list("16", "64Gi", "110"))
	node.Labels = map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		corev1.LabelTopologyRegion: "eu-west-1", corev1.LabelTopologyZone: fmt.Sprintf("eu-west-1%c", 'a'+i%3),
		corev1.LabelInstanceTypeStable: fmt.Sprintf("m%d.4xlarge", 5+i%4), "node.example.io/pool": fmt.Sprintf("pool-%d", i%5),
		"topology.ebs.csi.aws.com/zone": fmt.Sprintf("eu-west-1%c", 'a'+i%3), "node.example.io/id": fmt.Sprintf("i-%017d", i),
	}
	return node
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
