package attacks_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// recordedWarnings collects the warnings that an API server answers with.
type recordedWarnings struct {
	mu       sync.Mutex
	warnings []string
}

func (h *recordedWarnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

func (h *recordedWarnings) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.warnings
	h.warnings = nil
	return taken
}

var (
	policies        = policyv1alpha1.GroupVersion.WithResource("propagationpolicies")
	clusterPolicies = policyv1alpha1.GroupVersion.WithResource("clusterpropagationpolicies")
)

// TestFieldsOfFailoverAreAnsweredWithoutAWarning writes what failover follows from. A warning would mean that nothing acts on it.
func TestFieldsOfFailoverAreAnsweredWithoutAWarning(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	var warnings recordedWarnings
	config := rest.CopyConfig(fleet.Hub.Config)
	config.WarningHandlerWithContext = &warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string]map[string]any{
		"failover": {"failover": map[string]any{"cluster": map[string]any{"purgeMode": "Directly"}}},
		"toleration": {"placement": map[string]any{"clusterTolerations": []any{
			map[string]any{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(5)}}}},
	} {
		for kind, access := range map[string]dynamic.ResourceInterface{
			policyv1alpha1.KindPropagationPolicy:        client.Resource(policies).Namespace(ns),
			policyv1alpha1.KindClusterPropagationPolicy: client.Resource(clusterPolicies),
		} {
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind}}
			object.SetName(name)
			object.Object["spec"] = map[string]any{"resourceSelectors": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "absent"}}}
			maps.Copy(object.Object["spec"].(map[string]any), spec)
			if _, err := access.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Fatal(err)
			}
			if got := warnings.take(); len(got) > 0 {
				t.Errorf("%s with %s: warnings %q", kind, name, got)
			}
		}
	}
	taint := []byte(`{"spec":{"taints":[{"key":"maintenance","effect":"NoExecute"}]}}`)
	clusters := client.Resource(clusterv1alpha1.SchemeGroupVersion.WithResource("clusters"))
	if _, err := clusters.Patch(t.Context(), fleet.Members[0].Name, types.MergePatchType, taint, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if got := warnings.take(); len(got) > 0 {
		t.Errorf("a taint with the effect NoExecute: warnings %q", got)
	}
}
