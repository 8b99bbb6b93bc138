package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"
)

// warnDropped warns of a field that a user sets in a template and that no copy has.
func warnDropped(ctx context.Context, a admission.Attributes) {
	service, ok := a.GetObject().(*core.Service)
	if !ok || a.GetOperation() != admission.Create || a.GetSubresource() != "" || ofControlPlane(a) {
		return // an address cannot be changed, only chosen; the control plane's own Service stays here
	}
	if ip := service.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
		warning.AddWarning(ctx, "", "spec.clusterIP: members do not get this address: each allocates its own. For a headless Service set None")
	}
}
