package merge

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	o, err := ObjectOf([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func expectJSON(t *testing.T, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object(t, want), object(t, string(text))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTrim: of what is left a reader misses nothing; of an object of a Deployment this is about half.
func TestTrim(t *testing.T) {
	o := object(t, `{"metadata":{"name":"a","managedFields":[{"manager":"x"}],
		"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","own":"1"}},"spec":{"replicas":9007199254740993}}`)
	Trim(o)
	expectJSON(t, o, `{"metadata":{"name":"a","annotations":{"own":"1"}},"spec":{"replicas":9007199254740993}}`)
}

func TestMark(t *testing.T) {
	o := object(t, `{"metadata":{"resourceVersion":"7","annotations":{"resource.karmada.io/cached-from-cluster":"forged","own":"1"}}}`)
	Mark(o, "m1", "8")
	expectJSON(t, o, `{"metadata":{"resourceVersion":"8","annotations":{"resource.karmada.io/cached-from-cluster":"m1","own":"1"}}}`)
}

func TestInNamespaces(t *testing.T) {
	shop := object(t, `{"metadata":{"namespace":"shop"}}`)
	for name, c := range map[string]struct {
		object     map[string]any
		namespaces []string
		want       bool
	}{
		"all":                         {shop, nil, true},
		"all, of a row without one":   {nil, nil, true},
		"its own":                     {shop, []string{"other", "shop"}, true},
		"others":                      {shop, []string{"other"}, false},
		"none":                        {shop, []string{}, false},
		"a row without an object":     {nil, []string{"shop"}, false},
		"an object without namespace": {map[string]any{}, []string{"shop"}, false},
	} {
		if got := InNamespaces(c.object, c.namespaces); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestTablesAreLinedUp: clusters of different versions have different columns.
func TestTablesAreLinedUp(t *testing.T) {
	columns := func(names ...string) (list []any) {
		for _, name := range names {
			list = append(list, map[string]any{"name": name})
		}
		return list
	}
	row := func(cells ...any) any { return map[string]any{"cells": cells} }
	var all Table
	first, second := columns("Name", "Ready", "Age"), columns("Name", "New", "Age", "Ready")
	all.Begin(first)
	all.Begin(second) // the first ones stay
	var names []string
	for _, c := range all.Definitions() {
		names = append(names, nameOf(c))
	}
	if diff := cmp.Diff([]string{"Name", "Cluster", "Ready", "Age"}, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	expectJSON(t, all.Row(row("a", "1/1", "5m"), first, "m1"), `{"cells":["a","m1","1/1","5m"]}`)
	expectJSON(t, all.Row(row("b", "x", "6m", "0/1"), second, "m2"), `{"cells":["b","m2","0/1","6m"]}`)
	expectJSON(t, all.Row(row("c"), second, "m2"), `{"cells":["c","m2",null,null]}`)
	var none Table
	expectJSON(t, none.Row(row(), nil, "m1"), `{"cells":["m1"]}`)
	if got := none.Definitions(); len(got) != 1 || nameOf(got[0]) != "Cluster" {
		t.Errorf("columns of nothing are %v", got)
	}
}
