package ownership_test

import (
	"hash/maphash"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

const ours, others = "11111111-0000", "22222222-0000"

var controlPlane = ownership.ControlPlane{ID: ours}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestManagerOf(t *testing.T) {
	for id, want := range map[string]string{"": "flagship", "abc": "flagship-abc", ours: "flagship-11111111"} {
		if got := ownership.ManagerOf(id); got != want {
			t.Errorf("the manager of %q is %s, want %s", id, got, want)
		}
	}
}

func TestTheControlPlaneOfAnObject(t *testing.T) {
	const work = "work.karmada.io/namespace: karmada-es-a, work.karmada.io/name: w"
	for name, tc := range map[string]struct {
		annotations string
		other       string
		lost        bool
		work        types.NamespacedName
	}{
		"NoID":        {work, "", false, types.NamespacedName{Namespace: "karmada-es-a", Name: "w"}},
		"Ours":        {"flagship.io/control-plane: " + ours + ", " + work, "", false, types.NamespacedName{Namespace: "karmada-es-a", Name: "w"}},
		"Other":       {"flagship.io/control-plane: " + others + ", " + work, others, false, types.NamespacedName{}},
		"Taken":       {"flagship.io/control-plane: " + others + ", flagship.io/taken-from: 'x," + ours + "'", others, true, types.NamespacedName{}},
		"TakenBefore": {"flagship.io/control-plane: " + ours + ", flagship.io/taken-from: '" + others + "'", "", false, types.NamespacedName{}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := object(t, "metadata: {annotations: {"+tc.annotations+"}}")
			if got := controlPlane.Other(obj); got != tc.other {
				t.Errorf("the other control plane is %q, want %q", got, tc.other)
			}
			if got := controlPlane.Lost(obj); got != tc.lost {
				t.Errorf("lost is %v, want %v", got, tc.lost)
			}
			if got := controlPlane.WorkOf(obj); got != tc.work {
				t.Errorf("the Work is %s, want %s", got, tc.work)
			}
		})
	}
}

// An object that was taken over without a change of an annotation has the id of its control plane in the field ownership alone.
func TestTheControlPlaneOfFields(t *testing.T) {
	const label = "fieldsV1: {f:metadata: {f:labels: {f:karmada.io/managed: {}}}}"
	for name, tc := range map[string]struct {
		labels, annotations, entry string
		other                      string
	}{
		"Theirs":       {"karmada.io/managed: 'true'", "", "{manager: flagship-22222222, operation: Apply, " + label + "}", "22222222"},
		"Ours":         {"karmada.io/managed: 'true'", "", "{manager: flagship-11111111, operation: Apply, " + label + "}", ""},
		"OursByID":     {"karmada.io/managed: 'true'", "flagship.io/control-plane: " + ours, "{manager: flagship-22222222, operation: Apply, " + label + "}", ""},
		"OtherFields":  {"karmada.io/managed: 'true'", "", "{manager: flagship-22222222, operation: Apply, fieldsV1: {f:data: {}}}", ""},
		"OtherManager": {"karmada.io/managed: 'true'", "", "{manager: karmada-agent, operation: Apply, " + label + "}", ""},
		"NoID":         {"karmada.io/managed: 'true'", "", "{manager: flagship, operation: Apply, " + label + "}", ""},
		"Updated":      {"karmada.io/managed: 'true'", "", "{manager: flagship-22222222, operation: Update, " + label + "}", ""},
		"NotManaged":   {"", "", "{manager: flagship-22222222, operation: Apply, " + label + "}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			obj := object(t, "metadata: {labels: {"+tc.labels+"}, annotations: {"+tc.annotations+"}, managedFields: ["+tc.entry+"]}")
			for _, trimmed := range []bool{false, true} {
				if trimmed {
					controlPlane.Trim(obj)
				}
				if got := controlPlane.Other(obj); got != tc.other {
					t.Errorf("trimmed=%v: the other control plane is %q, want %q", trimmed, got, tc.other)
				}
			}
		})
	}
	taken := object(t, "metadata: {annotations: {flagship.io/control-plane: "+others+", flagship.io/taken-from: '"+ours[:8]+"'}}")
	if !controlPlane.Lost(taken) || (ownership.ControlPlane{ID: "33333333-0000"}).Lost(taken) {
		t.Error("an object of which the first digits of the id are known is not lost to the control plane that had it")
	}
}

