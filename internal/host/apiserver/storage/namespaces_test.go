package storage

import (
	"hash/maphash"
	"testing"
)

func TestNamespaceOf(t *testing.T) {
	for path, want := range map[string]string{
		"configmaps/shop/a":                                  "shop",
		"services/specs/shop/a":                              "shop",
		"policy.karmada.io/propagationpolicies/shop/a":       "shop",
		"resource.k8s.io/resourceclaims/shop/a":              "shop",
		"clusterroles/admin":                                 "",
		"clusterroles/system:a":                              "",
		"policy.karmada.io/clusterpropagationpolicies/a":     "",
		"apiextensions.k8s.io/customresourcedefinitions/a.b": "",
		"apiregistration.k8s.io/apiservices/v1.apps":         "",
		"ranges/serviceips":                                  "",
		"":                                                   "",
	} {
		got, ok := namespaceOf(path)
		if got != want || ok != (want != "") {
			t.Errorf("%s is in namespace %q (%t), want %q", path, got, ok, want)
		}
	}
}

func TestNamespacesCount(t *testing.T) {
	n := &Namespaces{
		prefix: "/registry/", skipped: "works/", seed: maphash.MakeSeed(), counted: true, tally: newTally(),
	}
	for _, s := range []struct {
		reason, key string
		size        int
		want        usage
	}{
		{"a new object counts", "/registry/configmaps/shop/a", 100, usage{1, 100}},
		{"and a second one", "/registry/secrets/shop/a", 50, usage{2, 150}},
		{"an update counts by what it adds", "/registry/configmaps/shop/a", 120, usage{2, 170}},
		{"what is skipped does not count", "/registry/works/shop/w", 1000, usage{2, 170}},
		{"nor does what has another prefix", "/other/configmaps/shop/b", 1000, usage{2, 170}},
		{"nor another namespace", "/registry/configmaps/bank/a", 1000, usage{2, 170}},
		{"an Event counts with its bytes", "/registry/events/shop/e", 30, usage{2, 200}},
		{"until it ends", "/registry/events/shop/e", gone, usage{2, 170}},
		{"a deletion takes off what was counted", "/registry/configmaps/shop/a", gone, usage{1, 50}},
		{"once", "/registry/configmaps/shop/a", gone, usage{1, 50}},
		{"to the last", "/registry/secrets/shop/a", gone, usage{}},
	} {
		n.note(n.tally, s.key, s.size)
		objects, bytes, known := n.Of("shop")
		if got := (usage{objects, bytes}); got != s.want || !known {
			t.Errorf("%s: got %v (%t), want %v", s.reason, got, known, s.want)
		}
	}
	n.Each(func(namespace string, _, _ int64) {
		if namespace != "bank" {
			t.Errorf("nothing is stored in namespace %q, but it is visited", namespace)
		}
	})
}
