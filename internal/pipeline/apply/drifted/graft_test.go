package drifted

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGraft(t *testing.T) {
	for name, tc := range map[string]struct {
		path, to, from string
		want           string // "" if there is no place
	}{
		"Value":    {"/data/a", `{data: {a: "1", b: "1"}}`, `{data: {a: "2", b: "2"}}`, `{data: {a: "2", b: "1"}}`},
		"Removed":  {"/data/a", `{data: {a: "1", b: "1"}}`, `{data: {b: "2"}}`, `{data: {b: "1"}}`},
		"Added":    {"/data/a", `{data: {b: "1"}}`, `{data: {a: "2"}}`, `{data: {a: "2", b: "1"}}`},
		"Parent":   {"/data/a", `{kind: x}`, `{data: {a: "2", b: "2"}}`, `{kind: x, data: {a: "2"}}`},
		"Slash":    {"/metadata/annotations/a.b/c", `{metadata: {annotations: {a.b/c: "1", a.b: x}}}`, `{metadata: {annotations: {a.b/c: "2"}}}`, `{metadata: {annotations: {a.b/c: "2", a.b: x}}}`},
		"Item":     {`/l[name="x"]/v`, `{l: [{name: y, v: 1}, {name: x, v: 1}]}`, `{l: [{name: x, v: 2}, {name: y, v: 3}]}`, `{l: [{name: y, v: 1}, {name: x, v: 2}]}`},
		"NewItem":  {`/l[name="x"]`, `{l: [{name: y}]}`, `{l: [{name: x, v: 2}]}`, `{l: [{name: y}, {name: x, v: 2}]}`},
		"GoneItem": {`/l[name="x"]`, `{l: [{name: x}, {name: y}]}`, `{l: []}`, `{l: [{name: y}]}`},
		"NoItem":   {`/l[name="z"]/v`, `{l: [{name: y}]}`, `{l: [{name: x}]}`, ""},
		"Nowhere":  {"/data/z", `{data: {a: "1"}}`, `{data: {a: "2"}}`, ""},
		"Nameless": {"/l[]/v", `{l: [{v: 1}]}`, `{l: [{v: 2}]}`, ""},
	} {
		to, from := object(t, tc.to), object(t, tc.from)
		got, ok := Graft(to, from, tc.path)
		if ok != (tc.want != "") {
			t.Errorf("%s: a place is %v", name, ok)
			continue
		}
		if diff := cmp.Diff(object(t, tc.to), to); diff != "" {
			t.Errorf("%s: the object itself is changed:\n%s", name, diff)
		}
		if ok {
			if diff := cmp.Diff(object(t, tc.want), got); diff != "" {
				t.Errorf("%s: -want +got\n%s", name, diff)
			}
		}
	}
}
