package drifted

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func noOwners() []metav1.ManagedFieldsEntry { return nil }

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web, karmada.io/managed: "true"}, annotations: {work.karmada.io/name: w}}
spec:
  replicas: 0
  paused: false
  template: {spec: {containers: [{name: a, image: x, args: [p, q], resources: {}}, {name: b, image: y}], nodeSelector: {}}}
`

func TestAll(t *testing.T) {
	for name, tc := range map[string]struct {
		reason, live string
		want         []string
	}{
		"Equal":    {"", web, nil},
		"Unmarked": {"the marks of the control plane are no difference", strings.NewReplacer(`karmada.io/managed: "true"`, "", "{work.karmada.io/name: w}", "{}").Replace(web), nil},
		"Defaults": {"what defaults add is none", strings.NewReplacer("paused: false", "strategy: {type: x}", "resources: {}", "resources: {}, policy: Always").Replace(web), nil},
		"Zero":     {"zero is a value", strings.Replace(web, "replicas: 0", "replicas: 3", 1), []string{"/spec/replicas"}},
		"Item":     {"", strings.Replace(web, "image: y", "image: z", 1), []string{`/spec/template/spec/containers[name="b"]/image`}},
		"NoItem":   {"", strings.Replace(web, ", {name: b, image: y}", "", 1), []string{`/spec/template/spec/containers[name="b"]`}},
		"Scalars":  {"a list of values is compared as a whole", strings.Replace(web, "[p, q]", "[q, p]", 1), []string{`/spec/template/spec/containers[name="a"]/args`}},
		"Label":    {"", strings.Replace(web, "app: web", "app: other", 1), []string{"/metadata/labels/app"}},
		"Absent":   {"", `{apiVersion: apps/v1, kind: Deployment, metadata: {labels: {}}, spec: {}}`, []string{"/metadata/labels/app", "/spec/template"}},
	} {
		if diff := cmp.Diff(tc.want, (&comparison{wanted: object(t, web), live: object(t, tc.live), owners: noOwners}).all()); diff != "" {
			t.Errorf("%s: %s\n-want +got\n%s", name, tc.reason, diff)
		}
	}
}

func TestUnlike(t *testing.T) {
	live := strings.NewReplacer("replicas: 0", "replicas: 3", "image: x", "image: x2").Replace(web)
	got := (&comparison{wanted: object(t, web), live: object(t, live), owners: noOwners}).unlike([]string{
		"/spec/replicas", "/spec/paused", `/spec/template/spec/containers[name="a"]/image`, `/spec/template/spec/containers[name="b"]/image`, "/spec/none",
		"/metadata/labels/karmada.io/managed", `/spec/template/spec/containers[name="a"]`,
	})
	if diff := cmp.Diff([]string{"/spec/none", "/spec/replicas", `/spec/template/spec/containers[name="a"]/image`}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestWithout: on random objects and paths nothing below a removed path is left, everything else is, the object is not changed, and the
// removed paths and those that are left are all that there were.
func TestWithout(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var value func(depth int) any
	value = func(depth int) any {
		if depth == 0 || random.IntN(4) == 0 {
			return fmt.Sprint(random.IntN(9))
		}
		if random.IntN(3) == 0 {
			var list []any
			for i := range random.IntN(3) {
				list = append(list, map[string]any{"name": fmt.Sprint("n", i), "v": value(depth - 1)})
			}
			return list
		}
		fields := map[string]any{}
		for i := range random.IntN(4) {
			fields[fmt.Sprint("f", i)] = value(depth - 1)
		}
		return fields
	}
	pathsOf := func(obj *unstructured.Unstructured) (paths []string) {
		each(obj.Object, "", func(path string, _ any) { paths = append(paths, path) })
		slices.Sort(paths)
		return paths
	}
	for range 500 {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": value(5), "data": value(3)}}
		before, all := obj.DeepCopy(), pathsOf(obj)
		var chosen []string
		for range 1 + random.IntN(3) {
			chosen = append(chosen, all[random.IntN(len(all))])
		}
		rest, removed := Without(obj, chosen)
		if diff := cmp.Diff(before, obj); diff != "" {
			t.Fatalf("the object is changed:\n%s", diff)
		}
		left := pathsOf(rest)
		for _, path := range left {
			if slices.ContainsFunc(chosen, func(c string) bool {
				return path == c || strings.HasPrefix(path, c+"/") || strings.HasPrefix(path, c+"[")
			}) {
				t.Fatalf("%s is left without %q", path, chosen)
			}
		}
		together := append(left, removed...)
		slices.Sort(together)
		if diff := cmp.Diff(all, together); diff != "" {
			t.Fatalf("without %q:\n%s", chosen, diff)
		}
	}
}

func TestAcknowledged(t *testing.T) {
	found := time.Date(2026, 1, 2, 3, 4, 5, 900, time.UTC)
	for at, want := range map[string]bool{
		"2026-01-02T03:04:05Z": true, "2026-01-02T03:04:04Z": false, "2026-01-02T05:04:06+02:00": true, "": false, "yes": false,
	} {
		if got := Acknowledged(at, found); got != want {
			t.Errorf("%q: %v", at, got)
		}
	}
}

// TestLeft: fields of others have both values, and those of a Secret none.
func TestLeft(t *testing.T) {
	wanted, live := object(t, `{apiVersion: v1, kind: ConfigMap, data: {a: "1"}}`), object(t, `{apiVersion: v1, kind: ConfigMap, data: {a: "2"}}`)
	conflicts := []ssa.Conflict{{Field: ".data.a", Manager: "x"}, {Field: ".data.b", Manager: "y"}}
	want := []fleetv1alpha1.DriftedField{
		{Path: "/data/a", Wanted: `"1"`, Found: `"2"`, Manager: "x", Outcome: fleetv1alpha1.DriftLeft},
		{Path: ".data.b", Manager: "y", Outcome: fleetv1alpha1.DriftLeft},
	}
	if diff := cmp.Diff(want, Left(conflicts, wanted, live)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	wanted.SetKind("Secret")
	if secret := Left(conflicts, wanted, live)[0]; secret.Wanted != "(hidden)" || secret.Found != "(hidden)" {
		t.Errorf("of a Secret: %+v", secret)
	}
	fields := []fleetv1alpha1.DriftedField{{Path: "/data/a", Wanted: "(hidden)", Found: "(hidden)", Time: &metav1.Time{}, Outcome: fleetv1alpha1.DriftPaused}}
	if !areKnown(fields, wanted, live, []string{"/data/a"}, fleetv1alpha1.DriftPaused) || areKnown(fields, wanted, live, []string{"/data/a"}, fleetv1alpha1.DriftReported) ||
		areKnown(fields, wanted, live, []string{"/data/a", "/data/b"}, fleetv1alpha1.DriftPaused) {
		t.Error("what is known is not recognized")
	}
}