func TestOurFields(t *testing.T) {
	const (
		own       = "{manager: flagship-11111111, operation: Apply, fieldsV1: {f:own: {}}}"
		noID      = "{manager: flagship, operation: Apply, fieldsV1: {f:old: {}}}"
		status    = "{manager: flagship-11111111, operation: Apply, subresource: status, fieldsV1: {f:status: {}}}"
		update    = "{manager: flagship-11111111, operation: Update, fieldsV1: {f:update: {}}}"
		neighbour = "{manager: flagship-22222222, operation: Apply, fieldsV1: {f:neighbour: {}}}"
		scaled    = "{manager: hpa, operation: Update, subresource: scale, fieldsV1: {f:spec: {f:replicas: {}}}}"
	)
	for name, tc := range map[string]struct {
		entries, id string
		field       string // the field that is ours
		outdated    bool
		scaled      bool
		kept        int // entries after Trim
	}{
		"None":         {},
		"Own":          {entries: own + "," + neighbour, field: "f:own", kept: 1},
		"OwnBeforeOld": {entries: noID + "," + own, field: "f:own", kept: 2},
		"Old":          {entries: noID, field: "f:old", outdated: true, kept: 1},
		"OldOfOthers":  {entries: noID, id: others, kept: 1},
		"NotTheObject": {entries: status + "," + update},
		"Scaled":       {entries: own + "," + scaled, field: "f:own", scaled: true, kept: 2},
	} {
		t.Run(name, func(t *testing.T) {
			obj := object(t, "metadata: {annotations: {flagship.io/control-plane: '"+tc.id+"'}, managedFields: ["+tc.entries+"]}")
			if tc.id == "" {
				obj.SetAnnotations(nil)
			}
			for _, trimmed := range []bool{false, true} {
				if trimmed {
					controlPlane.Trim(obj)
				}
				fields := controlPlane.OurFields(obj)
				if _, ok := fields[tc.field]; ok != (tc.field != "") || len(fields) > 1 {
					t.Errorf("trimmed=%v: our fields are %v, want %q", trimmed, fields, tc.field)
				}
				if got := controlPlane.Outdated(obj); got != tc.outdated {
					t.Errorf("trimmed=%v: outdated is %v, want %v", trimmed, got, tc.outdated)
				}
				if got := ownership.OwnedThroughScale(obj); got != tc.scaled {
					t.Errorf("trimmed=%v: owned through scale is %v, want %v", trimmed, got, tc.scaled)
				}
			}
			if got := len(obj.GetManagedFields()); got != tc.kept {
				t.Errorf("%d entries are kept, want %d", got, tc.kept)
			}
		})
	}
}

func TestFingerprints(t *testing.T) {
	seed := maphash.MakeSeed()
	fields := object(t, `{f:spec: {f:replicas: {}, f:list: {'k:{"name":"a"}': {}}}, f:data: {}}`).Object
	base := "{spec: {replicas: 1, list: [{name: a}], theirs: 1}, data: {a: b}}"
	want := ownership.Values(seed, fields, object(t, base).Object)
	for text, same := range map[string]bool{
		base: true,
		"{data: {a: b}, spec: {theirs: 2, list: [{name: a}], replicas: 1}}":            true, // of others, and another order
		"{spec: {replicas: 2, list: [{name: a}], theirs: 1}, data: {a: b}}":            false,
		"{spec: {replicas: 1, list: [{name: a}], theirs: 1}, data: {a: c}}":            false,
		"{spec: {replicas: 1, list: [{name: a, other: 1}], theirs: 1}, data: {a: b}}":  false, // a list counts as a whole
		"{spec: {list: [{name: a}], theirs: 1}, data: {a: b}}":                         false,
		"{spec: {replicas: 1, list: [{name: a}, {name: b}], theirs: 1}, data: {a: b}}": false,
	} {
		if got := ownership.Values(seed, fields, object(t, text).Object); (got == want) != same {
			t.Errorf("%s has the same fingerprint: %v, want %v", text, got == want, same)
		}
	}
	if got := ownership.Values(seed, nil, object(t, base).Object); got != 0 {
		t.Errorf("the fingerprint of values that are not ours is %d", got)
	}
	if got := ownership.Ownership(seed, nil); got != 0 {
		t.Errorf("the fingerprint of no fields is %d", got)
	}
	if ownership.Ownership(seed, fields) == ownership.Ownership(seed, object(t, "{f:data: {}}").Object) {
		t.Error("fewer fields have the same fingerprint")
	}
}
