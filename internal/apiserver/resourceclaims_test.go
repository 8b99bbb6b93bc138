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
	if err := clients.CoreV1().ConfigMaps(ns).Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		left, err := objects.Resource(resourceClaims).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(left.Items) > 0 {
			return fmt.Sprintf("%d claims outlived their owner (%v)", len(left.Items), err)
		}
		return ""
	})
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
		"claim with a bad name":    {resourceClaims, "ResourceClaim", "{metadata: {name: Bad_Name}, spec: {resourceClassName: c}}", "Invalid: FieldValueInvalid metadata.name"},
		"class without driver":     {resourceClasses, "ResourceClass", "{}", "Invalid: FieldValueInvalid driverName, FieldValueRequired driverName"},
		"class with a long driver": {resourceClasses, "ResourceClass", "driverName: " + strings.Repeat("d", 64), "Invalid: FieldValueTooLong driverName"},
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

// TestNobodyNewHoldsAClaimThatGoes: consumers of a claim that is being deleted may leave, and not come.
func TestNobodyNewHoldsAClaimThatGoes(t *testing.T) {
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
	if got, want := refusal(write(more)), "Invalid: FieldValueForbidden status.reservedFor"; got != want {
		t.Errorf("answer %q, want %q", got, want)
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
		"full size is fine":         {"{}", handles(32, 16384), ""},
		"32 consumers are fine":     {"{}", consumers(32), ""},
		"one consumer too many":     {"{}", consumers(33), "Invalid: FieldValueTooMany status.reservedFor"},
		"one handle too many":       {"{}", handles(33, 1), "Invalid: FieldValueTooMany status.allocation.resourceHandles"},
		"one byte too many":         {"{}", handles(1, 16385), "Invalid: FieldValueTooLong status.allocation.resourceHandles[0].data"},
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
		"a handle of nobody":              {"{}", "{driverName: d, allocation: {resourceHandles: [{data: x}]}}", "Invalid: FieldValueInvalid status.allocation.resourceHandles[0].driverName, FieldValueRequired status.allocation.resourceHandles[0].driverName"},
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
		"nodes nobody can name": {"{}", "{driverName: d, allocation: {availableOnNodes: {nodeSelectorTerms: [{matchFields: [{key: spec.x, operator: In, values: [a]}]}]}}}",
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
