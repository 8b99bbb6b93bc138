package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Labels and annotations of the Works of the two APIs of services, which have constants of the same values.
const (
	multiClusterServiceLabel = "multiclusterservice.karmada.io/name"
	dispatchedAnnotation     = "endpointslice.karmada.io/provision-cluster"
	exportRoleLabel          = "serviceexport.karmada.io/role"
)

// IsRecord returns whether a Work is kept for the control plane to read, and is never applied: what a member has of a
// MultiClusterService or of a ServiceExport, and endpoints collected from it. Records are known by the labels of those APIs: those
// in existing data directories have no label in common.
func IsRecord(work metav1.Object) bool {
	labels := work.GetLabels()
	if role := labels[exportRoleLabel]; role == "export" || role == "endpoints" {
		return true
	}
	_, service := labels[multiClusterServiceLabel]
	_, dispatched := work.GetAnnotations()[dispatchedAnnotation]
	return service && !dispatched
}
