package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

var (
	worksResource    = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha1", Resource: "works"}
	bindingsResource = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha2", Resource: "resourcebindings"}
)

const (
	workHead    = "{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: %s}, spec: %s}"
	bindingHead = "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: %s}, spec: %s}"
	manifests   = "{workload: {manifests: [{apiVersion: example.com/v1, kind: Any, metadata: {name: a}, deep: {er: [1, 2.5, {x: null}]}}]}}"
	deployment  = "{apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}"
)

func parsed(t *testing.T, format string, args ...any) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, format, args...), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// in is a resource in a namespace of the test's own.
func in(t *testing.T, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	t.Helper()
	return objects.Resource(resource).Namespace(namespace(t))
}

func stored(t *testing.T, client dynamic.ResourceInterface, format string, args ...any) *unstructured.Unstructured {
	t.Helper()
	created, err := client.Create(t.Context(), parsed(t, format, args...), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func at(object *unstructured.Unstructured, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	return value
}

// TestWorkSpecAndStatusAreApart: the two halves of an object have different writers, and only one counts generations.
func TestWorkSpecAndStatusAreApart(t *testing.T) {
	works := in(t, worksResource)
	work := parsed(t, workHead, "w", manifests)
	work.Object["status"] = map[string]any{"conditions": []any{}}
	created, err := works.Create(t.Context(), work, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.GetGeneration() != 1 || at(created, "status", "conditions") != nil {
		t.Errorf("created with generation %d and status %v", created.GetGeneration(), at(created, "status"))
	}

	const condition = `{"type": "Applied", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}`
	patch := func(body string, subresources ...string) *unstructured.Unstructured {
		t.Helper()
		patched, err := works.Patch(t.Context(), "w", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
		if err != nil {
			t.Fatal(err)
		}
		return patched
	}
	status := patch(`{"spec": {"suspendDispatching": true}, "metadata": {"labels": {"a": "b"}}, "status": {"conditions": [`+condition+`]}}`, "status")
	if at(status, "spec", "suspendDispatching") != nil || len(status.GetLabels()) != 0 || status.GetGeneration() != 1 || at(status, "status", "conditions") == nil {
		t.Errorf("a write to status changed more, or less: %v", status.Object)
	}
	spec := patch(`{"spec": {"suspendDispatching": true}, "status": null}`)
	if spec.GetGeneration() != 2 || at(spec, "status", "conditions") == nil {
		t.Errorf("a write to the spec changed more, or less: %v", spec.Object)
	}
	if labelled := patch(`{"metadata": {"labels": {"a": "b"}}}`); labelled.GetGeneration() != 2 {
		t.Errorf("a label made generation %d", labelled.GetGeneration())
	}
}

// TestWorkKeepsManifestsAsTheyAre, and takes the same object in another order for the same.
func TestWorkKeepsManifestsAsTheyAre(t *testing.T) {
	works := in(t, worksResource)
	created := stored(t, works, workHead, "w", manifests)
	want := at(parsed(t, workHead, "w", manifests), "spec")
	sent, _ := json.Marshal(want)
	if got, _ := json.Marshal(at(created, "spec")); string(got) != string(sent) {
		t.Errorf("stored %s, want %s", got, sent)
	}
	manifest := at(created, "spec", "workload", "manifests").([]any)[0].(map[string]any)
	reordered, _ := json.MarshalIndent(manifest, "", "  ")
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/workload/manifests/0", "value": {"kind": "Any", %s}]`,
		strings.Replace(strings.TrimPrefix(string(reordered), "{"), `"kind": "Any",`, "", 1))
	patched, err := works.Patch(t.Context(), "w", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if patched.GetResourceVersion() != created.GetResourceVersion() {
		t.Errorf("the same manifest in another order was written: generation %d", patched.GetGeneration())
	}
}

func TestBindingIsDefaulted(t *testing.T) {
	binding := stored(t, in(t, bindingsResource), bindingHead, "b", "{resource: "+deployment+", placement: {replicaScheduling: {}}, schedulePriority: {}}")
	if got := at(binding, "spec", "conflictResolution"); got != "Abort" {
		t.Errorf("conflictResolution is %v, want Abort", got)
	}
	if got := at(binding, "spec", "placement", "replicaScheduling", "replicaSchedulingType"); got != "Divided" {
		t.Errorf("replicaSchedulingType is %v, want Divided", got)
	}
}

func TestWorkGroupWritesAreRefused(t *testing.T) {
	tests := map[string]struct {
		reason   string
		resource schema.GroupVersionResource
		object   string
		want     string
	}{
		"Unknown field": {"a misspelt field is not lost silently", worksResource,
			fmt.Sprintf(workHead, "a", "{workload: {}, suspendDispatch: true}"), `unknown field "spec.suspendDispatch"`},
		"Wrong type": {"a Go type cannot hold it", worksResource,
			fmt.Sprintf(workHead, "a", "{suspendDispatching: 7}"), "cannot unmarshal number"},
		"Bad name": {"names are those of custom resources", worksResource,
			fmt.Sprintf(workHead, "A_b", manifests), "metadata.name"},
		"No name of the template": {"what is required has a value", bindingsResource,
			fmt.Sprintf(bindingHead, "a", "{resource: {apiVersion: v1, kind: ConfigMap}}"), "spec.resource.name"},
		"Bad enum": {"values are those of the schema", bindingsResource,
			fmt.Sprintf(bindingHead, "a", "{resource: "+deployment+", conflictResolution: Maybe}"), `spec.conflictResolution: Unsupported value: "Maybe"`},
		"Rule": {"rules of the schema hold", bindingsResource,
			fmt.Sprintf(bindingHead, "a", "{resource: "+deployment+", suspension: {dispatching: true, dispatchingOnClusters: {clusterNames: [a]}}}"), "spec.suspension"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := in(t, test.resource).Create(t.Context(), parsed(t, "%s", test.object), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want an error about %s", test.reason, err, test.want)
			}
		})
	}
}

func TestWorkStatusIsChecked(t *testing.T) {
	works := in(t, worksResource)
	stored(t, works, workHead, "w", manifests)
	for body, want := range map[string]string{
		`{"conditions": [{"type": "Applied", "status": "Perhaps", "reason": "R", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}`:               "status.conditions[0].status",
		`{"manifestStatuses": [{"identifier": {"ordinal": 0, "version": "v1", "kind": "A", "resource": "as", "name": "a"}, "health": "Fine"}]}`: "status.manifestStatuses[0].health",
	} {
		_, err := works.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"status":`+body+`}`), metav1.PatchOptions{}, "status")
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want it to be refused for %s", body, err, want)
		}
	}
}

// TestBindingConditionsHaveOwners: two controllers apply their own conditions, and neither removes those of the other.
func TestBindingConditionsHaveOwners(t *testing.T) {
	bindings := in(t, bindingsResource)
	stored(t, bindings, bindingHead, "b", "{resource: "+deployment+"}")
	for _, kind := range []string{"Scheduled", "FullyApplied"} {
		status := fmt.Sprintf(`{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: b}, status: {conditions: [
			{type: %s, status: "True", reason: R, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}`, kind)
		_, err := bindings.ApplyStatus(t.Context(), "b", parsed(t, "%s", status), metav1.ApplyOptions{FieldManager: kind})
		if err != nil {
			t.Fatal(err)
		}
	}
	binding, err := bindings.Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if conditions, _ := at(binding, "status", "conditions").([]any); len(conditions) != 2 {
		t.Errorf("conditions %v, want those of both owners", conditions)
	}
}

func TestWorkGroupIsPresented(t *testing.T) {
	works := in(t, worksResource)
	work := stored(t, works, workHead, "w", manifests)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		hub.URL()+"/apis/work.karmada.io/v1alpha1/namespaces/"+work.GetNamespace()+"/works", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := admin(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	table := metav1.Table{}
	if err := json.NewDecoder(response.Body).Decode(&table); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, column := range table.ColumnDefinitions {
		columns = append(columns, column.Name)
	}
	if got := strings.Join(columns, " "); got != "Name WORKLOAD-KIND APPLIED AGE" || len(table.Rows) != 1 || table.Rows[0].Cells[1] != "Any" {
		t.Errorf("columns %q with rows %v", got, table.Rows)
	}

	resources, err := clients.Discovery().ServerResourcesForGroupVersion("work.karmada.io/v1alpha1")
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range resources.APIResources {
		if resource.Name == "works" && (strings.Join(resource.ShortNames, ",") != "wk" || strings.Join(resource.Categories, ",") != "karmada-io" || resource.SingularName != "work") {
			t.Errorf("works are presented as %+v", resource)
		}
	}
	bindings, err := clients.Discovery().ServerResourcesForGroupVersion("work.karmada.io/v1alpha2")
	if err != nil {
		t.Fatal(err)
	}
	presented := map[string]string{}
	for _, resource := range bindings.APIResources {
		presented[resource.Name] = resource.Kind + " " + strings.Join(resource.Verbs, ",")
	}
	for name, want := range map[string]string{"resourcebindings/schedule": "ResourceBinding get,patch,update", "clusterresourcebindings/schedule": "ClusterResourceBinding get,patch,update"} {
		if presented[name] != want {
			t.Errorf("%s is presented as %q, want %q", name, presented[name], want)
		}
	}
}

// TestWorkManagersAreRecordedOnceApplied, whoever created the Work.
func TestWorkManagersAreRecordedOnceApplied(t *testing.T) {
	name := namespace(t)
	own := objects.Resource(worksResource).Namespace(name)
	stored(t, own, workHead, "own", manifests)
	users := administrator(t).Resource(worksResource).Namespace(name)
	if _, err := users.Create(t.Context(), parsed(t, workHead, "hand", manifests), metav1.CreateOptions{FieldManager: "me"}); err != nil {
		t.Fatal(err)
	}
	managers := func(work string) (all []string) {
		t.Helper()
		found, err := own.Get(t.Context(), work, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range found.GetManagedFields() {
			all = append(all, entry.Manager)
		}
		return all
	}
	for _, work := range []string{"own", "hand"} {
		if got := managers(work); len(got) != 0 {
			t.Errorf("the Work %s, which was created, has managers %v", work, got)
		}
		suspended := parsed(t, workHead, work, "{suspendDispatching: true}")
		if _, err := users.Apply(t.Context(), work, suspended, metav1.ApplyOptions{FieldManager: "me"}); err != nil {
			t.Fatal(err)
		}
		if got := managers(work); len(got) != 2 {
			t.Errorf("the Work %s, which was applied, has managers %v, want me and before-first-apply", work, got)
		}
	}
	if _, err := users.Apply(t.Context(), "applied", parsed(t, workHead, "applied", manifests), metav1.ApplyOptions{FieldManager: "me"}); err != nil {
		t.Fatal(err)
	}
	if got := managers("applied"); len(got) != 1 || got[0] != "me" {
		t.Errorf("a Work that an apply created has managers %v, want me", got)
	}
}

func administrator(t *testing.T) dynamic.Interface {
	t.Helper()
	return dynamic.NewForConfigOrDie(adminConfig(t))
}

// TestAnySchedulerWritesResultAndStatusInOne: a client with a right to the subresource schedule needs no other, and an update of the
// main resource changes no status, even if the control plane itself makes it.
func TestAnySchedulerWritesResultAndStatusInOne(t *testing.T) {
	name := namespace(t)
	own := objects.Resource(bindingsResource).Namespace(name)
	stored(t, own, bindingHead, "b", "{replicas: 2, resource: "+deployment+"}")
	scheduler := schedulerIn(t, name).Resource(bindingsResource).Namespace(name)
	decide := func(cluster string, observed int64) *unstructured.Unstructured {
		t.Helper()
		binding, err := own.Get(t.Context(), "b", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for value, path := range map[any][]string{observed: {"status", "schedulerObservedGeneration"}, "{}": {"metadata", "annotations", workv1alpha2.AppliedPlacementAnnotation}} {
			if err := unstructured.SetNestedField(binding.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
		if err := unstructured.SetNestedSlice(binding.Object, []any{map[string]any{"name": cluster, "replicas": int64(2)}}, "spec", "clusters"); err != nil {
			t.Fatal(err)
		}
		return binding
	}
	chosen := func(binding *unstructured.Unstructured) string {
		return fmt.Sprint(at(binding, "spec", "clusters"), at(binding, "status", "schedulerObservedGeneration"), binding.GetGeneration())
	}
	edited := decide("m1", 2)
	if err := unstructured.SetNestedField(edited.Object, int64(5), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	var written *unstructured.Unstructured
	eventually(t, func() string { // the authorizer watches roles
		var err error
		if written, err = scheduler.Update(t.Context(), edited, metav1.UpdateOptions{}, workv1alpha2.SubresourceSchedule); err != nil {
			return err.Error()
		}
		return ""
	})
	if got := chosen(written); got != "[map[name:m1 replicas:2]] 2 2" || at(written, "spec", "replicas") != int64(2) || len(written.GetAnnotations()) != 1 {
		t.Errorf("the scheduler wrote %s and replicas %v, annotations %v", got, at(written, "spec", "replicas"), written.GetAnnotations())
	}
	if _, err := scheduler.Update(t.Context(), decide("m2", 9), metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the scheduler updates the binding itself: %v", err)
	}
	written, err := own.Update(t.Context(), decide("m2", 9), metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := chosen(written); got != "[map[name:m2 replicas:2]] 2 3" {
		t.Errorf("an update of the main resource makes %s, want the status to stay", got)
	}
}

// schedulerIn is a client with a token and the rights of a scheduler in one namespace.
func schedulerIn(t *testing.T, namespace string) dynamic.Interface {
	t.Helper()
	_, err := clients.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{workv1alpha2.GroupName}, Resources: []string{"resourcebindings/schedule"}, Verbs: []string{"update"}},
	}}
	if _, err := clients.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "scheduler"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "scheduler"}}}
	if _, err := clients.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "scheduler", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return dynamic.NewForConfigOrDie(&rest.Config{Host: hub.URL(), BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CA()}})
}
