package documents

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/spec3"
)

// board is where documents are published.
type board map[string]cached.Value[*spec3.OpenAPI]

func (b board) UpdateGroupVersionLazy(path string, document cached.Value[*spec3.OpenAPI]) {
	b[path] = document
}
func (b board) DeleteGroupVersion(path string) { delete(b, path) }

func (b board) paths() (paths []string) {
	for path := range b {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

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
	b := board{}
	p := newPublisher(logr.Discard(), b)
	expect := func(when string, paths ...string) {
		t.Helper()
		if got := b.paths(); !slices.Equal(got, paths) {
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

func TestADocumentIsKeptUntilItIsWrittenDown(t *testing.T) {
	b := board{}
	p := newPublisher(logr.Discard(), b)
	p.set(definition("Leaf", 1, "v1"))
	get := func() (text, tag string) {
		t.Helper()
		spec, tag, err := b["apis/docs.example.com/v1"].Get()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw), tag
	}
	first, tag := get()
	for _, want := range []string{"Leaf in its generation", "/apis/docs.example.com/v1/namespaces/{namespace}/leafs/{name}"} {
		if !strings.Contains(first, want) {
			t.Errorf("the document lacks %q", want)
		}
	}
	again, same := get()
	if same != tag || strings.Contains(again, "Leaf") {
		t.Errorf("a document that did not change is built again, or kept: %s", again)
	}
	p.set(definition("Leaf", 2, "v1"))
	p.set(definition("Page", 1, "v1"))
	changed, other := get()
	if other == tag || !strings.Contains(changed, "Leaf") || !strings.Contains(changed, "Page") {
		t.Error("a change is not in the document")
	}
}
