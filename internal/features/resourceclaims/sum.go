package resourceclaims

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// protection ends the finalizer that the controller of a driver puts on a claim before it allocates.
const protection = "/deletion-protection"

// copyStatus is the status of the copy of a claim in one cluster.
type copyStatus struct {
	cluster string
	status  resourcev1alpha2.ResourceClaimStatus
}

// Sum writes into a claim of the hub what its copies add up to. A claim that a driver has taken on the hub itself is
// that driver's and stays as it is.
func Sum(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	if slices.ContainsFunc(template.GetFinalizers(), func(f string) bool { return strings.HasSuffix(f, protection) }) {
		return template, nil
	}
	copies, err := read(items)
	if err != nil {
		return nil, err
	}
	sum, err := add(copies)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&sum)
	if err != nil {
		return nil, fmt.Errorf("encoding the aggregated status: %w", err)
	}
	return interpret.WithStatus(template, fields), nil
}

// read decodes and checks every report, by the name of the cluster. A report that no API server of v1alpha2 would have
// taken is refused as a whole: half of it may mean anything.
func read(items []workv1alpha2.AggregatedStatusItem) ([]copyStatus, error) {
	copies := make([]copyStatus, 0, len(items))
	for i := range items {
		c := copyStatus{cluster: items[i].ClusterName}
		if raw := items[i].Status; raw != nil && len(raw.Raw) > 0 {
			status, err := statusOf(raw.Raw)
			if err != nil {
				return nil, fmt.Errorf("cluster %s reports a status that is none of a claim: %w", c.cluster, err)
			}
			c.status = *status
		}
		if faults := statusFaults(c.status, resourcev1alpha2.ResourceClaimStatus{}); len(faults) > 0 {
			return nil, fmt.Errorf("cluster %s reports a status that no claim can have: %w", c.cluster, faults.ToAggregate())
		}
		copies = append(copies, c)
	}
	slices.SortFunc(copies, func(a, b copyStatus) int { return strings.Compare(a.cluster, b.cluster) })
	return copies, nil
}

// statusOf reads a report, also of an agent that does not translate: only today's allocations are of devices.
func statusOf(raw []byte) (*resourcev1alpha2.ResourceClaimStatus, error) {
	var shape struct {
		Allocation struct {
			Devices json.RawMessage `json:"devices"`
		} `json:"allocation"`
	}
	if json.Unmarshal(raw, &shape) == nil && shape.Allocation.Devices != nil {
		return translateBack(raw)
	}
	status := &resourcev1alpha2.ResourceClaimStatus{}
	return status, json.Unmarshal(raw, status)
}

// statusFaults returns why an API server would not take a status after another one.
func statusFaults(status, old resourcev1alpha2.ResourceClaimStatus) field.ErrorList {
	before := &resourcev1alpha2.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "namespace", ResourceVersion: "1"}, Status: old}
	after := before.DeepCopy()
	after.Status = status
	return resourcev1alpha2.ValidateClaimStatusUpdate(after, before)
}

// add is the rule of aggregation. A claim is allocated when every copy is. A single copy is the claim; of several, each
// is a handle. Their consumers are all consumers of the claim, which for that reason counts as shareable.
func add(copies []copyStatus) (resourcev1alpha2.ResourceClaimStatus, error) {
	pending := func(c copyStatus) bool { return c.status.Allocation == nil }
	if len(copies) == 0 || slices.ContainsFunc(copies, pending) {
		return resourcev1alpha2.ResourceClaimStatus{}, nil
	}
	if len(copies) == 1 {
		return copies[0].status, nil
	}
	sum := resourcev1alpha2.ResourceClaimStatus{
		DriverName:  copies[0].status.DriverName,
		Allocation:  &resourcev1alpha2.AllocationResult{Shareable: true},
		ReservedFor: consumers(copies),
	}
	for _, c := range copies[:min(len(copies), resourcev1alpha2.MaxResourceHandles)] {
		handle, err := c.handle()
		if err != nil {
			return resourcev1alpha2.ResourceClaimStatus{}, err
		}
		sum.Allocation.ResourceHandles = append(sum.Allocation.ResourceHandles, handle)
	}
	sum.DeallocationRequested = len(sum.ReservedFor) == 0 &&
		slices.ContainsFunc(copies, func(c copyStatus) bool { return c.status.DeallocationRequested })
	return sum, nil
}

// clusterAllocation is the data of a handle that stands for a cluster.
type clusterAllocation struct {
	Cluster string `json:"cluster"`
	// ResourceHandles and AvailableOnNodes are left out if they do not fit; the binding has them in any case.
	ResourceHandles  []resourcev1alpha2.ResourceHandle `json:"resourceHandles,omitempty"`
	AvailableOnNodes *corev1.NodeSelector              `json:"availableOnNodes,omitempty"`
	// Truncated is true if something was left out.
	Truncated bool `json:"truncated,omitempty"`
}

func (c copyStatus) handle() (resourcev1alpha2.ResourceHandle, error) {
	whole := clusterAllocation{
		Cluster: c.cluster, ResourceHandles: c.status.Allocation.ResourceHandles, AvailableOnNodes: c.status.Allocation.AvailableOnNodes,
	}
	text, err := json.Marshal(whole)
	if err == nil && len(text) > resourcev1alpha2.MaxResourceHandleData {
		text, err = json.Marshal(clusterAllocation{Cluster: c.cluster, Truncated: true})
	}
	if err != nil {
		return resourcev1alpha2.ResourceHandle{}, fmt.Errorf("encoding the allocation in cluster %s: %w", c.cluster, err)
	}
	return resourcev1alpha2.ResourceHandle{DriverName: c.status.DriverName, Data: string(text)}, nil
}

// consumers lists those of all copies, each uid once, as many as a claim may have.
func consumers(copies []copyStatus) []resourcev1alpha2.ResourceClaimConsumerReference {
	var all []resourcev1alpha2.ResourceClaimConsumerReference
	seen := map[types.UID]bool{}
	for _, c := range copies {
		for _, consumer := range c.status.ReservedFor {
			if !seen[consumer.UID] && len(all) < resourcev1alpha2.MaxReservedFor {
				seen[consumer.UID] = true
				all = append(all, consumer)
			}
		}
	}
	return all
}
