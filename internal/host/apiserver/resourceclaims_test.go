package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

var (
	resourceClaims         = resourcev1alpha2.GroupVersion.WithResource("resourceclaims")
	resourceClasses        = resourcev1alpha2.GroupVersion.WithResource("resourceclasses")
	resourceClaimTemplates = resourcev1alpha2.GroupVersion.WithResource("resourceclaimtemplates")
	podSchedulingContexts  = resourcev1alpha2.GroupVersion.WithResource("podschedulingcontexts")
	modernClaims           = schema.GroupVersionResource{Group: resourcev1alpha2.GroupName, Version: "v1", Resource: "resourceclaims"}
)

// resourceObject reads an object of the group from YAML without its type.
func resourceObject(t *testing.T, kind, name, content string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(content), &object.Object); err != nil {
		t.Fatal(err)
	}
	if object.Object == nil {
		object.Object = map[string]any{}
	}
	object.SetAPIVersion(resourcev1alpha2.GroupVersion.String())
	object.SetKind(kind)
	if object.GetName() == "" {
		object.SetName(name)
	}
	return object
}

func createClaim(t *testing.T, namespace, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	claim := resourceObject(t, "ResourceClaim", name, "spec: {resourceClassName: gpu}")
	claim.SetOwnerReferences(owners)
	created, err := objects.Resource(resourceClaims).Namespace(namespace).Create(t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestResourceClaimsAreStoredApart(t *testing.T) {
	ns := namespace(t)
	createClaim(t, ns, "both")
	modern := resourceObject(t, "ResourceClaim", "both", "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}")
	modern.SetAPIVersion("resource.k8s.io/v1")
	if _, err := objects.Resource(modernClaims).Namespace(ns).Create(t.Context(), modern, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a claim of v1 with the name of one of v1alpha2: %v", err)
	}
	if err := objects.Resource(modernClaims).Namespace(ns).Delete(t.Context(), "both", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	left, err := objects.Resource(resourceClaims).Namespace(ns).Get(t.Context(), "both", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("the claim of v1alpha2 went with that of v1: %v", err)
	}
	if class, _, _ := unstructured.NestedString(left.Object, "spec", "resourceClassName"); class != "gpu" {
		t.Errorf("class %q, want gpu", class)
	}
}

func TestDiscoveryOfBothResourceVersions(t *testing.T) {
	groups, err := clients.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups.Groups {
		if group.Name == resourcev1alpha2.GroupName && group.PreferredVersion.Version != "v1" {
			t.Errorf("preferred version %s, want v1: clients of today ask for it", group.PreferredVersion.Version)
		}
	}
	served, err := clients.Discovery().ServerResourcesForGroupVersion(resourcev1alpha2.GroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, resource := range served.APIResources {
		names = append(names, resource.Name)
	}
	want := []string{
		"podschedulingcontexts", "podschedulingcontexts/status", "resourceclaims", "resourceclaims/status",
		"resourceclaimtemplates", "resourceclasses",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	// What "kubectl api-resources" lists, and how.
	lists, err := clients.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if strings.HasPrefix(list.GroupVersion, resourcev1alpha2.GroupName+"/") {
				listed[resource.Name] = fmt.Sprint(list.GroupVersion, " ", resource.Namespaced, " ", resource.SingularName, " ", resource.Verbs)
			}
		}
	}
	const verbs = "[create delete deletecollection get list patch update watch]"
	for name, want := range map[string]string{
		"podschedulingcontexts": "resource.k8s.io/v1alpha2 true podschedulingcontext " + verbs,
		"resourceclasses":       "resource.k8s.io/v1alpha2 false resourceclass " + verbs,
		"resourceclaims":        "resource.k8s.io/v1 true resourceclaim " + verbs,
	} {
		if listed[name] != want {
			t.Errorf("%s is listed as %q, want %q", name, listed[name], want)
		}
	}
}

// TestDeletionAnswersWithWhatWasThere: an object as it was stored last, and of a collection the list, whatever the kind.
func TestDeletionAnswersWithWhatWasThere(t *testing.T) {
	ns := namespace(t)
	for kind, test := range map[string]struct{ content, path string }{
		"ResourceClaim":         {"spec: {resourceClassName: gpu}", "namespaces/" + ns + "/resourceclaims"},
		"ResourceClaimTemplate": {"spec: {spec: {resourceClassName: gpu}}", "namespaces/" + ns + "/resourceclaimtemplates"},
		"ResourceClass":         {"driverName: d", "resourceclasses"},
		"PodSchedulingContext":  {"spec: {selectedNode: node-1}", "namespaces/" + ns + "/podschedulingcontexts"},
	} {
		at := hub.URL() + "/apis/" + resourcev1alpha2.GroupVersion.String() + "/" + test.path
		send := func(method, url string, body any) map[string]any {
			t.Helper()
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			request, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			response, err := admin(t).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			var answer map[string]any
			if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
				t.Fatal(err)
			}
			return answer
		}
		options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
		for _, name := range []string{"answered-1", "answered-2"} {
			object := resourceObject(t, kind, name, test.content)
			object.SetLabels(map[string]string{"answered": ns})
			made := send(http.MethodPost, at, object.Object)
			if name == "answered-2" {
				continue // with the collection
			}
			gone := send(http.MethodDelete, at+"/"+name, options)
			for _, object := range []map[string]any{made, gone} { // deletion is a version of its own
				unstructured.RemoveNestedField(object, "metadata", "resourceVersion")
			}
			if diff := cmp.Diff(made, gone); diff != "" {
				t.Errorf("%s: what was made (-) and what deletion answered (+):\n%s", kind, diff)
			}
		}
		all := send(http.MethodDelete, at+"?labelSelector=answered%3D"+ns, options)
		if items, _ := all["items"].([]any); all["kind"] != kind+"List" || len(items) != 1 {
			t.Errorf("%s: deletion of the collection answered %v", kind, all)
		}
	}
}

func TestNamespaceDeletionTakesResourceClaimsAlong(t *testing.T) {
	ns := namespace(t)
	createClaim(t, ns, "a")
	for resource, object := range map[schema.GroupVersionResource]*unstructured.Unstructured{
		resourceClaimTemplates: resourceObject(t, "ResourceClaimTemplate", "a", "spec: {spec: {resourceClassName: gpu}}"),
		podSchedulingContexts:  resourceObject(t, "PodSchedulingContext", "a", "spec: {}"),
	} {
		if _, err := objects.Resource(resource).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := clients.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if _, err := clients.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return "the namespace is still there"
		}
		return ""
	})
	for _, resource := range []schema.GroupVersionResource{resourceClaims, resourceClaimTemplates, podSchedulingContexts} {
		left, err := objects.Resource(resource).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) > 0 {
			t.Errorf("%d %s outlived their namespace (%v)", len(left.Items), resource.Resource, err)
		}
	}
}

