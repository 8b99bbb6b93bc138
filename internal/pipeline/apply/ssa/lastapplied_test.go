package ssa

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: decode(t, text)}
}

const configMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: shop, labels: {karmada.io/managed: "true"}, annotations: {work.karmada.io/name: w}}
data: {k: v}
`

func TestLastAppliedSurvivesItsAnnotation(t *testing.T) {
	obj := object(t, configMap)
	want := LastApplied{Hash: "h4sh", Footprint: FootprintOf(obj), Misfits: FootprintOfPaths([]string{"/spec/novel"}), Schema: "sch3ma"}
	SetAnnotation(obj, workv1alpha1.LastAppliedAnnotation, want.String())
	got, ok := LastAppliedOf(obj)
	if !ok {
		t.Fatalf("cannot read %q", want)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(LastApplied{}, footprint{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for path, want := range map[string]bool{"/data/k": true, "/data": true, "/metadata/labels/karmada.io/managed": true, "/data/other": false, "/spec/novel": false} {
		if covered := got.Footprint.has(path); covered != want {
			t.Errorf("has(%s) = %t, want %t", path, covered, want)
		}
	}
}

func TestLastAppliedThatCannotBeRead(t *testing.T) {
	for name, text := range map[string]string{"Missing": "", "NoFootprint": "h4sh", "NoHash": ".AAAA", "NotBase64": "h4sh.?", "Odd": "h4sh.AA"} {
		obj := object(t, configMap)
		SetAnnotation(obj, workv1alpha1.LastAppliedAnnotation, text)
		if r, ok := LastAppliedOf(obj); ok {
			t.Errorf("%s: read %+v out of %q", name, r, text)
		}
	}
}

func TestLastAppliedOfAnOlderVersionIsRead(t *testing.T) {
	obj := object(t, configMap)
	// As versions with 16-bit hashes wrote it.
	var raw []byte
	hashes := FootprintOf(obj).hashes
	narrow := make([]uint16, 0, len(hashes))
	for _, h := range hashes {
		narrow = append(narrow, uint16(h>>16)^uint16(h))
	}
	slices.Sort(narrow)
	for _, h := range narrow {
		raw = binary.BigEndian.AppendUint16(raw, h)
	}
	SetAnnotation(obj, workv1alpha1.LastAppliedAnnotation, "h4sh."+base64.RawURLEncoding.EncodeToString(raw))
	got, ok := LastAppliedOf(obj)
	if !ok || got.Hash != "h4sh" {
		t.Fatalf("read %+v, %t", got, ok)
	}
	for path, want := range map[string]bool{"/data/k": true, "/metadata/labels/karmada.io/managed": true, "/data/other": false} {
		if got.Footprint.has(path) != want {
			t.Errorf("has(%s) is not %t", path, want)
		}
	}
}

func TestPathsAreNotMistakenForOthers(t *testing.T) {
	obj := object(t, configMap)
	data := map[string]any{}
	for i := range 500 {
		data[fmt.Sprintf("key-%d", i)] = "v"
	}
	obj.Object["data"] = data
	f := FootprintOf(obj)
	for i := range 100_000 {
		if path := fmt.Sprintf("/data/other-%d", i); f.has(path) {
			t.Fatalf("%s is taken for a path that was set", path)
		}
	}
}

func TestOfTooLargeAnObjectNothingIsKnown(t *testing.T) {
	obj := object(t, configMap)
	data := map[string]any{}
	for i := range maxFootprint + 1 {
		data[string(rune('a'+i%26))+string(rune('0'+i/26))] = "v"
	}
	obj.Object["data"] = data
	f := FootprintOf(obj)
	if !f.empty() || f.has("/data/a0") {
		t.Errorf("%d hashes, has %t", len(f.hashes), f.has("/data/a0"))
	}
}

func TestWantedIsAboutTheUsersObjectOnly(t *testing.T) {
	plain, err := Wanted(object(t, configMap))
	if err != nil {
		t.Fatal(err)
	}
	marked := object(t, configMap)
	SetAnnotation(marked, workv1alpha1.LastAppliedAnnotation, "x.AAAA")
	SetAnnotation(marked, workv1alpha1.AdoptedAnnotation, "true")
	if same, _ := Wanted(marked); same != plain {
		t.Error("our own annotations change the hash")
	}
	other := object(t, configMap)
	other.Object["data"] = map[string]any{"k": "w"}
	if changed, _ := Wanted(other); changed == plain {
		t.Error("a changed value does not change the hash")
	}
	if marked.GetAnnotations()[workv1alpha1.LastAppliedAnnotation] == "" {
		t.Error("hashing changed the object")
	}
}
