package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestBindingsInTwoVersions: v1alpha1 is another form of what is stored in v1alpha2, and preferred for Works only.
func TestBindingsInTwoVersions(t *testing.T) {
	ns := namespace(t)
	const group = "/apis/work.karmada.io/"
	former, current := group+"v1alpha1/namespaces/"+ns+"/resourcebindings", group+"v1alpha2/namespaces/"+ns+"/resourcebindings"
	if preferred := call(t, http.MethodGet, "/apis/work.karmada.io", "").wants(t, http.StatusOK).at("preferredVersion.version"); preferred != "v1alpha2" {
		t.Errorf("the preferred version is %v", preferred)
	}
	call(t, http.MethodPost, current, `{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: web}, spec: {
		resource: {apiVersion: v1, kind: ConfigMap, namespace: `+ns+`, name: web, uid: u}, replicas: 2, propagateDeps: true,
		placement: {clusterAffinity: {clusterNames: [m1]}}, clusters: [{name: m1, replicas: 2, components: [{name: main, replicas: 2}]}]}}`).wants(t, http.StatusCreated)
	call(t, http.MethodPatch, current+"/web/status", `{"status":{"schedulerObservedGeneration":1,"aggregatedStatus":[{"clusterName":"m1","applied":true,"health":"Healthy"}]}}`,
		"Content-Type", mergePatch).wants(t, http.StatusOK)

	watching, err := objects.Resource(bindingsResource.GroupResource().WithVersion("v1alpha1")).Namespace(ns).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	a := call(t, http.MethodGet, former+"/web", "").wants(t, http.StatusOK)
	expect(t, "the version", a.at("apiVersion"), "work.karmada.io/v1alpha1")
	expect(t, "the replicas", a.at("spec.resource.replicas"), 2)
	expect(t, "the placement", a.at("spec.placement"), nil)
	expect(t, "the kind of the list", call(t, http.MethodGet, former, "").wants(t, http.StatusOK).at("kind"), "ResourceBindingList")
	expect(t, "the replicas in the list", call(t, http.MethodGet, former, "").at("items.0.spec.resource.replicas"), 2)

	kept := func() {
		t.Helper()
		a := call(t, http.MethodGet, current+"/web", "").wants(t, http.StatusOK)
		expect(t, "the uid", a.at("spec.resource.uid"), "u")
		expect(t, "the placement", a.at("spec.placement.clusterAffinity.clusterNames"), "[m1]")
		expect(t, "the dependencies", a.at("spec.propagateDeps"), true)
		expect(t, "the components", a.at("spec.clusters.0.components.0.name"), "main")
		expect(t, "the health", a.at("status.aggregatedStatus.0.health"), "Healthy")
		expect(t, "the scheduler", a.at("status.schedulerObservedGeneration"), 1)
	}
	call(t, http.MethodPut, former+"/web", strings.ReplaceAll(a.text, `"replicas":2`, `"replicas":3`)).wants(t, http.StatusOK)
	expect(t, "the replicas after an update", call(t, http.MethodGet, current+"/web", "").at("spec.replicas"), 3)
	kept()
	call(t, http.MethodPatch, former+"/web", `{"spec":{"resource":{"replicas":4}}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	expect(t, "the replicas after a patch", call(t, http.MethodGet, current+"/web", "").at("spec.replicas"), 4)
	kept()
	call(t, http.MethodPatch, former+"/web?fieldManager=other&force=true", `{apiVersion: work.karmada.io/v1alpha1, kind: ResourceBinding, metadata: {name: web, labels: {a: b}}, spec: {
		resource: {apiVersion: v1, kind: ConfigMap, namespace: `+ns+`, name: web, replicas: 5}}}`, "Content-Type", string(types.ApplyYAMLPatchType)).wants(t, http.StatusOK)
	expect(t, "the replicas after an apply", call(t, http.MethodGet, current+"/web", "").at("spec.replicas"), 5)
	kept()
	call(t, http.MethodPatch, former+"/web/status", `{"status":{"aggregatedStatus":[{"clusterName":"m1","applied":false}]}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	expect(t, "applied", call(t, http.MethodGet, current+"/web", "").at("status.aggregatedStatus.0.applied"), nil)
	kept()

	limit := time.After(3 * time.Minute)
	for seen := false; !seen; {
		select {
		case event := <-watching.ResultChan():
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok || object.GetAPIVersion() != "work.karmada.io/v1alpha1" {
				t.Fatalf("a watch sends %v", event)
			}
			replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "resource", "replicas")
			seen = replicas == 5
		case <-limit:
			t.Fatal("a watch does not follow")
		}
	}
	call(t, http.MethodPost, former, `{apiVersion: work.karmada.io/v1alpha1, kind: ResourceBinding, metadata: {name: new}, spec: {
		resource: {apiVersion: v1, kind: ConfigMap, namespace: `+ns+`, name: new, replicas: 1}, clusters: [{name: m1}]}}`).wants(t, http.StatusCreated)
	expect(t, "the default of a new one", call(t, http.MethodGet, current+"/new", "").at("spec.conflictResolution"), "Abort")
	if text := call(t, http.MethodGet, "/openapi/v3/apis/work.karmada.io/v1alpha1", "").wants(t, http.StatusOK).text; !strings.Contains(text, "resourcePerReplicas") {
		t.Error("v1alpha1 is not explained")
	}
	for _, name := range []string{"web", "new"} {
		call(t, http.MethodDelete, former+"/"+name, "").wants(t, http.StatusOK)
	}
}
