package render

import (
	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/event"
)

// renderingRefused tells the owner of the template that its copy in a cluster is not what the policies ask for. What a
// binding must not carry may belong to another user: the event is the binding's then.
func (r *Reconciler) renderingRefused(binding workv1alpha2.Binding, err error) event.Event {
	switch reasonOf(err) {
	case workv1alpha2.ForbiddenReason:
		return event.Warning(r.reference(binding), event.SyncWorkFailed, err.Error())
	case workv1alpha2.TranslationFailedReason:
		return event.Warning(templateReference(binding), event.SyncWorkFailed, err.Error())
	}
	return event.Warning(templateReference(binding), event.ApplyOverridePolicyFailed, err.Error())
}

func syncFailed(binding corev1.ObjectReference, err error) event.Event {
	return event.Warning(binding, event.SyncWorkFailed, err.Error())
}

func cleanupFailed(binding corev1.ObjectReference, err error) event.Event {
	return event.Warning(binding, event.CleanupWorkFailed, err.Error())
}

func templateReference(binding workv1alpha2.Binding) corev1.ObjectReference {
	resource := binding.BindingSpec().Resource
	return corev1.ObjectReference{
		APIVersion: resource.APIVersion, Kind: resource.Kind,
		Namespace: resource.Namespace, Name: resource.Name, UID: resource.UID,
	}
}