func TestResourceClaimsAreCollected(t *testing.T) {
	ns := namespace(t)
	owner, err := clients.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	parent := createClaim(t, ns, "parent", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID})
	createClaim(t, ns, "child", metav1.OwnerReference{
		APIVersion: parent.GetAPIVersion(), Kind: parent.GetKind(), Name: parent.GetName(), UID: parent.GetUID(),
	})
	kinds := map[schema.GroupVersionResource]*unstructured.Unstructured{
		resourceClaims:         nil, // there are two
		resourceClaimTemplates: resourceObject(t, "ResourceClaimTemplate", "owned", "spec: {spec: {resourceClassName: gpu}}"),
		podSchedulingContexts:  resourceObject(t, "PodSchedulingContext", "owned", "spec: {}"),
	}
	for resource, object := range kinds {
		if object == nil {
			continue
		}
		object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}})
		if _, err := objects.Resource(resource).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := clients.CoreV1().ConfigMaps(ns).Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for resource := range kinds {
		eventually(t, func() string {
			left, err := objects.Resource(resource).Namespace(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(left.Items) > 0 {
				return fmt.Sprintf("%d %s outlived their owner (%v)", len(left.Items), resource.Resource, err)
			}
			return ""
		})
	}
}

// TestOwnersOfClaimsMayWaitOrOrphan: a claim that is deleted in the foreground outlives what blocks it, and one that orphans
// leaves its dependents without owner.
func TestOwnersOfClaimsMayWaitOrOrphan(t *testing.T) {
	ns := namespace(t)
	claims := objects.Resource(resourceClaims).Namespace(ns)
	blocks := true
	owned := func(owner *unstructured.Unstructured, name string) {
		t.Helper()
		createClaim(t, ns, name, metav1.OwnerReference{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &blocks,
		})
	}
	waiting, leaving := createClaim(t, ns, "waiting"), createClaim(t, ns, "leaving")
	owned(waiting, "blocking")
	owned(leaving, "orphan")
	if _, err := claims.Patch(t.Context(), "blocking", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, policy := range map[string]metav1.DeletionPropagation{"waiting": metav1.DeletePropagationForeground, "leaving": metav1.DeletePropagationOrphan} {
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() string {
		blocking, err := claims.Get(t.Context(), "blocking", metav1.GetOptions{})
		if err != nil || blocking.GetDeletionTimestamp() == nil {
			return fmt.Sprintf("what blocks its owner is not deleted (%v)", err)
		}
		return ""
	})
	if _, err := claims.Get(t.Context(), "waiting", metav1.GetOptions{}); err != nil {
		t.Errorf("the owner did not wait: %v", err)
	}
	if _, err := claims.Patch(t.Context(), "blocking", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"blocking", "waiting", "leaving"} {
		eventually(t, func() string {
			if _, err := claims.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s is still there (%v)", name, err)
			}
			return ""
		})
	}
	orphan, err := claims.Get(t.Context(), "orphan", metav1.GetOptions{})
	if err != nil || len(orphan.GetOwnerReferences()) > 0 {
		t.Errorf("the orphan: %v (%v)", orphan, err)
	}
}

