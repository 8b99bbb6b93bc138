package documents

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pathsOn are those of the documents on a shelf.
func pathsOn(s *shelf) []string { return slices.Sorted(maps.Keys(s.documents)) }

func definition(kind string, generation int64, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	plural := strings.ToLower(kind) + "s"
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".docs.example.com", UID: types.UID(kind), Generation: generation},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "docs.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ListKind: kind + "List"},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		}},
	}
	for _, name := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Description: kind + " in its generation",
			}},
		})
	}
	return d
}

func TestDocumentsFollowTheDefinitions(t *testing.T) {
	s := newShelf()
	p := newPublisher(logr.Discard(), s)
	expect := func(when string, paths ...string) {
		t.Helper()
		if got := pathsOn(s); !slices.Equal(got, paths) {
			t.Errorf("%s: got %v, want %v", when, got, paths)
		}
	}
	const v1, v2 = "apis/docs.example.com/v1", "apis/docs.example.com/v2"
	unready := definition("Leaf", 1, "v1")
	unready.Status.Conditions = nil
	p.set(unready)
	expect("not established")
	p.set(definition("Leaf", 1, "v1"))
	p.set(definition("Page", 1, "v1", "v2"))
	expect("two kinds", v1, v2)
	dropped := definition("Page", 2, "v1", "v2")
	dropped.Spec.Versions[1].Served = false
	p.set(dropped)
	expect("one version is not served any more", v1)
	p.set(unready)
	expect("one kind lost its names", v1)
	p.update(dropped.Name, nil)
	expect("the last one is gone")
}

func TestADocumentFollowsItsDefinitions(t *testing.T) {
	s := newShelf()
	p := newPublisher(logr.Discard(), s)
	p.set(definition("Leaf", 1, "v1"))
	get := func() (text, address string) {
		t.Helper()
		address = addressOf(t, s, "apis/docs.example.com/v1")
		answer := request(t, s, address, "application/json")
		if answer.Code != http.StatusOK || !strings.Contains(answer.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s is answered with %d, to be kept: %q", address, answer.Code, answer.Header().Get("Cache-Control"))
		}
		return answer.Body.String(), address
	}
	first, tag := get()
	for _, want := range []string{"Leaf in its generation", "/apis/docs.example.com/v1/namespaces/{namespace}/leafs/{name}"} {
		if !strings.Contains(first, want) {
			t.Errorf("the document lacks %q", want)
		}
	}
	p.set(definition("Leaf", 1, "v1")) // its status changed
	if again, same := get(); same != tag || again != first {
		t.Errorf("the address of a document that did not change is %s, and was %s", same, tag)
	}
	p.set(definition("Leaf", 2, "v1"))
	p.set(definition("Page", 1, "v1"))
	changed, other := get()
	if other == tag || !strings.Contains(changed, "Leaf") || !strings.Contains(changed, "Page") {
		t.Error("a change is not in the document")
	}
	p.update(definition("Page", 1).Name, nil)
	if left, last := get(); last == other || strings.Contains(left, "Page") {
		t.Error("a definition that is gone is in the document")
	}
}
