package services_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var mcsResource = schema.GroupVersionResource{Group: "networking.karmada.io", Version: "v1alpha1", Resource: "multiclusterservices"}

// written is a MultiClusterService as a user writes it.
func written(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	text := fmt.Sprintf("{apiVersion: networking.karmada.io/v1alpha1, kind: MultiClusterService, metadata: {name: %s}, spec: {%s}}", name, spec)
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestAPIRefuses: what cannot be meant is refused where it is written, with the field.
func TestAPIRefuses(t *testing.T) {
	fleet := shared.Start(t)
	client := fleet.Hub.Dynamic.Resource(mcsResource).Namespace(fleet.Namespace(t))
	for reason, tc := range map[string]struct{ name, spec, want string }{
		"no types":                {"web", "ports: []", "spec.types"},
		"an empty list of types":  {"web", "types: []", "exactly one type"},
		"two types":               {"web", "types: [CrossCluster, LoadBalancer]", "exactly one type"},
		"one type twice":          {"web", "types: [CrossCluster, CrossCluster]", "exactly one type"},
		"an unknown type":         {"web", "types: [NodePort]", "type must be CrossCluster or LoadBalancer"},
		"a port of zero":          {"web", "types: [CrossCluster], ports: [{port: 0}]", "spec.ports"},
		"a port too high":         {"web", "types: [CrossCluster], ports: [{port: 65536}]", "spec.ports"},
		"a port without a number": {"web", "types: [CrossCluster], ports: [{name: http}]", "spec.ports[0].port"},
		"a port that is a text":   {"web", "types: [CrossCluster], ports: [{port: http}]", "spec.ports[0].port"},
		"a port's odd name":       {"web", "types: [CrossCluster], ports: [{name: HTTP, port: 80}]", "spec.ports[0].name"},
		"a port's long name":      {"web", "types: [CrossCluster], ports: [{name: " + strings.Repeat("a", 64) + ", port: 80}]", "spec.ports[0].name"},
		"two nameless ports":      {"web", "types: [CrossCluster], ports: [{port: 80}, {port: 81}]", "spec.ports"},
		"one name for two ports":  {"web", "types: [CrossCluster], ports: [{name: a, port: 80}, {name: a, port: 81}]", "spec.ports"},
		"a nameless provider":     {"web", "types: [CrossCluster], providerClusters: [{}]", "spec.providerClusters[0].name"},
		"an odd provider":         {"web", "types: [CrossCluster], providerClusters: [{name: A_B}]", "spec.providerClusters[0].name"},
		"a provider twice":        {"web", "types: [CrossCluster], providerClusters: [{name: a}, {name: a}]", "spec.providerClusters[1].name"},
		"an odd consumer":         {"web", "types: [CrossCluster], consumerClusters: [{name: a.b}]", "spec.consumerClusters[0].name"},
		"a consumer too long":     {"web", "types: [CrossCluster], consumerClusters: [{name: " + strings.Repeat("a", 49) + "}]", "spec.consumerClusters"},
		"an odd range":            {"web", "types: [CrossCluster], range: {clusterNames: ['']}", "spec.range.clusterNames[0]"},
		"an odd older provider":   {"web", "types: [CrossCluster], serviceProvisionClusters: [a/b]", "spec.serviceProvisionClusters[0]"},
		"an older consumer twice": {"web", "types: [CrossCluster], serviceConsumptionClusters: [a, a]", "spec.serviceConsumptionClusters[1]"},
		"no name of a Service":    {"web.shop", "types: [CrossCluster]", "metadata.name"},
		"an unknown field":        {"web", "types: [CrossCluster], consumers: [a]", "spec.consumers"},
	} {
		t.Run(reason, func(t *testing.T) {
			_, err := client.Create(t.Context(), written(t, tc.name, tc.spec), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}})
			if err == nil || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it is answered with %v, want a refusal that names %s", err, tc.want)
			}
		})
	}
	if list, err := client.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("a trial stored something: %v", err)
	}
}

// TestAPIVerbs: whatever a client does with a kind it can do with this one.
func TestAPIVerbs(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	all := fleet.Hub.Dynamic.Resource(mcsResource)
	client := all.Namespace(ns)
	ctx := t.Context()
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	changes, err := all.Watch(ctx, metav1.ListOptions{LabelSelector: "of=" + ns})
	check("watch", err)
	defer changes.Stop()
	first := written(t, "a", "types: [CrossCluster], providerClusters: [{name: member1}]")
	first.SetLabels(map[string]string{"of": ns, "tier": "one"})
	made, err := client.Create(ctx, first, metav1.CreateOptions{FieldManager: "maker"})
	check("create", err)
	if made.GetGeneration() != 1 || made.GetLabels()["multiclusterservice.karmada.io/permanent-id"] == "" || made.GetManagedFields()[0].Manager != "maker" {
		t.Errorf("it was made as %v", made.Object["metadata"])
	}
	if e := <-changes.ResultChan(); e.Type != "ADDED" {
		t.Errorf("the watch sent %s", e.Type)
	}
	if _, err := client.Create(ctx, first, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("another of the name is answered with %v", err)
	}

	for kind, text := range map[types.PatchType]string{
		types.JSONPatchType:  `[{"op":"add","path":"/spec/consumerClusters","value":[{"name":"member2"}]}]`,
		types.MergePatchType: `{"spec":{"range":{"clusterNames":["member1"]}}}`,
		types.ApplyPatchType: `{"apiVersion":"networking.karmada.io/v1alpha1","kind":"MultiClusterService","metadata":{"name":"a"},"spec":{"types":["CrossCluster"],"serviceConsumptionClusters":["member3"]}}`,
	} {
		_, err := client.Patch(ctx, "a", kind, []byte(text), metav1.PatchOptions{FieldManager: "patcher"})
		check("patch of type "+string(kind), err)
	}
	if _, err := client.Patch(ctx, "a", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("a strategic merge patch is answered with %v", err)
	}
	if _, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"multiclusterservice.karmada.io/permanent-id":"x"}}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("another permanent id is answered with %v", err)
	}
	for _, text := range []string{`{"spec":{"types":["LoadBalancer"]}}`, `{"spec":{"types":null}}`} {
		if _, err := client.Patch(ctx, "a", types.MergePatchType, []byte(text), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("%s is answered with %v", text, err)
		}
	}
	_, err = client.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"tried":"yes"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	check("trial of a patch", err)
	got, err := client.Get(ctx, "a", metav1.GetOptions{})
	check("get", err)
	if got.GetLabels()["tried"] != "" {
		t.Error("a trial was stored")
	}
	spec := fmt.Sprint(got.Object["spec"])
	if want := "map[consumerClusters:[map[name:member2]] providerClusters:[map[name:member1]] range:map[clusterNames:[member1]] serviceConsumptionClusters:[member3] types:[CrossCluster]]"; spec != want {
		t.Errorf("after all patches it is\n%s, want\n%s", spec, want)
	}
	verbsOfStatus(t, client)
	stale := got.DeepCopy()
	stale.SetResourceVersion("1")
	if _, err := client.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version is answered with %v", err)
	}
	lists(t, fleet, ns)
}

