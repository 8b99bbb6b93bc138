package attacks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// heard collects the warnings that an API server answers with.
type heard struct {
	mu       sync.Mutex
	warnings []string
}

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

func (h *heard) take() []string {
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

// fieldValues has for every field that nothing acts on a spec that sets it, and the path that the warning names.
var fieldValues = map[string]struct {
	path string
	spec map[string]any
}{
	"spec.failover.application": {"spec.failover.application", map[string]any{
		"propagateDeps": true, "failover": map[string]any{"application": map[string]any{"decisionConditions": map[string]any{"tolerationSeconds": int64(30)}}}}},
	"spec.failover.cluster": {"spec.failover.cluster", map[string]any{
		"failover": map[string]any{"cluster": map[string]any{"purgeMode": "Directly"}}}},
	"spec.placement.clusterTolerations.tolerationSeconds": {"spec.placement.clusterTolerations[0].tolerationSeconds", map[string]any{
		"placement": map[string]any{"clusterTolerations": []any{
			map[string]any{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(5)}}}}},
}

// TestAFieldThatNothingActsOnIsAnsweredWithAWarning writes every such field, at once and later: whoever believes that a failing
// cluster is left, because the policy was accepted, loses what runs there.
func TestAFieldThatNothingActsOnIsAnsweredWithAWarning(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	var warnings heard
	config := rest.CopyConfig(fleet.Hub.Config)
	config.WarningHandlerWithContext = &warnings
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for kind, inactive := range crds.NotYetActiveFields() {
		for _, f := range inactive {
			n++
			name := fmt.Sprintf("p-%d", n)
			key := strings.Join(f.Path, ".")
			value, ok := fieldValues[key]
			if !ok {
				t.Errorf("there is no test of %v of %s", key, kind.Kind)
				continue
			}
			spec := map[string]any{"resourceSelectors": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "absent"}}}
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind.Kind}}
			object.SetName(name)
			var access dynamic.ResourceInterface = client.Resource(clusterPolicies)
			if kind.Kind == policyv1alpha1.KindPropagationPolicy {
				object.SetNamespace(ns)
				access = client.Resource(policies).Namespace(ns)
			} else {
				t.Cleanup(func() { _ = access.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
			}
			object.Object["spec"] = spec
			if _, err := access.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := warnings.take(); len(got) > 0 {
				t.Errorf("%s without the field: warnings %q", kind.Kind, got)
			}
			want := []string{value.path + " " + f.Text}
			raw, err := json.Marshal(map[string]any{"spec": value.spec})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := access.Patch(t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := warnings.take(); !slices.Equal(got, want) {
				t.Errorf("%s is updated: warnings %q, want %q", kind.Kind, got, want)
			}
			maps.Copy(spec, value.spec)
			object.SetName(name + "-b")
			object.SetResourceVersion("")
			if _, err := access.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				t.Fatal(err)
			}
			if got := warnings.take(); !slices.Equal(got, want) {
				t.Errorf("%s is created: warnings %q, want %q", kind.Kind, got, want)
			}
		}
	}
	if n == 0 {
		t.Skip("something acts on every field")
	}

	// A taint that is to evict.
	taint := []byte(`{"spec":{"taints":[{"key":"maintenance","effect":"NoExecute"}]}}`)
	clusters := client.Resource(clusterv1alpha1.SchemeGroupVersion.WithResource("clusters"))
	if _, err := clusters.Patch(t.Context(), fleet.Members[0].Name, types.MergePatchType, taint, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if got := warnings.take(); len(got) != 1 || !strings.HasPrefix(got[0], "spec.taints[0].effect NoExecute ") {
		t.Errorf("a taint with the effect %s: warnings %q", corev1.TaintEffectNoExecute, got)
	}
}
