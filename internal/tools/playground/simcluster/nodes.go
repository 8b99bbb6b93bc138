package simcluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

const (
	defaultPodCIDR    = "10.64.0.0/16"
	defaultNodeCPU    = "32"
	defaultNodeMemory = "256Gi"
	// podsPerNode is beyond what a kubelet takes: nothing runs, and a few nodes shall hold a few hundred Deployments.
	podsPerNode = 1000
	// maxNodes leaves each node 254 pod addresses of a /16.
	maxNodes = 256
	// zones is over how many zones the nodes are spread.
	zones = 3
)

// node is what a simulated node starts out as.
type node struct {
	name, zone string
	// podCIDRs and addresses are one of each family, IPv4 first.
	podCIDRs, addresses []string
	capacity            corev1.ResourceList
}

// nodesOf plans the nodes of a cluster.
func nodesOf(c Config) ([]node, error) {
	if c.Nodes > maxNodes {
		return nil, fmt.Errorf("%d nodes are too many: %d at most", c.Nodes, maxNodes)
	}
	if c.Devices < 0 || c.Devices > maxDevices {
		return nil, fmt.Errorf("%d devices on a node are not possible: 0 to %d are", c.Devices, maxDevices)
	}
	capacity, err := capacityOf(c)
	if err != nil {
		return nil, err
	}
	ranges, err := divide(withDefault(c.PodCIDR, defaultPodCIDR), c.Nodes)
	if err != nil {
		return nil, err
	}
	nodes := make([]node, 0, c.Nodes)
	for i := range c.Nodes {
		nodes = append(nodes, node{
			name:      fmt.Sprintf("%s-node-%d", c.Name, i+1),
			zone:      fmt.Sprintf("zone-%c", 'a'+i%zones),
			podCIDRs:  []string{ranges[i].String(), secondRange(ranges[i], i)},
			addresses: []string{fmt.Sprintf("172.16.%d.%d", i/250, i%250+1), fmt.Sprintf("fd00:172:16::%x", i+1)},
			capacity:  capacity,
		})
	}
	return nodes, nil
}

func capacityOf(c Config) (corev1.ResourceList, error) {
	cpu, err := resource.ParseQuantity(withDefault(c.NodeCPU, defaultNodeCPU))
	if err != nil {
		return nil, fmt.Errorf("reading the nodes' CPU %q: %w", c.NodeCPU, err)
	}
	memory, err := resource.ParseQuantity(withDefault(c.NodeMemory, defaultNodeMemory))
	if err != nil {
		return nil, fmt.Errorf("reading the nodes' memory %q: %w", c.NodeMemory, err)
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:              cpu,
		corev1.ResourceMemory:           memory,
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}, nil
}

func withDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// divide cuts a range into n equal ones; a few nodes get sixteenths, so that their number can grow without moving them.
func divide(cidr string, n int) ([]netip.Prefix, error) {
	whole, err := netip.ParsePrefix(cidr)
	if err != nil || !whole.Addr().Is4() {
		return nil, fmt.Errorf("%q is not an IPv4 range for pods", cidr)
	}
	const fewest = 4 // bits
	more := max(fewest, bits.Len(uint(max(n-1, 0))))
	size := whole.Bits() + more
	if size > 30 {
		return nil, fmt.Errorf("the pod range %s is too small for %d nodes", cidr, n)
	}
	start := whole.Masked().Addr().As4()
	base := binary.BigEndian.Uint32(start[:])
	out := make([]netip.Prefix, n)
	for i := range out {
		var address [4]byte
		binary.BigEndian.PutUint32(address[:], base+uint32(i)<<(32-size))
		out[i] = netip.PrefixFrom(netip.AddrFrom4(address), size)
	}
	return out, nil
}

// secondRange is the IPv6 range of pods on the i-th node of a cluster: two clusters whose IPv4 ranges differ in the first two bytes
// have ranges of their own.
func secondRange(first netip.Prefix, i int) string {
	bytes := first.Addr().As4()
	return fmt.Sprintf("fd00:%d:%d:%x::/64", bytes[0], bytes[1], i)
}

func (n node) object() *corev1.Node {
	addresses := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.name}}
	for _, address := range n.addresses {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.name,
			Labels: map[string]string{
				corev1.LabelHostname:       n.name,
				corev1.LabelTopologyZone:   n.zone,
				corev1.LabelTopologyRegion: "playground",
				corev1.LabelOSStable:       "linux",
				corev1.LabelArchStable:     "amd64",
			},
		},
		Spec: corev1.NodeSpec{PodCIDR: n.podCIDRs[0], PodCIDRs: n.podCIDRs},
		Status: corev1.NodeStatus{
			Capacity:    n.capacity,
			Allocatable: n.capacity,
			Addresses:   addresses,
		},
	}
}

// ensureNodes creates the nodes that do not exist.
func ensureNodes(ctx context.Context, client kubernetes.Interface, nodes []node) error {
	for _, n := range nodes {
		_, err := client.CoreV1().Nodes().Create(ctx, n.object(), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating node %s: %w", n.name, err)
		}
	}
	return nil
}

// waitForNodes returns when pods can be scheduled to each of the nodes.
func waitForNodes(ctx context.Context, client kubernetes.Interface, nodes []node) error {
	for _, n := range nodes {
		lw := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "nodes", "", fields.OneTermEqualSelector("metadata.name", n.name))
		var last *corev1.Node
		_, err := watchtools.UntilWithSync(ctx, lw, &corev1.Node{}, nil, func(e watch.Event) (bool, error) {
			last, _ = e.Object.(*corev1.Node)
			return last != nil && isReady(last) && len(last.Spec.Taints) == 0, nil
		})
		switch {
		case err != nil && last != nil:
			return fmt.Errorf("waiting until node %s is ready: %w: ready %t, taints %v", n.name, err, isReady(last), last.Spec.Taints)
		case err != nil:
			return fmt.Errorf("waiting until node %s is ready: %w: it was not seen", n.name, err)
		}
	}
	return nil
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// waitForAccount returns when pods of a namespace are admitted: they need its service account.
func waitForAccount(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	lw := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "serviceaccounts", namespace, fields.OneTermEqualSelector("metadata.name", name))
	_, err := watchtools.UntilWithSync(ctx, lw, &corev1.ServiceAccount{}, nil, func(e watch.Event) (bool, error) {
		return e.Type != watch.Deleted, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for service account %s/%s: %w", namespace, name, err)
	}
	return nil
}