// TestResourceClaimSchemas: explain and server-side apply work from what is published here.
func TestResourceClaimSchemas(t *testing.T) {
	_, second := get(t, admin(t), "/openapi/v2")
	_, third := get(t, admin(t), "/openapi/v3/apis/resource.k8s.io/v1alpha2")
	for _, kind := range []string{"ResourceClaim", "ResourceClaimList", "ResourceClaimTemplate", "ResourceClass", "PodSchedulingContext", "AllocationResult"} {
		name := `"io.k8s.api.resource.v1alpha2.` + kind + `"`
		if !strings.Contains(second, name) {
			t.Errorf("OpenAPI v2 lacks %s", kind)
		}
		if !strings.Contains(third, name) {
			t.Errorf("OpenAPI v3 lacks %s", kind)
		}
	}
	var published struct {
		Components struct {
			Schemas map[string]struct {
				Description string
				Properties  map[string]struct{ Description string }
				Kinds       []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
			}
		}
	}
	if err := json.Unmarshal([]byte(third), &published); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"ResourceClaim", "ResourceClaimTemplate", "ResourceClass", "PodSchedulingContext"} {
		schema := published.Components.Schemas["io.k8s.api.resource.v1alpha2."+kind]
		if schema.Description == "" || !slices.Contains(schema.Kinds, metav1.GroupVersionKind{Group: resourcev1alpha2.GroupName, Version: "v1alpha2", Kind: kind}) {
			t.Errorf("kubectl cannot explain a %s: %+v", kind, schema)
		}
	}
	for name, schema := range published.Components.Schemas {
		for property, field := range schema.Properties {
			if strings.HasPrefix(name, "io.k8s.api.resource.v1alpha2.") && field.Description == "" {
				t.Errorf("kubectl cannot explain %s.%s", name, property)
			}
		}
	}
	if !strings.Contains(second, `"io.k8s.api.resource.v1.ResourceClaim"`) {
		t.Error("the definitions of v1 are gone")
	}
}

// refusal is the reason of an error with all its causes.
func refusal(err error) string {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return fmt.Sprint(err)
	}
	found := sets.New[string]()
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			found.Insert(string(cause.Type) + " " + cause.Field)
		}
	}
	return fmt.Sprint(status.Status().Reason, ": ", strings.Join(sets.List(found), ", "))
}

