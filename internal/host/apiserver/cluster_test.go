package apiserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

var clusterResource = clusterv1alpha1.GroupVersion.WithResource("clusters")

// createCluster makes a cluster that ends with the test.
func createCluster(t *testing.T, name, spec string) *clusterv1alpha1.Cluster {
	t.Helper()
	created, err := objects.Resource(clusterResource).Create(t.Context(), clusterObject(t, name, spec), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = objects.Resource(clusterResource).Delete(t.Context(), name, metav1.DeleteOptions{})
	})
	return typed(t, created)
}

func clusterObject(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": map[string]any{"name": name},
	}}
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatal(err)
	}
	object.Object["spec"] = content
	return object
}

func typed(t *testing.T, object *unstructured.Unstructured) *clusterv1alpha1.Cluster {
	t.Helper()
	cluster := &clusterv1alpha1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, cluster); err != nil {
		t.Fatal(err)
	}
	return cluster
}

func patchCluster(t *testing.T, name, patch string, subresources ...string) *clusterv1alpha1.Cluster {
	t.Helper()
	patched, err := objects.Resource(clusterResource).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return typed(t, patched)
}

func TestClusterSpecAndStatusAreApart(t *testing.T) {
	created := createCluster(t, "apart", `{syncMode: Push, zone: z1, taints: [{key: a, effect: NoExecute}, {key: b, effect: NoSchedule}]}`)
	if created.Generation != 1 || len(created.Spec.ResourceModels) != 9 || !cmp.Equal(created.Spec.Zones, []string{"z1"}) {
		t.Errorf("defaults are missing: %+v", created)
	}
	if created.Spec.Taints[0].TimeAdded == nil || created.Spec.Taints[1].TimeAdded != nil {
		t.Errorf("taints %+v, want a time on the one that drives objects out", created.Spec.Taints)
	}

	status := patchCluster(t, "apart", `{"spec": {"region": "x"}, "metadata": {"labels": {"x": "y"}}, "status": {"kubernetesVersion": "v1.37.1"}}`, "status")
	if status.Status.KubernetesVersion != "v1.37.1" || status.Spec.Region != "" || len(status.Labels) != 0 || status.Generation != 1 {
		t.Errorf("a write to status changed more, or less: %+v", status)
	}
	spec := patchCluster(t, "apart", `{"spec": {"region": "x", "taints": [{"key": "a", "effect": "NoExecute"}]}, "status": {"kubernetesVersion": "no"}}`)
	if spec.Spec.Region != "x" || spec.Status.KubernetesVersion != "v1.37.1" || spec.Generation != 2 {
		t.Errorf("a write to the spec changed more, or less: %+v", spec)
	}
	if !spec.Spec.Taints[0].TimeAdded.Equal(created.Spec.Taints[0].TimeAdded) {
		t.Errorf("the taint is from %v, want it to keep %v", spec.Spec.Taints[0].TimeAdded, created.Spec.Taints[0].TimeAdded)
	}
	if labelled := patchCluster(t, "apart", `{"metadata": {"labels": {"x": "y"}}}`); labelled.Generation != 2 || labelled.Labels["x"] != "y" {
		t.Errorf("a label: generation %d, labels %v", labelled.Generation, labelled.Labels)
	}
}

