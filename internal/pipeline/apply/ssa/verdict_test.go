package ssa

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

var thisWork = types.NamespacedName{Namespace: "karmada-es-m", Name: "w"}

func TestJudge(t *testing.T) {
	const desired = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, annotations: {work.karmada.io/namespace: karmada-es-m}}}`
	const overwriting = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, annotations: {work.karmada.io/conflict-resolution: overwrite}}}`
	tests := map[string]struct {
		reason  string
		desired string
		live    string
		want    Verdict
		message string
	}{
		"Managed":       {"it is ours", desired, `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: w}}}`, ours, ""},
		"Unlabelled":    {"the label was removed from what we applied", desired, `{metadata: {annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: w}, managedFields: [{manager: flagship, operation: Apply, fieldsV1: {"f:data": {}}}]}}`, ours, ""},
		"OtherWork":     {"another Work has it", overwriting, `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: other}}}`, Foreign, "another Work"},
		"FormerWork":    {"another Work had it and is gone", desired, `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: former}}}`, ours, ""},
		"ManagedNoWork": {"managed is enough, as it is for Karmada", desired, `{metadata: {labels: {karmada.io/managed: "true"}}}`, ours, ""},
		"Theirs":        {"an object of another owner", desired, `{metadata: {}}`, Foreign, "resource(kind=ConfigMap, shop/a) already exists in the cluster m and the work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource"},
		"Overwrite":     {"the user wants it", overwriting, `{metadata: {}}`, Adopting, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Judge(ownership.ControlPlane{}, thisWork, object(t, tc.desired), object(t, tc.live), func(w types.NamespacedName) bool { return w.Name == "other" })
			if got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
			if (err != nil) != (tc.message != "") || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("%s: error %v, want %q", tc.reason, err, tc.message)
			}
		})
	}
}

// Two control planes may serve one member.
func TestJudgeObjectsOfOtherControlPlanes(t *testing.T) {
	self := ownership.ControlPlane{ID: "1111aaaa-own"}
	const (
		desired     = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, annotations: {work.karmada.io/namespace: karmada-es-m}}}`
		overwriting = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop, annotations: {work.karmada.io/conflict-resolution: overwrite}}}`
		namespace   = `{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {work.karmada.io/conflict-resolution: overwrite}}}`
		// As another control plane writes it under the same names.
		theirs = `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: w, flagship.io/control-plane: 2222bbbb-other}}}`
		lost   = `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: w, flagship.io/control-plane: 2222bbbb-other, flagship.io/taken-from: "3333,1111aaaa-own"}}}`
	)
	tests := map[string]struct {
		reason  string
		desired string
		live    string
		want    Verdict
		message string
	}{
		"Own":              {"it has our id", desired, `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: w, flagship.io/control-plane: 1111aaaa-own}}}`, ours, ""},
		"Theirs":           {"the same Work of another control plane has it", desired, theirs, Foreign, "managed by another control plane, 2222bbbb-other"},
		"TheirsOverwrite":  {"the user wants it", overwriting, theirs, Adopting, ""},
		"TakenAway":        {"the other control plane has taken it over", overwriting, lost, Foreign, "was taken over by another control plane, 2222bbbb-other"},
		"TheirsUnlabelled": {"the label was taken off", desired, `{metadata: {annotations: {flagship.io/control-plane: 2222bbbb-other}}}`, Foreign, "2222bbbb-other"},
		"Namespace":        {"namespaces go everywhere with Overwrite, which no policy requested", namespace, theirs, Foreign, "used as it is"},
		"Released":         {"we released it and no control plane has taken it since", desired, `{metadata: {labels: {flagship.io/released-by: 1111aaaa-own}}}`, ours, ""},
		"ReleasedByOthers": {"another control plane released it", desired, `{metadata: {labels: {flagship.io/released-by: 2222bbbb-other}}}`, Foreign, "already exists in the cluster"},
		"ReleasedAndTaken": {"another control plane has taken it since", desired, `{metadata: {labels: {flagship.io/released-by: 1111aaaa-own, karmada.io/managed: "true"}, annotations: {flagship.io/control-plane: 2222bbbb-other}}}`, Foreign, "2222bbbb-other"},
		"Older":            {"an older version of ourselves, or Karmada, wrote it", desired, `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-m, work.karmada.io/name: former}}}`, ours, ""},
		"OlderOthers":      {"a control plane for which the member has another name wrote it", desired, `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-hub2, work.karmada.io/name: w}}}`, Foreign, "karmada-es-hub2/w"},
		"OlderOthersTaken": {"and the user wants it", overwriting, `{metadata: {labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/namespace: karmada-es-hub2, work.karmada.io/name: w}}}`, Adopting, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Judge(self, thisWork, object(t, tc.desired), object(t, tc.live), func(types.NamespacedName) bool { return false })
			if got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
			if (err != nil) != (tc.message != "") || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("%s: error %v, want %q", tc.reason, err, tc.message)
			}
			if Belongs(self, object(t, tc.live), thisWork) && tc.want != ours {
				t.Errorf("%s: it would be deleted", tc.reason)
			}
		})
	}
}

// live returns configMap as it is after we applied it, changed by edit.
func live(t *testing.T, fields string, edit func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	obj := object(t, configMap)
	hash, err := Wanted(obj)
	if err != nil {
		t.Fatal(err)
	}
	SetAnnotation(obj, workv1alpha1.LastAppliedAnnotation, LastApplied{Hash: hash, Footprint: FootprintOf(obj)}.String())
	var owned map[string]any
	if err := yaml.Unmarshal([]byte(fields), &owned); err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedSlice(obj.Object, []any{map[string]any{"manager": "flagship", "operation": "Apply", "fieldsV1": owned}}, "metadata", "managedFields")
	if edit != nil {
		edit(obj)
	}
	return obj
}

