package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/flagship-k8s/flagship/api/crds"
)

// defineWidgets makes the hub serve a kind that is not built in.
func defineWidgets(t *testing.T) schema.GroupVersionResource {
	t.Helper()
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
	client := clientset.NewForConfigOrDie(hub.LoopbackConfig())
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	eventually(t, func() string {
		if _, err := objects.Resource(widgets).List(t.Context(), metav1.ListOptions{}); err != nil {
			return fmt.Sprintf("the new kind is not served: %v", err)
		}
		return ""
	})
	return widgets
}

func widget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
	}}
}

func TestOurKindsAreServedOnReturnOfStart(t *testing.T) {
	definitions, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := clients.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	served := sets.New[string]()
	for _, list := range lists {
		for _, resource := range list.APIResources {
			served.Insert(list.GroupVersion + "/" + resource.Name)
		}
	}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			name := definition.Spec.Group + "/" + version.Name + "/" + definition.Spec.Names.Plural
			if !served.Has(name) {
				t.Errorf("%s is not in discovery", name)
			}
		}
	}
	for _, name := range []string{"clusters", "clusters/status", "clusters/proxy"} {
		if !served.Has("cluster.karmada.io/v1alpha1/" + name) {
			t.Errorf("%s is not in discovery", name)
		}
	}
}

// TestSchemasAreExplained: kubectl explain and client-side checks read the OpenAPI documents.
func TestSchemasAreExplained(t *testing.T) {
	client := admin(t)
	tests := map[string]struct{ path, schema, words string }{
		"Native": {
			path: "/openapi/v3/apis/cluster.karmada.io/v1alpha1", schema: "io.karmada.cluster.v1alpha1.Cluster",
			words: "Cluster is a member of the fleet",
		},
		"Native Work": {
			path: "/openapi/v3/apis/work.karmada.io/v1alpha1", schema: "io.karmada.work.v1alpha1.Work",
			words: "Work is a set of objects",
		},
		"Custom": {
			path: "/openapi/v3/apis/policy.karmada.io/v1alpha1", schema: "io.karmada.policy.v1alpha1.PropagationPolicy",
			words: "PropagationPolicy",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			eventually(t, func() string {
				code, body := get(t, client, test.path)
				var document struct {
					Components struct {
						Schemas map[string]struct {
							Description string           `json:"description"`
							Kinds       []map[string]any `json:"x-kubernetes-group-version-kind"`
						} `json:"schemas"`
					} `json:"components"`
				}
				if err := json.Unmarshal([]byte(body), &document); err != nil {
					return fmt.Sprintf("GET %s: %d: %v", test.path, code, err)
				}
				found := document.Components.Schemas[test.schema]
				if !strings.Contains(found.Description, test.words) || len(found.Kinds) != 1 {
					return fmt.Sprintf("%s is described as %q, of kinds %v", test.schema, found.Description, found.Kinds)
				}
				return ""
			})
		})
	}
}

// TestAllSchemasInOneDocument: kubectl, Helm and others read it as protobuf, and validate nothing, or refuse to, without it.
func TestAllSchemasInOneDocument(t *testing.T) {
	for _, mediaType := range []string{"application/json", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"} {
		eventually(t, func() string {
			a := call(t, http.MethodGet, "/openapi/v2", "", "Accept", mediaType)
			if a.code != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), mediaType) || !strings.Contains(a.text, "io.karmada.work.v1alpha2.ResourceBinding") {
				return fmt.Sprintf("as %s: %d, %s", mediaType, a.code, a.header.Get("Content-Type"))
			}
			return ""
		})
	}
}

func TestProtobufToCustomResource(t *testing.T) {
	client := admin(t)
	for _, path := range []string{"/apis/policy.karmada.io/v1alpha1/namespaces/default/overridepolicies", "/apis/work.karmada.io/v1alpha1/namespaces/default/works"} {
		body := bytes.NewReader([]byte("k8s\x00 anything"))
		response, err := client.Post(hub.URL()+path, "application/vnd.kubernetes.protobuf", body)
		if err != nil {
			t.Fatalf("the connection was cut instead of answered: %v", err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("POST %s: got %d, want 415", path, response.StatusCode)
		}
	}
}

func TestHubStoresWorkloadsAsTheyAre(t *testing.T) {
	name := namespace(t)
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"priorityClassName": "only-in-the-member", "runtimeClassName": "only-in-the-member", "serviceAccountName": "only-in-the-member",
			"containers": []any{map[string]any{"name": "a", "image": "a"}},
		},
	}}
	created, err := objects.Resource(pods).Namespace(name).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("a Pod for another cluster is refused: %v", err)
	}
	for _, field := range []string{"tolerations", "volumes", "priority"} {
		if _, found, _ := unstructured.NestedFieldNoCopy(created.Object, "spec", field); found {
			t.Errorf("the hub's own admission added spec.%s", field)
		}
	}
}
