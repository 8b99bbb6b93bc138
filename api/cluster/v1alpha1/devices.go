package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// DeviceClassesResource is the number of DeviceClasses of a cluster in its resource summary. It is there if the devices
// of the cluster are known: then a class without an entry of its own does not exist there.
const DeviceClassesResource corev1.ResourceName = "count/deviceclasses.resource.k8s.io"

// ResourceClassesResource is the number of ResourceClasses, of resource.k8s.io/v1alpha2, of a cluster that serves them. It
// is there if they are known.
const ResourceClassesResource corev1.ResourceName = "count/resourceclasses.resource.k8s.io"

const resourceClassPrefix = "resourceclass.resource.k8s.io/"

// DeviceResource is the name under which a cluster's resource summary counts the devices of a class: the one by which
// Kubernetes lets a container ask for a device of the class.
func DeviceResource(class string) corev1.ResourceName {
	return corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + class)
}

// ResourceClassResource is the name under which a cluster's resource summary has a ResourceClass, once. How many devices
// there are of it is known to its driver only.
func ResourceClassResource(class string) corev1.ResourceName {
	return corev1.ResourceName(resourceClassPrefix + class)
}

// CountsDevices reports whether an entry of a resource summary is about devices.
func CountsDevices(name corev1.ResourceName) bool {
	return name == DeviceClassesResource || strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || NamesResourceClass(name)
}

// NamesResourceClass reports whether an entry of a resource summary is about ResourceClasses.
func NamesResourceClass(name corev1.ResourceName) bool {
	return name == ResourceClassesResource || strings.HasPrefix(string(name), resourceClassPrefix)
}
