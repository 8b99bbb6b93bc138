package mcs

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// bindingName is the name of a Service's binding, whether mcs or propagate made it.
func bindingName(service string) string { return workv1alpha2.BindingName("Service", service) }

// bindingFor is the binding of a claimed Service: the existing one with this part replaced, or a new one. That of a policy is
// taken over in place, so that no copy is deleted meanwhile.
func bindingFor(mcs *networkingv1alpha1.MultiClusterService, service *corev1.Service, clusters []string, existing *workv1alpha2.ResourceBinding) (*workv1alpha2.ResourceBinding, error) {
	content, err := contentOf(service)
	if err != nil {
		return nil, err
	}
	binding := &workv1alpha2.ResourceBinding{}
	if existing != nil {
		binding = existing.DeepCopy()
	} else {
		binding.Namespace, binding.Name = service.Namespace, bindingName(service.Name)
		binding.Finalizers = []string{binding.Finalizer()}
		binding.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}}
	}
	binding.Labels = labels.Merge(binding.Labels, map[string]string{
		workv1alpha2.BindingManagedByLabel:                     networkingv1alpha1.KindMultiClusterService,
		networkingv1alpha1.MultiClusterServicePermanentIDLabel: mcs.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel],
	})
	remove(binding.Labels, policyClaimLabels)
	unchanged := binding.Annotations[networkingv1alpha1.ServiceContentAnnotation] == content
	binding.Annotations = labels.Merge(labels.Merge(binding.Annotations, claimAnnotations(mcs)), map[string]string{
		networkingv1alpha1.ServiceContentAnnotation: content,
	})
	// If a policy gets the binding back, it renders the Service again, even with lazy activation.
	remove(binding.Annotations, append([]string{workv1alpha2.TemplateContentAnnotation}, policyClaimAnnotations...))
	version := binding.Spec.Resource.ResourceVersion
	if !unchanged || version == "" {
		version = service.ResourceVersion
	}
	binding.Spec = workv1alpha2.ResourceBindingSpec{
		Resource: workv1alpha2.ObjectReference{
			APIVersion: "v1", Kind: "Service", Namespace: service.Namespace, Name: service.Name,
			UID: service.UID, ResourceVersion: version,
		},
		Placement:             placement(clusters),
		ConflictResolution:    policyv1alpha1.ConflictOverwrite,
		SchedulerName:         policyv1alpha1.DefaultSchedulerName,
		Clusters:              binding.Spec.Clusters,
		GracefulEvictionTasks: binding.Spec.GracefulEvictionTasks,
		RequiredBy:            binding.Spec.RequiredBy,
		RescheduleTriggeredAt: binding.Spec.RescheduleTriggeredAt,
	}
	return binding, nil
}

// placement puts a copy in each of the clusters, whatever their taints: a Service needs no capacity, and the cluster was named
// explicitly.
func placement(clusters []string) *policyv1alpha1.Placement {
	return &policyv1alpha1.Placement{
		ClusterAffinity:    &policyv1alpha1.ClusterAffinity{ClusterNames: clusters},
		ClusterTolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
}

// returned is the binding without the labels and annotations of the claim; the policy that takes it over replaces the rest.
func returned(binding *workv1alpha2.ResourceBinding) *workv1alpha2.ResourceBinding {
	binding = binding.DeepCopy()
	remove(binding.Labels, []string{workv1alpha2.BindingManagedByLabel, networkingv1alpha1.MultiClusterServicePermanentIDLabel})
	remove(binding.Annotations, append([]string{networkingv1alpha1.ServiceContentAnnotation}, ownClaimAnnotations...))
	return binding
}

// ours returns whether a binding is that of a MultiClusterService.
func ours(binding metav1.Object) bool {
	return binding.GetLabels()[workv1alpha2.BindingManagedByLabel] == networkingv1alpha1.KindMultiClusterService
}

func remove(from map[string]string, keys []string) {
	for _, key := range keys {
		delete(from, key)
	}
}
