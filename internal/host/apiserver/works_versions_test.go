package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// TestBindingsInTwoVersions: v1alpha1 is another form of what is stored in v1alpha2, and preferred for Works only.
func TestBindingsInTwoVersions(t *testing.T) {
	if preferred := call(t, http.MethodGet, "/apis/work.karmada.io", "").wants(t, http.StatusOK).at("preferredVersion.version"); preferred != "v1alpha2" {
		t.Errorf("the preferred version is %v", preferred)
	}
	if text := call(t, http.MethodGet, "/openapi/v3/apis/work.karmada.io/v1alpha1", "").wants(t, http.StatusOK).text; !strings.Contains(text, "resourcePerReplicas") {
		t.Error("v1alpha1 is not explained")
	}
	ns := namespace(t)
	for kind, b := range map[string]*twoVersions{
		"ResourceBinding": {
			path: "namespaces/" + ns + "/resourcebindings", resource: "resourcebindings", namespace: ns,
			template: "apiVersion: v1, kind: ConfigMap, namespace: " + ns,
		},
		"ClusterResourceBinding": {
			path: "clusterresourcebindings", resource: "clusterresourcebindings",
			template: "apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole",
		},
	} {
		b.kind = kind
		t.Run(kind, func(t *testing.T) {
			b.create(t)
			t.Run("reads", b.reads)
			t.Run("writes", b.writes)
			t.Run("creates", b.creates)
			call(t, http.MethodDelete, b.former("/web"), "").wants(t, http.StatusOK)
			call(t, http.MethodGet, b.current("/web"), "").wants(t, http.StatusNotFound)
		})
	}
}

// twoVersions is a kind of bindings that is served in two versions.
type twoVersions struct {
	kind, path, resource string
	// namespace is empty for the kind without one.
	namespace string
	// template are the fields, but for the name, of the object that the bindings name.
	template string
}

func (b *twoVersions) former(rest string) string {
	return "/apis/work.karmada.io/v1alpha1/" + b.path + rest
}

func (b *twoVersions) current(rest string) string {
	return "/apis/work.karmada.io/v1alpha2/" + b.path + rest
}

// create makes a binding with fields that v1alpha1 does not have.
func (b *twoVersions) create(t *testing.T) {
	t.Helper()
	call(t, http.MethodPost, b.current(""), `{apiVersion: work.karmada.io/v1alpha2, kind: `+b.kind+`, metadata: {name: web, labels: {in: two-versions}}, spec: {
		resource: {`+b.template+`, name: web, uid: u}, replicas: 2, propagateDeps: true,
		placement: {clusterAffinity: {clusterNames: [m1]}}, clusters: [{name: m1, replicas: 2, components: [{name: main, replicas: 2}]}]}}`).wants(t, http.StatusCreated)
	call(t, http.MethodPatch, b.current("/web/status"), `{"status":{"schedulerObservedGeneration":1,"aggregatedStatus":[{"clusterName":"m1","applied":true,"health":"Healthy"}]}}`,
		"Content-Type", mergePatch).wants(t, http.StatusOK)
}

func (b *twoVersions) reads(t *testing.T) {
	a := call(t, http.MethodGet, b.former("/web"), "").wants(t, http.StatusOK)
	expect(t, "the version", a.at("apiVersion"), "work.karmada.io/v1alpha1")
	expect(t, "the kind", a.at("kind"), b.kind)
	expect(t, "the replicas", a.at("spec.resource.replicas"), 2)
	expect(t, "the cluster", a.at("spec.clusters.0.name"), "m1")
	expect(t, "applied", a.at("status.aggregatedStatus.0.applied"), true)
	expect(t, "the placement", a.at("spec.placement"), nil)
	expect(t, "the replicas of the spec", a.at("spec.replicas"), nil)
	expect(t, "the health", a.at("status.aggregatedStatus.0.health"), nil)
	list := call(t, http.MethodGet, b.former("?labelSelector=in%3Dtwo-versions"), "").wants(t, http.StatusOK)
	expect(t, "the version of the list", list.at("apiVersion"), "work.karmada.io/v1alpha1")
	expect(t, "the kind of the list", list.at("kind"), b.kind+"List")
	expect(t, "the replicas in the list", list.at("items.0.spec.resource.replicas"), 2)
	expect(t, "the placement in the list", list.at("items.0.spec.placement"), nil)
}

