package ssa_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

func TestChangedBy(t *testing.T) {
	self := ownership.ControlPlane{ID: "11111111-0000"}
	entry := func(manager string, second int64, fields string) metav1.ManagedFieldsEntry {
		at := metav1.Unix(second, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	untimed := entry("untimed", 0, `{"f:data":{"f:c":{}}}`)
	untimed.Time = nil
	entries := []metav1.ManagedFieldsEntry{
		entry("late", 20, `{"f:spec":{"f:list":{"k:{\"name\":\"x\"}":{"f:image":{}}}}}`),
		entry("early", 10, `{"f:data":{"f:a":{},"f:b":{}},"f:spec":{"f:list":{"k:{\"name\":\"x\"}":{"f:image":{}}}}}`),
		entry(self.Manager(), 30, `{"f:data":{"f:a":{},"f:b":{},"f:d":{}}}`), untimed,
		{Manager: "empty"}, entry("broken", int64(time.Hour), `{`),
	}
	desired := &unstructured.Unstructured{Object: map[string]any{
		"data": map[string]any{"a": "1", "b": "1", "c": "1", "d": "1"},
		"spec": map[string]any{"list": []any{map[string]any{"name": "x", "image": "y"}}},
	}}
	image := `/spec/list[name="x"]/image`
	got := ssa.ChangedBy(self, desired, entries, []string{"/data/a", "/data/c", "/data/d", image})
	at := func(second int64) *metav1.Time { return new(metav1.Unix(second, 0)) }
	want := map[string]ssa.Change{"/data/a": {Manager: "early", Time: at(10)}, "/data/c": {Manager: "untimed"}, image: {Manager: "late", Time: at(20)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
