package crds

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
)

// shelf is a hub with one definition of the kind Book.
type shelf struct {
	definition *apiextensionsv1.CustomResourceDefinition
	reads      int
	// meanwhile is called by each read when it has been made.
	meanwhile func()
	// unreadable answers each read.
	unreadable error
}

const library = "library.example.com"

func newShelf(versions ...string) *shelf {
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "books." + library, UID: "1", Generation: 1}}
	d.Spec.Group, d.Spec.Names.Kind, d.Spec.Names.Plural = library, "Book", "books"
	for _, name := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Schema: &apiextensionsv1.CustomResourceValidation{},
		})
	}
	return &shelf{definition: d}
}

func (s *shelf) Canonical(kind runtimeschema.GroupVersionKind) (runtimeschema.GroupVersionKind, bool) {
	return kind.GroupKind().WithVersion("v1"), kind.Kind == "Book" || kind.Kind == "CronJob"
}

func (s *shelf) Mapping(kind runtimeschema.GroupVersionKind) (runtimeschema.GroupVersionResource, bool, bool) {
	return kind.GroupVersion().WithResource("books"), true, kind.Kind == "Book"
}

func (s *shelf) Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool) {
	return &metav1.PartialObjectMetadata{ObjectMeta: s.definition.ObjectMeta}, s.definition.UID != ""
}

func (s *shelf) Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error) {
	s.reads++
	if s.unreadable != nil {
		return nil, s.unreadable
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.definition)
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return &unstructured.Unstructured{Object: content}, err
}

func (*shelf) Subscribe(func(hubstore.Ref)) {}

// scribe writes objects in other versions by naming them.
type scribe struct{ broken error }

func (scribe) BuiltInVersions(kind runtimeschema.GroupKind) []string {
	if kind.Kind == "CronJob" {
		return []string{"v1", "v1beta1"}
	}
	return nil
}

func (s scribe) ConvertBuiltIn(obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	copied := obj.DeepCopy()
	copied.SetAPIVersion(obj.GroupVersionKind().Group + "/" + version)
	return copied, s.broken
}

func (s scribe) ConvertCustom(_ *apiextensionsv1.CustomResourceDefinition, obj *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	return s.ConvertBuiltIn(obj, version)
}

func carrierOf(s *shelf, by Converter) *Carrier {
	return &Carrier{
		deps:  Deps{Templates: s, Versions: by},
		known: map[string]knownDefinition{}, translated: map[string]runtimeschema.GroupKind{},
	}
}

func written(group, version, kind string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(runtimeschema.GroupVersionKind{Group: group, Version: version, Kind: kind})
	obj.SetName("it")
	obj.SetAnnotations(map[string]string{lastApplied: "{}", "mine": "x"})
	return obj
}

// serving is a cluster with a known API list, in which a kind has these versions.
func serving(complete bool, group, kind string, versions ...string) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}}
	for _, version := range versions {
		c.Status.APIEnablements = append(c.Status.APIEnablements, clusterv1alpha1.APIEnablement{
			GroupVersion: group + "/" + version, Resources: []clusterv1alpha1.APIResource{{Name: "x", Kind: kind}},
		})
	}
	if complete {
		c.Status.Conditions = []metav1.Condition{clusterv1alpha1.APIEnablementsComplete()}
	}
	return c
}

func TestAnObjectIsWrittenInAVersionThatTheClusterServes(t *testing.T) {
	for name, test := range map[string]struct {
		obj     *unstructured.Unstructured
		cluster *clusterv1alpha1.Cluster
		want    string // the version; a sentence is the error
	}{
		"its own":                 {written(library, "v1", "Book"), serving(true, library, "Book", "v1beta1", "v1"), "v1"},
		"none of its kind":        {written(library, "v1", "Book"), serving(true, library, "Leaf", "v1"), "v1"},
		"another":                 {written(library, "v1", "Book"), serving(true, library, "Book", "v1beta1"), "v1beta1"},
		"the best of several":     {written(library, "v1", "Book"), serving(true, library, "Book", "v1alpha1", "v1beta1", "v1beta9"), "v1beta1"},
		"one that is not defined": {written(library, "v1", "Book"), serving(true, library, "Book", "v9"), "as v9 only, and definition books.library.example.com here has only v1, v1beta1, v1alpha1"},
		"one, as far as it says":  {written(library, "v1", "Book"), serving(false, library, "Book", "v9"), "v1"},
		"another of a built-in":   {written("batch", "v1", "CronJob"), serving(true, "batch", "CronJob", "v1beta1"), "v1beta1"},
		"an unknown of a built-in": {
			written("batch", "v1", "CronJob"), serving(true, "batch", "CronJob", "v3"), `CronJob of group "batch" as v3 only, and this control plane cannot`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := carrierOf(newShelf("v1alpha1", "v1", "v1beta1"), scribe{}).To(t.Context(), test.obj, test.cluster)
			if err != nil {
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
				return
			}
			if version := got.GroupVersionKind().Version; version != test.want {
				t.Errorf("got %s, want %s", version, test.want)
			}
			if got == test.obj {
				return
			}
			annotations := got.GetAnnotations()
			if annotations[resourcev1alpha2.TranslatedFromAnnotation] != test.obj.GetAPIVersion() || annotations[lastApplied] != "" || annotations["mine"] != "x" {
				t.Errorf("its annotations are %v", annotations)
			}
			if test.obj.GetAnnotations()[lastApplied] == "" {
				t.Error("the object itself was changed")
			}
		})
	}
}