// kept fails the test unless the stored binding has what v1alpha1 has no fields for.
func (b *twoVersions) kept(t *testing.T) {
	t.Helper()
	a := call(t, http.MethodGet, b.current("/web"), "").wants(t, http.StatusOK)
	expect(t, "the uid", a.at("spec.resource.uid"), "u")
	expect(t, "the placement", a.at("spec.placement.clusterAffinity.clusterNames"), "[m1]")
	expect(t, "the dependencies", a.at("spec.propagateDeps"), true)
	expect(t, "the components", a.at("spec.clusters.0.components.0.name"), "main")
	expect(t, "the health", a.at("status.aggregatedStatus.0.health"), "Healthy")
	expect(t, "the scheduler", a.at("status.schedulerObservedGeneration"), 1)
}

// writes changes the binding in v1alpha1 in every way, and follows it in both versions.
func (b *twoVersions) writes(t *testing.T) {
	formerly, currently := b.watch(t, "v1alpha1"), b.watch(t, "v1alpha2")
	a := call(t, http.MethodGet, b.former("/web"), "").wants(t, http.StatusOK)
	call(t, http.MethodPut, b.former("/web"), strings.ReplaceAll(a.text, `"replicas":2`, `"replicas":3`)).wants(t, http.StatusOK)
	expect(t, "the replicas after an update", call(t, http.MethodGet, b.current("/web"), "").at("spec.replicas"), 3)
	b.kept(t)
	call(t, http.MethodPatch, b.former("/web"), `{"spec":{"resource":{"replicas":4}}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	expect(t, "the replicas after a patch", call(t, http.MethodGet, b.current("/web"), "").at("spec.replicas"), 4)
	b.kept(t)
	call(t, http.MethodPatch, b.former("/web?fieldManager=other&force=true"), `{apiVersion: work.karmada.io/v1alpha1, kind: `+b.kind+`, metadata: {name: web, labels: {a: b}}, spec: {
		resource: {`+b.template+`, name: web, replicas: 5}}}`, "Content-Type", string(types.ApplyYAMLPatchType)).wants(t, http.StatusOK)
	expect(t, "the replicas after an apply", call(t, http.MethodGet, b.current("/web"), "").at("spec.replicas"), 5)
	b.kept(t)
	call(t, http.MethodPatch, b.former("/web/status"), `{"status":{"aggregatedStatus":[{"clusterName":"m1","applied":false}]}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
	expect(t, "applied", call(t, http.MethodGet, b.current("/web"), "").at("status.aggregatedStatus.0.applied"), nil)
	b.kept(t)
	b.follows(t, formerly, "v1alpha1", "spec", "resource", "replicas")
	b.follows(t, currently, "v1alpha2", "spec", "replicas")
}

func (b *twoVersions) watch(t *testing.T, version string) watch.Interface {
	t.Helper()
	resource := objects.Resource(schema.GroupVersionResource{Group: bindingsResource.Group, Version: version, Resource: b.resource})
	var of dynamic.ResourceInterface = resource
	if b.namespace != "" {
		of = resource.Namespace(b.namespace)
	}
	watching, err := of.Watch(t.Context(), metav1.ListOptions{LabelSelector: "in=two-versions"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watching.Stop)
	return watching
}

// follows waits until a watch has sent the binding with five replicas, and fails the test if it sends another version.
func (b *twoVersions) follows(t *testing.T, watching watch.Interface, version string, replicas ...string) {
	t.Helper()
	limit := time.After(3 * time.Minute)
	for {
		select {
		case event := <-watching.ResultChan():
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok || object.GetAPIVersion() != "work.karmada.io/"+version || object.GetKind() != b.kind {
				t.Fatalf("a watch of %s sends %v", version, event)
			}
			if n, _, _ := unstructured.NestedInt64(object.Object, replicas...); n == 5 {
				return
			}
		case <-limit:
			t.Fatalf("a watch of %s does not follow", version)
		}
	}
}

// creates makes a binding in v1alpha1.
func (b *twoVersions) creates(t *testing.T) {
	a := call(t, http.MethodPost, b.former(""), `{apiVersion: work.karmada.io/v1alpha1, kind: `+b.kind+`, metadata: {name: new}, spec: {
		resource: {`+b.template+`, name: new, replicas: 1, resourcePerReplicas: {cpu: 10m}}, clusters: [{name: m1, replicas: 1}]}}`).wants(t, http.StatusCreated)
	expect(t, "the version of the answer", a.at("apiVersion"), "work.karmada.io/v1alpha1")
	a = call(t, http.MethodGet, b.current("/new"), "").wants(t, http.StatusOK)
	expect(t, "the replicas of a new one", a.at("spec.replicas"), 1)
	expect(t, "the request of a new one", a.at("spec.replicaRequirements.resourceRequest.cpu"), "10m")
	expect(t, "the clusters of a new one", a.at("spec.clusters.0.replicas"), 1)
	expect(t, "the default of a new one", a.at("spec.conflictResolution"), "Abort")
	call(t, http.MethodDelete, b.former("/new"), "").wants(t, http.StatusOK)
}