func TestBadResourceObjectsAreRefused(t *testing.T) {
	ns := namespace(t)
	nodes := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("n%d", i))
		}
		return strings.Join(names, ", ")
	}
	on := func(term string) string { return "{driverName: d, suitableNodes: {nodeSelectorTerms: [" + term + "]}}" }
	const term = "suitableNodes.nodeSelectorTerms[0]."
	for reason, test := range map[string]struct {
		resource      schema.GroupVersionResource
		kind, content string
		want          string
	}{
		"claim without class": {resourceClaims, "ResourceClaim", "spec: {}", "Invalid: FieldValueInvalid spec.resourceClassName"},
		"claim of unknown mode": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: c, allocationMode: Never}",
			"Invalid: FieldValueNotSupported spec.allocationMode"},
		"claim with half a reference": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: c, parametersRef: {apiGroup: x}}",
			"Invalid: FieldValueRequired spec.parametersRef.kind, FieldValueRequired spec.parametersRef.name"},
		"claim of a class with a long name": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: " + strings.Repeat("c", 254) + "}",
			"Invalid: FieldValueInvalid spec.resourceClassName"},
		"claim of a class with the longest name": {resourceClaims, "ResourceClaim", "{metadata: {name: longest}, spec: {resourceClassName: " + strings.Repeat("c", 253) + "}}", ""},
		"claim of a mode in lower case": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: c, allocationMode: immediate}",
			"Invalid: FieldValueNotSupported spec.allocationMode"},
		"claim with a reference to no kind": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: c, parametersRef: {name: x}}",
			"Invalid: FieldValueRequired spec.parametersRef.kind"},
		"claim with a reference to no name": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: c, parametersRef: {kind: X}}",
			"Invalid: FieldValueRequired spec.parametersRef.name"},
		"class with a bad name":      {resourceClasses, "ResourceClass", "{metadata: {name: Bad_Name}, driverName: d}", "Invalid: FieldValueInvalid metadata.name"},
		"class with upper case":      {resourceClasses, "ResourceClass", "{metadata: {name: upper}, driverName: GPU.example.com}", ""},
		"template with a bad name":   {resourceClaimTemplates, "ResourceClaimTemplate", "{metadata: {name: Bad_Name}, spec: {spec: {resourceClassName: c}}}", "Invalid: FieldValueInvalid metadata.name"},
		"scheduling with a bad name": {podSchedulingContexts, "PodSchedulingContext", "{metadata: {name: Bad_Name}}", "Invalid: FieldValueInvalid metadata.name"},
		"claim with a bad name":      {resourceClaims, "ResourceClaim", "{metadata: {name: Bad_Name}, spec: {resourceClassName: c}}", "Invalid: FieldValueInvalid metadata.name"},
		"class without driver":       {resourceClasses, "ResourceClass", "{}", "Invalid: FieldValueInvalid driverName, FieldValueRequired driverName"},
		"class with a long driver":   {resourceClasses, "ResourceClass", "driverName: " + strings.Repeat("d", 64), "Invalid: FieldValueTooLong driverName"},
		"class with a bad reference": {resourceClasses, "ResourceClass", "{driverName: d, parametersRef: {namespace: Bad}}",
			"Invalid: FieldValueInvalid parametersRef.namespace, FieldValueRequired parametersRef.kind, FieldValueRequired parametersRef.name"},
		"class on no nodes": {resourceClasses, "ResourceClass", "{driverName: d, suitableNodes: {nodeSelectorTerms: []}}",
			"Invalid: FieldValueRequired suitableNodes.nodeSelectorTerms"},
		"template that names its claims": {resourceClaimTemplates, "ResourceClaimTemplate", "spec: {metadata: {name: x, labels: {a: b}}, spec: {resourceClassName: c}}",
			"Invalid: FieldValueForbidden spec.metadata.name"},
		"template with a bad claim": {resourceClaimTemplates, "ResourceClaimTemplate", "spec: {spec: {allocationMode: x}}",
			"Invalid: FieldValueInvalid spec.spec.resourceClassName, FieldValueNotSupported spec.spec.allocationMode"},
		"claim of a class no DNS subdomain": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: Bad_Class}", "Invalid: FieldValueInvalid spec.resourceClassName"},
		"class with a bad driver":           {resourceClasses, "ResourceClass", "driverName: bad_driver", "Invalid: FieldValueInvalid driverName"},
		"class where In has no values": {resourceClasses, "ResourceClass", on("{matchExpressions: [{key: a, operator: In}]}"),
			"Invalid: FieldValueRequired " + term + "matchExpressions[0].values"},
		"class where Exists has values": {resourceClasses, "ResourceClass", on("{matchExpressions: [{key: a, operator: Exists, values: [b]}]}"),
			"Invalid: FieldValueForbidden " + term + "matchExpressions[0].values"},
		"class where Gt has two values": {resourceClasses, "ResourceClass", on("{matchExpressions: [{key: a, operator: Gt, values: ['1', '2']}]}"),
			"Invalid: FieldValueRequired " + term + "matchExpressions[0].values"},
		"class with an unknown operator": {resourceClasses, "ResourceClass", on("{matchExpressions: [{key: a, operator: Like}]}"),
			"Invalid: FieldValueInvalid " + term + "matchExpressions[0].operator"},
		"class with a bad key": {resourceClasses, "ResourceClass", on("{matchExpressions: [{key: -a-, operator: Exists}]}"),
			"Invalid: FieldValueInvalid " + term + "matchExpressions[0].key"},
		"class on two names": {resourceClasses, "ResourceClass", on("{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}"),
			"Invalid: FieldValueRequired " + term + "matchFields[0].values"},
		"class on a field by an operator of labels": {resourceClasses, "ResourceClass", on("{matchFields: [{key: metadata.name, operator: Exists}]}"),
			"Invalid: FieldValueInvalid " + term + "matchFields[0].operator"},
		"class on a name that is none": {resourceClasses, "ResourceClass", on("{matchFields: [{key: metadata.name, operator: In, values: [Bad_Node]}]}"),
			"Invalid: FieldValueInvalid " + term + "matchFields[0].values[0]"},
		"template with bad labels": {resourceClaimTemplates, "ResourceClaimTemplate", "spec: {metadata: {labels: {a: -}}, spec: {resourceClassName: c}}",
			"Invalid: FieldValueInvalid spec.metadata.labels"},
		"template with bad annotations": {resourceClaimTemplates, "ResourceClaimTemplate", "spec: {metadata: {annotations: {-a-: b}}, spec: {resourceClassName: c}}",
			"Invalid: FieldValueInvalid spec.metadata.annotations"},
		"scheduling on too many nodes": {podSchedulingContexts, "PodSchedulingContext", "spec: {potentialNodes: [" + nodes(129) + "]}",
			"Invalid: FieldValueTooMany spec.potentialNodes"},
		"scheduling on as many as may be": {podSchedulingContexts, "PodSchedulingContext", "spec: {potentialNodes: [" + nodes(128) + "]}", ""},
		"scheduling on bad nodes": {podSchedulingContexts, "PodSchedulingContext", "spec: {potentialNodes: [a, a, Bad_Node]}",
			"Invalid: FieldValueDuplicate spec.potentialNodes[1], FieldValueInvalid spec.potentialNodes[2]"},
	} {
		t.Run(reason, func(t *testing.T) {
			object := resourceObject(t, test.kind, "refused", test.content)
			var err error
			if test.resource == resourceClasses {
				_, err = objects.Resource(test.resource).Create(t.Context(), object, metav1.CreateOptions{})
			} else {
				_, err = objects.Resource(test.resource).Namespace(ns).Create(t.Context(), object, metav1.CreateOptions{})
			}
			if test.want == "" && err == nil {
				return
			}
			if got := refusal(err); got != test.want {
				t.Errorf("answer %q, want %q", got, test.want)
			}
		})
	}
}