func TestWhatWasTranslatedIsRestored(t *testing.T) {
	c := carrierOf(newShelf("v1", "v1beta1"), scribe{})
	for apiVersion, want := range map[string]string{
		"":                        "v1beta1",
		library + "/v1":           "v1",
		library + "/v7":           "v1beta1",
		"other.example.com/v1":    "v1beta1",
		library + "/v1beta1":      "v1beta1",
		"resource.k8s.io/v1/odd/": "v1beta1",
	} {
		obj := written(library, "v1beta1", "Book")
		obj.SetAnnotations(map[string]string{resourcev1alpha2.TranslatedFromAnnotation: apiVersion})
		got, err := c.From(t.Context(), obj)
		if err != nil || got.GroupVersionKind().Version != want {
			t.Errorf("from %q: got %v, %v; want %s", apiVersion, got, err, want)
		}
	}
}

func TestAConversionThatFailsMayBeTriedAgain(t *testing.T) {
	gone := errors.New("the webhook is away")
	_, err := carrierOf(newShelf("v1", "v1beta1"), scribe{broken: gone}).To(t.Context(), written(library, "v1", "Book"), serving(true, library, "Book", "v1beta1"))
	if !conversion.IsTransient(err) || !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestADefinitionIsReadOncePerGeneration(t *testing.T) {
	s := newShelf("v1", "v1beta1")
	c := carrierOf(s, scribe{})
	kind := written(library, "v1", "Book").GroupVersionKind()
	for range 3 {
		if got := c.Alternatives(t.Context(), kind); len(got) != 1 || got[0].Version != "v1beta1" {
			t.Fatalf("got %v", got)
		}
	}
	if s.reads != 1 {
		t.Errorf("it was read %d times", s.reads)
	}
	if c.known["books."+library].definition.Spec.Versions[0].Schema != nil || s.definition.Spec.Versions[0].Schema == nil {
		t.Error("the schema is kept, or was taken from the definition itself")
	}
	s.definition.Generation, s.definition.Spec.Versions = 2, s.definition.Spec.Versions[:1]
	if got := c.Alternatives(t.Context(), kind); len(got) != 0 || s.reads != 2 {
		t.Errorf("got %v after %d reads", got, s.reads)
	}
}

func TestADefinitionThatChangesConcernsTheKindsThatWereTranslated(t *testing.T) {
	s := newShelf("v1")
	c := carrierOf(s, scribe{})
	if c.redefined(s.definition.Name) != nil {
		t.Error("nothing was translated yet")
	}
	if _, err := c.To(t.Context(), written(library, "v1", "Book"), serving(true, library, "Book", "v2")); err == nil {
		t.Fatal("it was translated")
	}
	kinds := c.redefined(s.definition.Name)
	if kinds == nil || !kinds(runtimeschema.GroupVersionKind{Group: library, Version: "v7", Kind: "Book"}) || kinds(runtimeschema.GroupVersionKind{Group: library, Kind: "Leaf"}) {
		t.Error("the kind is not published, or another one is")
	}
	s.definition.UID = ""
	c.redefined(s.definition.Name)
	if len(c.known)+len(c.translated) != 0 {
		t.Error("a definition that is gone is kept")
	}
}

// TestADefinitionThatChangesWhileItIsRead: what is translated at this moment follows the definition as it was.
func TestADefinitionThatChangesWhileItIsRead(t *testing.T) {
	s := newShelf("v1", "v1beta1")
	c := carrierOf(s, scribe{})
	published := false
	s.meanwhile = func() { published = c.redefined(s.definition.Name) != nil }
	if _, err := c.To(t.Context(), written(library, "v1", "Book"), serving(true, library, "Book", "v1beta1")); err != nil {
		t.Fatal(err)
	}
	if !published {
		t.Error("it would not be translated again")
	}
}

func TestTheKindsOfADefinition(t *testing.T) {
	s := newShelf("v1")
	book := runtimeschema.GroupVersionKind{Group: library, Version: "v1", Kind: "Book"}
	kinds := carrierOf(s, scribe{}).defines(s.definition.Name)
	leaf := book
	leaf.Kind = "Leaf"
	if !kinds(book) || kinds(leaf) {
		t.Errorf("%s is of books: %v, of leaves: %v", s.definition.Name, kinds(book), kinds(leaf))
	}
	if carrierOf(s, scribe{}).defines("leaves." + library)(book) {
		t.Error("another definition is of books, too")
	}
}

func TestRetranslated(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []string
		want          bool
	}{
		"appears as it is":        {nil, []string{"v1"}, false},
		"appears as another":      {nil, []string{"v1beta1"}, true},
		"gains ours":              {[]string{"v1beta1"}, []string{"v1", "v1beta1"}, true},
		"gains another":           {[]string{"v1"}, []string{"v1", "v2"}, false},
		"loses ours":              {[]string{"v1", "v1beta1"}, []string{"v1beta1"}, true},
		"goes":                    {[]string{"v1beta1"}, nil, true},
		"is as before":            {[]string{"v1beta1"}, []string{"v1beta1"}, false},
		"another, of others' two": {[]string{"v1beta1"}, []string{"v1alpha1", "v1beta1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := carrierOf(newShelf("v1"), scribe{})
			got := c.Affected(serving(true, library, "Book", test.before...), serving(true, library, "Book", test.after...))
			want := []runtimeschema.GroupVersionKind{{Group: library, Version: "v1", Kind: "Book"}}
			if !test.want {
				want = nil
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
