package v1alpha1_test

import (
	"testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestIsOwnershipKey(t *testing.T) {
	for key, want := range map[string]bool{
		workv1alpha1.ManagedLabel:                              true,
		workv1alpha1.WorkPermanentIDLabel:                      true,
		workv1alpha1.WorkNameAnnotation:                        true,
		workv1alpha1.WorkNamespaceAnnotation:                   true,
		workv1alpha1.ConflictResolutionAnnotation:              true,
		workv1alpha1.TemplateUIDAnnotation:                     true,
		workv1alpha1.ManagedLabelsAnnotation:                   true,
		workv1alpha1.LastAppliedAnnotation:                     true,
		workv1alpha1.AdoptedAnnotation:                         true,
		workv1alpha1.CarriedNamespaceAnnotation:                true,
		workv1alpha2.ResourceBindingPermanentIDLabel:           true,
		workv1alpha2.ClusterResourceBindingPermanentIDLabel:    true,
		workv1alpha2.ClusterResourceBindingNameAnnotation:      true,
		policyv1alpha1.PropagationPolicyPermanentIDLabel:       true,
		policyv1alpha1.ClusterPropagationPolicyNameAnnotation:  true,
		policyv1alpha1.ResourceTemplateClaimedByLabel:          true,
		policyv1alpha1.FederatedResourceQuotaNameLabel:         true,
		networkingv1alpha1.MultiClusterServicePermanentIDLabel: true,
		networkingv1alpha1.EndpointSliceWorkManagedByLabel:     true,
		clusterv1alpha1.SystemLabel:                            true,
		"flagship.io/a-name-of-the-future":                     true,
		"future.karmada.io/permanent-id":                       true,

		"app":                                            false,
		"flagship.io":                                    false,
		"example.io/permanent-id":                        false,
		"karmada.io.example.com/managed":                 false,
		"apps.example.io/karmada.io":                     false,
		"kubernetes.io/metadata.name":                    false,
		policyv1alpha1.RetainReplicasLabel:               false,
		policyv1alpha1.DeletionProtectionLabel:           false,
		policyv1alpha1.NamespaceSkipAutoPropagationLabel: false,
		clusterv1alpha1.BootstrappingLabel:               false,
		workv1alpha1.AllowBreakingAnnotation:             false,
		workv1alpha1.AllowDeletionAnnotation:             false,
	} {
		if got := workv1alpha1.IsOwnershipKey(key); got != want {
			t.Errorf("IsOwnershipKey(%q) = %v, want %v", key, got, want)
		}
	}
}