// TestSpecsCannotBeChanged: what was asked for stays; only a class may become another.
func TestSpecsCannotBeChanged(t *testing.T) {
	ns := namespace(t)
	for reason, test := range map[string]struct {
		resource              schema.GroupVersionResource
		kind, content, change string
		want                  string
	}{
		"claim":    {resourceClaims, "ResourceClaim", "spec: {resourceClassName: c}", `{"spec":{"resourceClassName":"d"}}`, "Invalid: FieldValueInvalid spec"},
		"template": {resourceClaimTemplates, "ResourceClaimTemplate", "spec: {spec: {resourceClassName: c}}", `{"spec":{"spec":{"resourceClassName":"d"}}}`, "Invalid: FieldValueInvalid spec"},
		"both": {resourceClaims, "ResourceClaim", "spec: {resourceClassName: c}", `{"spec":{"resourceClassName":"Bad_Class"}}`,
			"Invalid: FieldValueInvalid spec, FieldValueInvalid spec.resourceClassName"},
		"class":         {resourceClasses, "ResourceClass", "driverName: c", `{"driverName":"d"}`, ""},
		"class to none": {resourceClasses, "ResourceClass", "driverName: c", `{"driverName":""}`, "Invalid: FieldValueInvalid driverName, FieldValueRequired driverName"},
	} {
		t.Run(reason, func(t *testing.T) {
			var client dynamic.ResourceInterface = objects.Resource(test.resource).Namespace(ns)
			if test.resource == resourceClasses {
				client = objects.Resource(test.resource)
			}
			name := "changed-" + strings.ReplaceAll(reason, " ", "-")
			if _, err := client.Create(t.Context(), resourceObject(t, test.kind, name, test.content), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(test.change), metav1.PatchOptions{})
			if test.want == "" && err == nil {
				return
			}
			if got := refusal(err); got != test.want {
				t.Errorf("answer %q, want %q", got, test.want)
			}
		})
	}
}

