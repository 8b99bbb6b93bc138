package api_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/api"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/api/crds"
)

func TestSchemeHasEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kinds := []schema.GroupVersionKind{clusterv1alpha1.GroupVersion.WithKind(clusterv1alpha1.KindCluster)}
	for _, definition := range allDefinitions(t) {
		for _, version := range definition.Spec.Versions {
			kinds = append(kinds, schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind})
		}
	}
	for _, kind := range kinds {
		if !scheme.Recognizes(kind) {
			t.Errorf("the scheme does not have %v", kind)
		}
		list := kind
		list.Kind += "List"
		if !scheme.Recognizes(list) {
			t.Errorf("the scheme does not have %v", list)
		}
	}
}

func TestDefinitionsAreTheCallers(t *testing.T) {
	first := allDefinitions(t)
	first[0].Name = "changed"
	if second := allDefinitions(t); second[0].Name == "changed" {
		t.Error("a change of one caller shows to the next")
	}
}

func TestNotYetActiveKindsAreServedAndWarned(t *testing.T) {
	served := map[schema.GroupKind]bool{}
	for _, definition := range allDefinitions(t) {
		served[schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}] = true
	}
	for kind, warning := range crds.NotYetActive() {
		if !served[kind] {
			t.Errorf("%v is not served", kind)
		}
		if !strings.HasPrefix(warning, kind.Kind+" ") || !strings.HasSuffix(warning, ".") {
			t.Errorf("%v is warned about with %q; want a sentence about it", kind, warning)
		}
	}
}

func TestPermanentIDs(t *testing.T) {
	work := schema.GroupKind{Group: "work.karmada.io", Kind: "Work"}
	const label = "work.karmada.io/permanent-id"
	cases := map[string]struct {
		kind         schema.GroupKind
		old, updated map[string]string
		ok           bool
	}{
		"an id is set":       {work, nil, map[string]string{label: "a"}, true},
		"an id is kept":      {work, map[string]string{label: "a"}, map[string]string{label: "a", "b": "c"}, true},
		"an id is changed":   {work, map[string]string{label: "a"}, map[string]string{label: "b"}, false},
		"an id is lost":      {work, map[string]string{label: "a"}, nil, false},
		"a kind without ids": {schema.GroupKind{Kind: "ConfigMap"}, map[string]string{label: "a"}, nil, true},
	}
	for reason, c := range cases {
		t.Run(reason, func(t *testing.T) {
			errs := api.ValidatePermanentID(c.kind, &metav1.ObjectMeta{Labels: c.updated}, &metav1.ObjectMeta{Labels: c.old})
			if (len(errs) == 0) != c.ok {
				t.Errorf("got errors %v, want ok %v", errs, c.ok)
			}
		})
	}
}

// TestDeclaredPermanentIDsAreCarried ties the table of ids to what the kinds say of themselves.
func TestDeclaredPermanentIDsAreCarried(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for kind := range scheme.AllKnownTypes() {
		object, err := scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		carrier, ok := object.(interface{ PermanentIDLabel() string })
		if !ok {
			continue
		}
		if label, _ := api.PermanentIDLabel(kind.GroupKind()); label != carrier.PermanentIDLabel() {
			t.Errorf("%v carries its id under %q, the table says %q", kind, carrier.PermanentIDLabel(), label)
		}
	}
}