func TestClusterWritesAreRefused(t *testing.T) {
	createCluster(t, "first", `{syncMode: Push, id: same}`)
	tests := map[string]struct {
		reason, name, spec string
		labels             map[string]string
		want               func(error) bool
	}{
		"NoMode":      {reason: "either side may dial, but one must", name: "a", spec: `{}`, want: apierrors.IsInvalid},
		"LongName":    {reason: "names derived from it would not be legal", name: strings.Repeat("a", 49), spec: `{syncMode: Push}`, want: apierrors.IsInvalid},
		"SecondOfOne": {reason: "two names for one member would fight over it", name: "second", spec: `{syncMode: Push, id: same}`, want: apierrors.IsConflict},
		"Admission":   {reason: "plugins see native kinds, too", name: "b", spec: `{syncMode: Push}`, labels: map[string]string{"unwanted": "true"}, want: apierrors.IsForbidden},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := clusterObject(t, test.name, test.spec)
			object.SetLabels(test.labels)
			if _, err := objects.Resource(clusterResource).Create(t.Context(), object, metav1.CreateOptions{}); !test.want(err) {
				t.Errorf("%s: got %v", test.reason, err)
			}
		})
	}
	_, err := objects.Resource(clusterResource).Patch(t.Context(), "first", types.MergePatchType, []byte(`{"spec": {"id": "other"}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("another id: got %v, want invalid: it is who the member is", err)
	}
}

func TestClusterServerSideApply(t *testing.T) {
	t.Cleanup(func() { _ = objects.Resource(clusterResource).Delete(t.Context(), "applied", metav1.DeleteOptions{}) })
	apply := func(manager, spec string) (*unstructured.Unstructured, error) {
		return objects.Resource(clusterResource).Apply(t.Context(), "applied", clusterObject(t, "applied", spec), metav1.ApplyOptions{FieldManager: manager})
	}
	if _, err := apply("one", `{syncMode: Push, region: near}`); err != nil {
		t.Fatal(err)
	}
	if _, err := apply("two", `{syncMode: Push, region: far}`); !apierrors.IsConflict(err) {
		t.Errorf("another manager's field: got %v, want a conflict", err)
	}
	changed, err := apply("one", `{syncMode: Push}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := typed(t, changed).Spec.Region; got != "" {
		t.Errorf("region %q, want it gone with its only owner's claim", got)
	}
}

func TestClusterFinalizersAndCollections(t *testing.T) {
	createCluster(t, "held", `{syncMode: Push}`)
	createCluster(t, "other", `{syncMode: Push}`)
	patchCluster(t, "held", `{"metadata": {"labels": {"group": "g"}, "finalizers": ["karmada.io/cluster-controller"]}}`)

	selected := metav1.ListOptions{FieldSelector: "metadata.name=held"}
	list, err := objects.Resource(clusterResource).List(t.Context(), selected)
	if err != nil || len(list.Items) != 1 {
		t.Errorf("selecting by name: %v, %v", list, err)
	}
	if err := objects.Resource(clusterResource).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "group=g"}); err != nil {
		t.Fatal(err)
	}
	held, err := objects.Resource(clusterResource).Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil || held.GetDeletionTimestamp() == nil {
		t.Fatalf("a cluster with a finalizer: %v, want it there and being deleted", err)
	}
	if _, err := objects.Resource(clusterResource).Get(t.Context(), "other", metav1.GetOptions{}); err != nil {
		t.Errorf("a cluster that was not selected: %v", err)
	}
	patch := []byte(`{"metadata": {"finalizers": null}}`)
	if _, err := objects.Resource(clusterResource).Patch(t.Context(), "held", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Resource(clusterResource).Get(t.Context(), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v, want it gone", err)
	}
}

func TestClusterTable(t *testing.T) {
	createCluster(t, "shown", `{syncMode: Pull, zones: [a, b], region: r, provider: p, apiEndpoint: "https://x", proxyURL: "http://y"}`)
	patchCluster(t, "shown", `{"status": {"kubernetesVersion": "v1.37.1", "conditions": [
		{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`, "status")
	raw, err := clients.Discovery().RESTClient().Get().AbsPath("/apis/cluster.karmada.io/v1alpha1/clusters/shown").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	var header []string
	for _, column := range table.ColumnDefinitions {
		header = append(header, fmt.Sprintf("%s/%d", column.Name, column.Priority))
	}
	want := []string{
		"Name/0", "Version/0", "Mode/0", "Ready/0", "Age/0",
		"Zones/1", "Region/1", "Provider/1", "API-Endpoint/1", "Proxy-URL/1",
	}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	cells := table.Rows[0].Cells
	cells[4] = "AGE"
	if diff := cmp.Diff([]any{"shown", "v1.37.1", "Pull", "True", "AGE", "a,b", "r", "p", "https://x", "http://y"}, cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}
