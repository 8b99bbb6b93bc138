package controlplane

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

func TestASkippedNamespaceHasNoTemplates(t *testing.T) {
	o := Options{SkippedNamespaces: []*regexp.Regexp{regexp.MustCompile("^(?:infra-.*)$"), regexp.MustCompile("^(?:.*-private)$")}}
	kind := func(kind, namespace, name string) hubstore.Ref {
		return hubstore.Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: kind}, Namespace: namespace, Name: name}
	}
	for reason, tc := range map[string]struct {
		ref  hubstore.Ref
		want bool
	}{
		"the namespace itself":              {hubstore.NamespaceRef("infra-dns"), true},
		"what is in it":                     {kind("ConfigMap", "infra-dns", "zones"), true},
		"a match of the other pattern":      {kind("Secret", "shop-private", "token"), true},
		"a part of a name is no match":      {hubstore.NamespaceRef("shop-infra-dns"), false},
		"another kind of that name":         {kind("ConfigMap", "shop", "infra-dns"), false},
		"an object that is in no namespace": {kind("PersistentVolume", "", "infra-disk"), false},
	} {
		if got := o.excludes(tc.ref); got != tc.want {
			t.Errorf("%s: excludes(%s) = %v, want %v", reason, tc.ref, got, tc.want)
		}
	}
}
