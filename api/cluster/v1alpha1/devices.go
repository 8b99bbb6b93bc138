package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// DeviceClassesResource is the number of DeviceClasses of a cluster in its resource summary. It is there if the devices
// of the cluster are known: then a class without an entry of its own does not exist there.
const DeviceClassesResource corev1.ResourceName = "count/deviceclasses.resource.k8s.io"

// DeviceResource is the name under which a cluster's resource summary counts the devices of a class: the one by which
// Kubernetes lets a container ask for a device of the class.
func DeviceResource(class string) corev1.ResourceName {
	return corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + class)
}

// CountsDevices says whether an entry of a resource summary is about devices.
func CountsDevices(name corev1.ResourceName) bool {
	return name == DeviceClassesResource || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix)
}