// TestAClaimThatIsDeletedGetsNoConsumer: consumers of a claim that is being deleted may leave, and not come.
func TestAClaimThatIsDeletedGetsNoConsumer(t *testing.T) {
	claims := objects.Resource(resourceClaims).Namespace(namespace(t))
	claim := resourceObject(t, "ResourceClaim", "going", "{metadata: {name: going, finalizers: [d/deletion-protection]}, spec: {resourceClassName: gpu}}")
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	held := `{"status":{"driverName":"d","allocation":{"shareable":true},"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}`
	more := `{"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"},{"resource":"pods","name":"q","uid":"v"}]}}`
	write := func(patch string) error {
		_, err := claims.Patch(t.Context(), "going", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	if err := write(held); err != nil {
		t.Fatal(err)
	}
	if err := claims.Delete(t.Context(), "going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	edited := `{"status":{"reservedFor":[{"resource":"pods","name":"other","uid":"u"}]}}`
	for _, patch := range []string{more, edited} {
		if got, want := refusal(write(patch)), "Invalid: FieldValueForbidden status.reservedFor"; got != want {
			t.Errorf("%s: answer %q, want %q", patch, got, want)
		}
	}
	if err := write(`{"status":null}`); err != nil {
		t.Error(err)
	}
	_, err := claims.Patch(t.Context(), "going", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Error(err)
	}
}

func TestBadResourceClaimStatusIsRefused(t *testing.T) {
	ns := namespace(t)
	handles := func(n, bytes int) string {
		handle := fmt.Sprintf("{driverName: d, data: %q}", strings.Repeat("x", bytes))
		return "{driverName: d, allocation: {resourceHandles: [" + strings.Join(slices.Repeat([]string{handle}, n), ",") + "]}}"
	}
	consumers := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("{resource: pods, name: p, uid: u%d}", i))
		}
		return "{driverName: d, allocation: {shareable: true}, reservedFor: [" + strings.Join(all, ",") + "]}"
	}
	for reason, test := range map[string]struct{ before, status, want string }{
		"full size is fine":     {"{}", handles(32, 16384), ""},
		"32 consumers are fine": {"{}", consumers(32), ""},
		"one consumer too many": {"{}", consumers(33), "Invalid: FieldValueTooMany status.reservedFor"},
		"one handle too many":   {"{}", handles(33, 1), "Invalid: FieldValueTooMany status.allocation.resourceHandles"},
		"one byte too many":     {"{}", handles(1, 16385), "Invalid: FieldValueTooLong status.allocation.resourceHandles[0].data"},
		"one byte too many, in characters of two": {"{}", "{driverName: d, allocation: {resourceHandles: [{driverName: d, data: " + strings.Repeat("ü", 8193) + "}]}}",
			"Invalid: FieldValueTooLong status.allocation.resourceHandles[0].data"},
		"a handle of a driver with a long name": {"{}", "{driverName: d, allocation: {resourceHandles: [{driverName: " + strings.Repeat("d", 64) + "}]}}",
			"Invalid: FieldValueTooLong status.allocation.resourceHandles[0].driverName"},
		"a handle of a driver with a bad name": {"{}", "{driverName: d, allocation: {resourceHandles: [{driverName: bad_driver}]}}",
			"Invalid: FieldValueInvalid status.allocation.resourceHandles[0].driverName"},
		"the driver goes and the allocation stays": {"{driverName: d, allocation: {}}", "{allocation: {}}", "Invalid: FieldValueRequired status.driverName"},
		"a driver may come and go":                 {"{driverName: d}", "{}", ""},
		"asked back and left in one write":         {"{driverName: d, allocation: {}, reservedFor: [{resource: pods, name: p, uid: u}]}", "{driverName: d, allocation: {}, deallocationRequested: true}", ""},
		"handed on in one write": {"{driverName: d, allocation: {}, reservedFor: [{resource: pods, name: p, uid: u}]}",
			"{driverName: d, allocation: {}, reservedFor: [{resource: pods, name: q, uid: v}]}", ""},
		"freed while held": {"{driverName: d, allocation: {}, reservedFor: [{resource: pods, name: p, uid: u}]}",
			"{driverName: d, reservedFor: [{resource: pods, name: p, uid: u}]}", "Invalid: FieldValueForbidden status.reservedFor"},
		"no driver":                 {"{}", "{allocation: {}}", "Invalid: FieldValueRequired status.driverName"},
		"held but not allocated":    {"{}", "{reservedFor: [{resource: pods, name: p, uid: u}]}", "Invalid: FieldValueForbidden status.reservedFor"},
		"a consumer without a name": {"{}", "{driverName: d, allocation: {}, reservedFor: [{resource: pods, uid: u}]}", "Invalid: FieldValueRequired status.reservedFor[0].name"},
		"the allocation changes":    {"{driverName: d, allocation: {}}", "{driverName: d, allocation: {shareable: true}}", "Invalid: FieldValueInvalid status.allocation"},
		"asked back while held": {"{driverName: d, allocation: {}, reservedFor: [{resource: pods, name: p, uid: u}]}",
			"{driverName: d, allocation: {}, reservedFor: [{resource: pods, name: p, uid: u}], deallocationRequested: true}", "Invalid: FieldValueForbidden status.deallocationRequested"},
		"a request taken back":            {"{driverName: d, allocation: {}, deallocationRequested: true}", "{driverName: d, allocation: {}}", "Invalid: FieldValueForbidden status.deallocationRequested"},
		"a driver with a long name":       {"{}", "{driverName: " + strings.Repeat("d", 64) + "}", "Invalid: FieldValueTooLong status.driverName"},
		"a driver with a bad name":        {"{}", "{driverName: bad_driver}", "Invalid: FieldValueInvalid status.driverName"},
		"a driver with upper case":        {"{}", "{driverName: GPU.example.com}", ""},
		"a handle without a driver":       {"{}", "{driverName: d, allocation: {resourceHandles: [{data: x}]}}", "Invalid: FieldValueInvalid status.allocation.resourceHandles[0].driverName, FieldValueRequired status.allocation.resourceHandles[0].driverName"},
		"a handle with two kinds of data": {"{}", "{driverName: d, allocation: {resourceHandles: [{driverName: d, data: x, structuredData: {nodeName: node}}]}}", "Invalid: FieldValueInvalid status.allocation.resourceHandles[0]"},
		"a result of no model":            {"{}", "{driverName: d, allocation: {resourceHandles: [{driverName: d, structuredData: {results: [{}]}}]}}", "Invalid: FieldValueRequired status.allocation.resourceHandles[0].structuredData.results[0]"},
		"a result on a bad node": {"{}", "{driverName: d, allocation: {resourceHandles: [{driverName: d, structuredData: {nodeName: Bad_Node, results: [{namedResources: {name: Bad_Name}}]}}]}}",
			"Invalid: FieldValueInvalid status.allocation.resourceHandles[0].structuredData.nodeName, FieldValueInvalid status.allocation.resourceHandles[0].structuredData.results[0].namedResources.name"},
		"a consumer without resource and uid":  {"{}", "{driverName: d, allocation: {}, reservedFor: [{name: p}]}", "Invalid: FieldValueRequired status.reservedFor[0].resource, FieldValueRequired status.reservedFor[0].uid"},
		"a consumer twice":                     {"{}", "{driverName: d, allocation: {shareable: true}, reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: u}]}", "Invalid: FieldValueDuplicate status.reservedFor[1].uid"},
		"two consumers of what is not shared":  {"{}", "{driverName: d, allocation: {}, reservedFor: [{resource: pods, name: p, uid: u}, {resource: pods, name: q, uid: v}]}", "Invalid: FieldValueForbidden status.reservedFor"},
		"a new consumer of what is asked back": {"{driverName: d, allocation: {}, deallocationRequested: true}", "{driverName: d, allocation: {}, deallocationRequested: true, reservedFor: [{resource: pods, name: p, uid: u}]}", "Invalid: FieldValueForbidden status.reservedFor"},
		"asked back without allocation":        {"{}", "{deallocationRequested: true}", "Invalid: FieldValueForbidden status"},
		"on no nodes":                          {"{}", "{driverName: d, allocation: {availableOnNodes: {nodeSelectorTerms: []}}}", "Invalid: FieldValueRequired status.allocation.availableOnNodes.nodeSelectorTerms"},
		"nodes that do not exist": {"{}", "{driverName: d, allocation: {availableOnNodes: {nodeSelectorTerms: [{matchFields: [{key: spec.x, operator: In, values: [a]}]}]}}}",
			"Invalid: FieldValueInvalid status.allocation.availableOnNodes.nodeSelectorTerms[0].matchFields[0].key"},
	} {
		t.Run(reason, func(t *testing.T) {
			claims := objects.Resource(resourceClaims).Namespace(ns)
			claim := resourceObject(t, "ResourceClaim", "", "{metadata: {generateName: c-}, spec: {resourceClassName: gpu}}")
			unstructured.RemoveNestedField(claim.Object, "metadata", "name")
			claim, err := claims.Create(t.Context(), claim, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			write := func(status string) error {
				var content any
				if err := yaml.Unmarshal([]byte(status), &content); err != nil {
					t.Fatal(err)
				}
				claim.Object["status"] = content
				written, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
				if err == nil {
					claim = written
				}
				return err
			}
			if err := write(test.before); err != nil {
				t.Fatal(err)
			}
			before := claim.DeepCopy().Object["status"]
			err = write(test.status)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if got := refusal(err); got != test.want {
				t.Errorf("answer %q, want %q", got, test.want)
			}
			stored, err := claims.Get(t.Context(), claim.GetName(), metav1.GetOptions{})
			if err != nil || !cmp.Equal(stored.Object["status"], before) {
				t.Errorf("something of the refused status was stored: %v (%v)", stored.Object["status"], err)
			}
		})
	}
}

func TestOversizeResourceClaimIsRefused(t *testing.T) {
	claim := resourceObject(t, "ResourceClaim", "large", "spec: {resourceClassName: gpu}")
	claim.SetAnnotations(map[string]string{"a": strings.Repeat("x", 4<<20)})
	body, err := json.Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	response, err := admin(t).Post(hub.URL()+"/apis/resource.k8s.io/v1alpha2/namespaces/default/resourceclaims", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d for a body of %d bytes, want 413", response.StatusCode, len(body))
	}
}

// TestPodSchedulingContextEndpoints: scheduler and drivers write different halves.
func TestPodSchedulingContextEndpoints(t *testing.T) {
	contexts := objects.Resource(podSchedulingContexts).Namespace(namespace(t))
	both := "{spec: {selectedNode: node-1}, status: {resourceClaims: [{name: gpu, unsuitableNodes: [m]}]}}"
	created, err := contexts.Create(t.Context(), resourceObject(t, "PodSchedulingContext", "p", both), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if left, _, _ := unstructured.NestedSlice(created.Object, "status", "resourceClaims"); len(left) > 0 {
		t.Error("a status was set by create")
	}
	written := resourceObject(t, "PodSchedulingContext", "p", strings.Replace(both, "selectedNode: node-1", "selectedNode: other", 1))
	updated, err := contexts.UpdateStatus(t.Context(), written, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node, _, _ := unstructured.NestedString(updated.Object, "spec", "selectedNode"); node != "node-1" {
		t.Errorf("selected node %q after a write of status, want node-1", node)
	}
	// A strategic patch replaces the list, which an apply merges by name: that is how its kind was published.
	const status = `{"status":{"resourceClaims":[{"name":"%s","unsuitableNodes":["node-2"]}]}}`
	merged, err := contexts.Patch(t.Context(), "p", types.StrategicMergePatchType, fmt.Appendf(nil, status, "nic"), metav1.PatchOptions{FieldManager: "one"}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if claims, _, _ := unstructured.NestedSlice(merged.Object, "status", "resourceClaims"); len(claims) != 1 {
		t.Errorf("claims %v after a strategic patch, want those of the patch", claims)
	}
	merged, err = contexts.ApplyStatus(t.Context(), "p", resourceObject(t, "PodSchedulingContext", "p", fmt.Sprintf(status, "gpu")), metav1.ApplyOptions{FieldManager: "two"})
	if err != nil {
		t.Fatal(err)
	}
	if claims, _, _ := unstructured.NestedSlice(merged.Object, "status", "resourceClaims"); len(claims) != 2 {
		t.Errorf("claims %v after an apply of another one, want both", claims)
	}
	updated = merged
	updated.Object["status"] = map[string]any{"resourceClaims": []any{map[string]any{"name": "a"}, map[string]any{"name": "a"}}}
	_, err = contexts.UpdateStatus(t.Context(), updated, metav1.UpdateOptions{})
	if got, want := refusal(err), "Invalid: FieldValueDuplicate status.claims[1]"; got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	var nodes []any
	for i := range 129 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	nodes[1], nodes[2] = "n0", "Bad_Node"
	updated.Object["status"] = map[string]any{"resourceClaims": []any{map[string]any{"name": "a", "unsuitableNodes": nodes}}}
	_, err = contexts.UpdateStatus(t.Context(), updated, metav1.UpdateOptions{})
	want := "Invalid: FieldValueDuplicate status.claims[0].unsuitableNodes[1], FieldValueInvalid status.claims[0].unsuitableNodes[2], FieldValueTooMany status.claims[0].unsuitableNodes"
	if got := refusal(err); got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
}
