package addresses

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// addressesFor are the addresses of an import: those of the derived Service in the families of the import, in their order.
func addressesFor(spec *multiclusterv1beta1.ServiceImportSpec, derived *corev1.Service) []string {
	if spec.Type == multiclusterv1beta1.Headless || derived == nil {
		return nil
	}
	var list []string
	for _, ip := range derived.Spec.ClusterIPs {
		if ip != corev1.ClusterIPNone && (len(spec.IPFamilies) == 0 || slices.Contains(spec.IPFamilies, familyOf(ip))) {
			list = append(list, ip)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int {
		return slices.Index(spec.IPFamilies, familyOf(a)) - slices.Index(spec.IPFamilies, familyOf(b))
	})
	return list
}

func familyOf(ip string) corev1.IPFamily {
	if address, err := netip.ParseAddr(ip); err == nil && address.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// importStatus is the status of an import in a cluster. Refusal is why its derived Service could not be made there.
func importStatus(object *multiclusterv1beta1.ServiceImport, exporting, ips []string, refusal *metav1.Condition, now time.Time) multiclusterv1beta1.ServiceImportStatus {
	status := *object.Status.DeepCopy()
	status.EndpointSliceObjects = multiclusterv1beta1.EndpointSliceObjectsPresent
	status.Clusters = nil
	for _, cluster := range exporting {
		status.Clusters = append(status.Clusters, multiclusterv1beta1.ClusterStatus{Cluster: cluster})
	}
	condition := multiclusterv1beta1.ImportIsReady(object.Generation)
	switch {
	case refusal != nil && refusal.Reason == workv1alpha1.AppliedFamilyUnsupportedReason:
		condition = multiclusterv1beta1.IPFamilyNotSupported(object.Generation, refusal.Message)
	case refusal != nil:
		condition = multiclusterv1beta1.ImportPending(object.Generation, refusal.Message)
	case object.Spec.Type == multiclusterv1beta1.ClusterSetIP && len(ips) == 0:
		condition = multiclusterv1beta1.ImportPending(object.Generation, "The service has no address yet")
	}
	condition.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
	meta.SetStatusCondition(&status.Conditions, condition)
	return status
}
