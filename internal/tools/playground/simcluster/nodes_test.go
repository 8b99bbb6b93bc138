package simcluster

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestNodesShareTheRange(t *testing.T) {
	cases := map[string]struct {
		reason string
		cidr   string
		nodes  int
		first  string
		fails  bool
	}{
		"Three":    {reason: "a few nodes get sixteenths, so that a fourth does not move them", cidr: "10.65.0.0/16", nodes: 3, first: "10.65.0.0/20"},
		"Hundred":  {reason: "many get less each", cidr: "10.65.0.0/16", nodes: 100, first: "10.65.0.0/23"},
		"Most":     {reason: "the limit still fits", cidr: "10.65.0.0/16", nodes: maxNodes, first: "10.65.0.0/24"},
		"None":     {reason: "a cluster may have none", cidr: "10.65.0.0/16"},
		"TooMany":  {reason: "and no more than fit", cidr: "10.65.0.0/16", nodes: maxNodes + 1, fails: true},
		"TooSmall": {reason: "a range of 16 addresses is nothing to divide", cidr: "10.65.0.0/28", nodes: 3, fails: true},
		"Garbage":  {reason: "garbage is refused", cidr: "ten", nodes: 3, fails: true},
		"IPv6":     {reason: "the range of IPv6 follows from that of IPv4", cidr: "fd00::/64", nodes: 3, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			nodes, err := nodesOf(Config{Name: "m", Nodes: tc.nodes, PodCIDR: tc.cidr})
			if (err != nil) != tc.fails {
				t.Fatalf("%s: error %v", tc.reason, err)
			}
			if err == nil && len(nodes) != tc.nodes {
				t.Errorf("%d nodes, want %d", len(nodes), tc.nodes)
			}
			if len(nodes) > 0 && nodes[0].podCIDRs[0] != tc.first {
				t.Errorf("%s: the first node has %s, want %s", tc.reason, nodes[0].podCIDRs, tc.first)
			}
			mustNotMeet(t, nodes)
		})
	}
}

func mustNotMeet(t *testing.T, nodes []node) {
	t.Helper()
	for i := 1; i < len(nodes); i++ {
		for family := range 2 {
			before, here := netip.MustParsePrefix(nodes[i-1].podCIDRs[family]), netip.MustParsePrefix(nodes[i].podCIDRs[family])
			if before.Overlaps(here) || nodes[i-1].addresses[family] == nodes[i].addresses[family] {
				t.Errorf("%v meets %v", nodes[i-1], nodes[i])
			}
		}
	}
}

func TestNodeCapacity(t *testing.T) {
	nodes, err := nodesOf(Config{Name: "m", Nodes: 1, NodeCPU: "4", NodeMemory: "8Gi"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(nodes[0].capacity.Cpu(), nodes[0].capacity.Memory()); got != "4 8Gi" {
		t.Errorf("capacity %s, want 4 8Gi", got)
	}
	if _, err := nodesOf(Config{Nodes: 1, Devices: maxDevices + 1}); err == nil {
		t.Error("accepted more devices than a slice holds")
	}
	if _, err := nodesOf(Config{Nodes: 1, NodeCPU: "many"}); err == nil {
		t.Error("accepted a CPU of many")
	}
}

func TestStagesAreReadable(t *testing.T) {
	stages, err := stagesByKind(nodeUntaint)
	if err != nil || len(stages) != 1 {
		t.Errorf("got %d kinds, %v; want the one of nodes", len(stages), err)
	}
	if _, err := stagesByKind("kind: Stage\nspec: {nonsense: 1}"); err == nil {
		t.Error("accepted a stage with an unknown field")
	}
}