func TestCompare(t *testing.T) {
	const all = `{"f:metadata": {"f:labels": {"f:karmada.io/managed": {}}, "f:annotations": {"f:work.karmada.io/name": {}}}, "f:data": {"f:k": {}}}`
	const taken = `{"f:metadata": {"f:labels": {"f:karmada.io/managed": {}}, "f:annotations": {"f:work.karmada.io/name": {}}}}`
	tests := map[string]struct {
		reason string
		live   *unstructured.Unstructured
		want   Difference
	}{
		"Nothing": {"as it was applied", live(t, all, nil), Difference{}},
		"Drift":   {"a field that we set belongs to another manager", live(t, taken, nil), Difference{Drifted: []string{"/data"}}},
		"Altered": {"another client wrote another value under our name", live(t, all, func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{"k": "w"} }),
			Difference{Altered: map[string]uint64{"/data/k": ValueHash("w")}, Unexplained: 1}},
		"NotStored": {"the member does not store a field that we own", live(t, all, func(o *unstructured.Unstructured) { o.Object["data"] = map[string]any{} }),
			Difference{Altered: map[string]uint64{"/data/k": ValueHash(nil)}}},
		"OtherHash": {"something else is wanted now", live(t, all, func(o *unstructured.Unstructured) { SetAnnotation(o, workv1alpha1.LastAppliedAnnotation, "other.AAAA") }), Difference{Stale: true}},
		"NoLabel":   {"the managed label is gone", live(t, all, func(o *unstructured.Unstructured) { o.SetLabels(nil) }), Difference{Stale: true}},
		"NeverOurs": {"no entry of ours", live(t, `{}`, nil), Difference{Stale: true}},
		"LeftToThem": {"a field that we never set", live(t, taken, func(o *unstructured.Unstructured) {
			hash, _ := Wanted(object(t, configMap))
			SetAnnotation(o, workv1alpha1.LastAppliedAnnotation, LastApplied{Hash: hash, Footprint: FootprintOfPaths([]string{"/metadata"})}.String())
		}), Difference{Open: []string{"/data"}}},
		"UnknownField": {"a field that the member does not serve", live(t, taken, func(o *unstructured.Unstructured) {
			hash, _ := Wanted(object(t, configMap))
			SetAnnotation(o, workv1alpha1.LastAppliedAnnotation, LastApplied{Hash: hash, Footprint: FootprintOfPaths([]string{"/metadata"}), Misfits: FootprintOfPaths([]string{"/data"})}.String())
		}), Difference{UnknownFields: true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			desired := object(t, configMap)
			hash, err := Wanted(desired)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, Compare(ownership.ControlPlane{}, desired, tc.live, hash), cmp.AllowUnexported(Difference{})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDefaulted(t *testing.T) {
	tests := map[string]struct {
		value, live any
		want        bool
	}{
		"Same":          {"a", "a", true},
		"Other":         {"a", "b", false},
		"Gone":          {"a", nil, false},
		"ZeroNumber":    {int64(0), int64(80), true},
		"ZeroOfAClient": {float64(0), int64(80), true},
		"OtherNumber":   {int64(1), int64(80), false},
		"ZeroText":      {"", "TCP", true},
		"False":         {false, true, true},
		"True":          {true, false, false},
		"Nothing":       {nil, "x", true},
		"MoreKeys":      {map[string]any{"a": "b"}, map[string]any{"a": "b", "c": "d"}, true},
		"OtherKey":      {map[string]any{"a": "b"}, map[string]any{"a": "x", "c": "d"}, false},
		"NoMap":         {map[string]any{"a": "b"}, "text", false},
		"Items":         {[]any{map[string]any{"port": int64(80)}}, []any{map[string]any{"port": int64(80), "protocol": "TCP"}}, true},
		"MoreItems":     {[]any{"a"}, []any{"a", "b"}, false},
		"NoItems":       {[]any{}, nil, true},
		"NoList":        {[]any{"a"}, "a", false},
	}
	for name, tc := range tests {
		if got := Defaulted(tc.value, tc.live); got != tc.want {
			t.Errorf("%s: Defaulted(%v, %v) = %t", name, tc.value, tc.live, got)
		}
	}
}

func TestStored(t *testing.T) {
	rule := func(more ...string) map[string]any {
		fields := map[string]any{"rule": "self > 0"}
		for _, key := range more {
			fields[key] = true
		}
		return fields
	}
	tests := map[string]struct {
		value, live any
		want        bool
	}{
		"Gone":         {"a", nil, true},
		"Other":        {"a", "b", false},
		"ZeroText":     {"", "TCP", true},
		"FieldGone":    {[]any{rule("optionalOldSelf")}, []any{rule()}, true},
		"FieldAdded":   {[]any{rule()}, []any{rule("optionalOldSelf")}, true},
		"FieldChanged": {[]any{rule()}, []any{map[string]any{"rule": "true"}}, false},
		"ItemGone":     {[]any{rule(), rule()}, []any{rule()}, false},
		"NoItems":      {[]any{}, []any{"a"}, true},
		"NoMap":        {rule(), "text", false},
		"NoList":       {[]any{"a"}, "a", false},
	}
	for name, tc := range tests {
		if got := stored(tc.value, tc.live); got != tc.want {
			t.Errorf("%s: stored(%v, %v) = %t", name, tc.value, tc.live, got)
		}
	}
}
