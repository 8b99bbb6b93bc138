package resourceclaims

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// maxPoolName is how long the name of a pool may be.
const maxPoolName = resourcev1.PoolNameMaxLength

// todaysCopy is the status of the copy in one cluster of a claim that the control plane has in today's version.
type todaysCopy struct {
	cluster string
	status  resourcev1.ResourceClaimStatus
}

// SumToday is [Sum] for claims of today's version: allocated when every copy is, with the devices of all copies.
func SumToday(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	copies := make([]todaysCopy, 0, len(items))
	for i := range items {
		c := todaysCopy{cluster: items[i].ClusterName}
		if raw := items[i].Status; raw != nil && len(raw.Raw) > 0 {
			if err := json.Unmarshal(raw.Raw, &c.status); err != nil {
				return nil, fmt.Errorf("cluster %s reports a status that is none of a claim: %w", c.cluster, err)
			}
		}
		if c.status.Allocation == nil && len(c.status.ReservedFor) > 0 {
			return nil, fmt.Errorf("cluster %s reports a status that no claim can have: status.reservedFor without status.allocation", c.cluster)
		}
		copies = append(copies, c)
	}
	slices.SortFunc(copies, func(a, b todaysCopy) int { return cmp.Compare(a.cluster, b.cluster) })
	sum := addToday(copies)
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&sum)
	if err != nil {
		return nil, fmt.Errorf("encoding the aggregated status: %w", err)
	}
	return interpret.WithStatus(template, fields), nil
}

// addToday: a single copy is the claim. Of several, each device is in a pool that begins with the name of its cluster,
// since pools of different clusters may share a name; what is said for the whole of a cluster has no place.
func addToday(copies []todaysCopy) resourcev1.ResourceClaimStatus {
	pending := func(c todaysCopy) bool { return c.status.Allocation == nil }
	if len(copies) == 0 || slices.ContainsFunc(copies, pending) {
		return resourcev1.ResourceClaimStatus{}
	}
	if len(copies) == 1 {
		return copies[0].status
	}
	sum := resourcev1.ResourceClaimStatus{Allocation: &resourcev1.AllocationResult{}}
	seen := map[types.UID]bool{}
	for _, c := range copies {
		devices := &sum.Allocation.Devices
		for _, result := range c.status.Allocation.Devices.Results {
			if len(devices.Results) < resourcev1.AllocationResultsMaxSize {
				result.Pool = c.pool(result.Pool)
				devices.Results = append(devices.Results, result)
			}
		}
		for _, device := range c.status.Devices {
			device.Pool = c.pool(device.Pool)
			sum.Devices = append(sum.Devices, device)
		}
		for _, consumer := range c.status.ReservedFor {
			if !seen[consumer.UID] && len(sum.ReservedFor) < resourcev1.ResourceClaimReservedForMaxSize {
				seen[consumer.UID] = true
				sum.ReservedFor = append(sum.ReservedFor, consumer)
			}
		}
	}
	// Of a device that is left out nothing can be said.
	sum.Devices = slices.DeleteFunc(sum.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
		return !slices.ContainsFunc(sum.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
			return r.Driver == d.Driver && r.Pool == d.Pool && r.Device == d.Device
		})
	})
	return sum
}

// pool is the name on the hub of a pool of the cluster; that of the cluster alone if it gets too long.
func (c todaysCopy) pool(name string) string {
	if long := c.cluster + "/" + name; len(long) <= maxPoolName {
		return long
	}
	return c.cluster
}

func todaysKind() schema.GroupVersionKind {
	return resourcev1.SchemeGroupVersion.WithKind(claimKind().Kind)
}