// verbsOfStatus: the status is written where it belongs, and nowhere else.
func verbsOfStatus(t *testing.T, client dynamic.ResourceInterface) {
	t.Helper()
	ingress := `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ports":[{"port":80,"protocol":"TCP"}]}]}},"spec":{"ports":[{"port":1}]}}`
	// No MultiClusterService has it, so the controller deletes it; only the answer counts.
	got, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(ingress), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatalf("patch of the status: %v", err)
	}
	if _, found, _ := unstructured.NestedSlice(got.Object, "spec", "ports"); found {
		t.Error("a write of the status changed the spec")
	}
	if points, _, _ := unstructured.NestedSlice(got.Object, "status", "loadBalancer", "ingress"); len(points) != 1 {
		t.Errorf("the status is %v", got.Object["status"])
	}
	got, err = client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("patch: %v", err)
	}
	if points, _, _ := unstructured.NestedSlice(got.Object, "status", "loadBalancer", "ingress"); strings.Contains(fmt.Sprint(points), "192.0.2.7") {
		t.Error("a write of the object changed the status")
	}
	for _, wrong := range []string{
		`{"status":{"conditions":[{"type":"A","status":"Maybe","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		`{"status":{"conditions":[{"type":"A","status":"True","reason":"","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		`{"status":{"loadBalancer":{"ingress":[{"ports":[{"port":80}]}]}}}`,
	} {
		if _, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(wrong), metav1.PatchOptions{}, "status"); !apierrors.IsInvalid(err) {
			t.Errorf("%s is answered with %v", wrong, err)
		}
	}
}

// lists: pages, selectors, tables, and deletion by selector.
func lists(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	client := fleet.Hub.Dynamic.Resource(mcsResource).Namespace(ns)
	for _, name := range []string{"b", "c"} {
		object := written(t, name, "types: [LoadBalancer]")
		object.SetLabels(map[string]string{"of": ns})
		if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	names := func(where dynamic.ResourceInterface, o metav1.ListOptions) (names []string, next string) {
		t.Helper()
		list, err := where.List(t.Context(), o)
		if err != nil {
			t.Fatalf("list: %v", err)
		}
		for _, item := range list.Items {
			names = append(names, item.GetName())
		}
		return names, list.GetContinue()
	}
	page, next := names(client, metav1.ListOptions{Limit: 2})
	rest, _ := names(client, metav1.ListOptions{Limit: 2, Continue: next})
	everywhere, _ := names(fleet.Hub.Dynamic.Resource(mcsResource), metav1.ListOptions{LabelSelector: "of=" + ns})
	one, _ := names(client, metav1.ListOptions{FieldSelector: "metadata.name=b"})
	for what, tc := range map[string]struct{ got, want []string }{
		"the first page": {page, []string{"a", "b"}}, "the second page": {rest, []string{"c"}},
		"all namespaces": {everywhere, []string{"a", "b", "c"}}, "one by its name": {one, []string{"b"}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s has %v, want %v", what, tc.got, tc.want)
		}
	}
	if table := asTable(t, fleet, ns); !strings.Contains(table, `"kind":"Table"`) || !strings.Contains(table, `"cells":["a"`) {
		t.Errorf("as a table: %s", table)
	}
	if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "tier=one"}); err != nil {
		t.Fatalf("delete of a collection: %v", err)
	}
	for _, name := range []string{"b", "c"} {
		if err := client.Delete(t.Context(), name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")}); !apierrors.IsConflict(err) {
			t.Errorf("a deletion of another object is answered with %v", err)
		}
		if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	fleettest.ExpectListed(t, fleet.Hub, &mcsList{}, ns, func(l *mcsList) error {
		if len(l.Items) > 0 {
			return fmt.Errorf("%d are left, the first is %s", len(l.Items), l.Items[0].Name)
		}
		return nil
	})
}

func asTable(t *testing.T, fleet *fleettest.Fleet, ns string) string {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(fleet.Hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fleet.Hub.Config.Host+"/apis/networking.karmada.io/v1alpha1/namespaces/"+ns+"/multiclusterservices", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	return body(t, httpClient, request)
}
