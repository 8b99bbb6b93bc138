package simcluster

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// deviceDriver is the driver that the simulated nodes say they run, and the name of the class of its devices. What it
// allocates is the scheduler's doing; nothing is prepared on a node, as nothing runs there.
const deviceDriver = "gpu.example.com"

// maxDevices is how many devices one ResourceSlice holds.
const maxDevices = resourcev1.ResourceSliceMaxDevices

// startDevices publishes the devices of each node, and the class that selects them. What is there already stays.
func startDevices(ctx context.Context, client kubernetes.Interface, nodes []node, perNode int) error {
	if perNode == 0 {
		return nil
	}
	_, err := client.ResourceV1().DeviceClasses().Create(ctx, exampleClass(), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the class of devices: %w", err)
	}
	for _, n := range nodes {
		_, err := client.ResourceV1().ResourceSlices().Create(ctx, n.devices(perNode), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("publishing the devices of node %s: %w", n.name, err)
		}
	}
	return nil
}

func exampleClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: deviceDriver},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{
			CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", deviceDriver)},
		}}},
	}
}

// devices is what a driver on the node would publish: a pool of the node's own in one slice.
func (n node) devices(count int) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: n.name + "-" + deviceDriver},
		Spec: resourcev1.ResourceSliceSpec{
			Driver:   deviceDriver,
			Pool:     resourcev1.ResourcePool{Name: n.name, Generation: 1, ResourceSliceCount: 1},
			NodeName: ptr.To(n.name),
		},
	}
	for i := range count {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: ptr.To("simulated")}},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("16Gi")}},
		})
	}
	return slice
}
