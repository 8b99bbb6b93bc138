package mcs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// Keys of a claim of a MultiClusterService, and of that of a policy, which it replaces.
var (
	ownClaimLabels         = []string{policyv1alpha1.ResourceTemplateClaimedByLabel, networkingv1alpha1.MultiClusterServicePermanentIDLabel}
	ownClaimAnnotations    = []string{networkingv1alpha1.MultiClusterServiceNamespaceLabel, networkingv1alpha1.MultiClusterServiceNameLabel}
	policyClaimLabels      = []string{policyv1alpha1.PropagationPolicyPermanentIDLabel, policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel}
	policyClaimAnnotations = []string{
		policyv1alpha1.PropagationPolicyNamespaceAnnotation, policyv1alpha1.PropagationPolicyNameAnnotation,
		policyv1alpha1.ClusterPropagationPolicyNameAnnotation,
	}
)

// claimed returns whether a MultiClusterService has the Service.
func claimed(obj metav1.Object) bool {
	return obj.GetLabels()[policyv1alpha1.ResourceTemplateClaimedByLabel] == networkingv1alpha1.KindMultiClusterService
}

// policyOn returns which policy has the Service; empty if none has.
func policyOn(service metav1.Object) string {
	annotations := service.GetAnnotations()
	switch {
	case service.GetLabels()[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "":
		return "PropagationPolicy " + annotations[policyv1alpha1.PropagationPolicyNamespaceAnnotation] + "/" + annotations[policyv1alpha1.PropagationPolicyNameAnnotation]
	case service.GetLabels()[policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel] != "":
		return "ClusterPropagationPolicy " + annotations[policyv1alpha1.ClusterPropagationPolicyNameAnnotation]
	}
	return ""
}

func claimLabels(mcs *networkingv1alpha1.MultiClusterService) map[string]string {
	return map[string]string{
		policyv1alpha1.ResourceTemplateClaimedByLabel:          networkingv1alpha1.KindMultiClusterService,
		networkingv1alpha1.MultiClusterServicePermanentIDLabel: mcs.Labels[networkingv1alpha1.MultiClusterServicePermanentIDLabel],
	}
}

func claimAnnotations(mcs *networkingv1alpha1.MultiClusterService) map[string]string {
	return map[string]string{
		networkingv1alpha1.MultiClusterServiceNamespaceLabel: mcs.Namespace,
		networkingv1alpha1.MultiClusterServiceNameLabel:      mcs.Name,
	}
}

// claimPatch claims a Service for a MultiClusterService.
func claimPatch(service metav1.Object, mcs *networkingv1alpha1.MultiClusterService) hubstore.MetadataPatch {
	patch := hubstore.MetadataPatch{UID: service.GetUID()}
	patch.Labels = hubstore.Difference(service.GetLabels(), claimLabels(mcs), ownClaimLabels, policyClaimLabels)
	patch.Annotations = hubstore.Difference(service.GetAnnotations(), claimAnnotations(mcs), ownClaimAnnotations, policyClaimAnnotations)
	return patch
}

// releasePatch removes the claim, so that policies may have the Service.
func releasePatch(service metav1.Object) hubstore.MetadataPatch {
	return hubstore.MetadataPatch{
		UID:         service.GetUID(),
		Labels:      hubstore.Difference(service.GetLabels(), nil, ownClaimLabels),
		Annotations: hubstore.Difference(service.GetAnnotations(), nil, ownClaimAnnotations),
	}
}

// contentOf is a hash of what users specify of a Service, without its status and the claim.
func contentOf(service *corev1.Service) (string, error) {
	without := func(all map[string]string, lists ...[]string) map[string]string {
		kept := labels.Merge(all, nil) // Never nil: no keys and no other keys are the same.
		for _, keys := range lists {
			for _, key := range keys {
				delete(kept, key)
			}
		}
		return kept
	}
	raw, err := json.Marshal([]any{
		service.Spec,
		without(service.Labels, ownClaimLabels, policyClaimLabels),
		without(service.Annotations, ownClaimAnnotations, policyClaimAnnotations, []string{corev1.LastAppliedConfigAnnotation}),
	})
	if err != nil {
		return "", fmt.Errorf("encoding Service %s/%s: %w", service.Namespace, service.Name, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// mismatch returns the ports of a MultiClusterService that the Service lacks; empty if it has them all.
func mismatch(ports []networkingv1alpha1.ExposurePort, service *corev1.Service) string {
	var missing []string
	for _, port := range ports {
		found := false
		for _, p := range service.Spec.Ports {
			found = found || p.Port == port.Port && (port.Name == "" || port.Name == p.Name)
		}
		if !found {
			missing = append(missing, portText(port.Name, port.Port))
		}
	}
	if len(missing) == 0 {
		return ""
	}
	present := make([]string, 0, len(service.Spec.Ports))
	for _, p := range service.Spec.Ports {
		present = append(present, portText(p.Name, p.Port))
	}
	return fmt.Sprintf("spec.ports has %s, but Service %s/%s has %s: correct one of them",
		strings.Join(missing, ", "), service.Namespace, service.Name, orNone(strings.Join(present, ", "), "no ports"))
}

func portText(name string, port int32) string {
	if name == "" {
		return fmt.Sprint(port)
	}
	return fmt.Sprintf("%s (%d)", name, port)
}

func orNone(text, none string) string {
	if text == "" {
		return none
	}
	return text
}
