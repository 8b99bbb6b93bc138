package storage

import (
	"reflect"
	"unique"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Compact reduces the memory of an object that was decoded just now and is kept: lists lose their spare capacity, and what many
// objects have in common is kept once: the keys of maps, the texts of conditions, large manifests. It uses reflection, so that it
// holds for every kind. A Work of a small manifest takes an eighth less; one of a definition of 8 KB, which goes to every cluster,
// takes 1 KB of 10 (BenchmarkCompact).
func Compact(object any) { compact(reflect.ValueOf(object)) }

var (
	conditionType = reflect.TypeFor[metav1.Condition]()
	rawType       = reflect.TypeFor[runtime.RawExtension]()
)

func compact(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			compact(v.Elem())
		}
	case reflect.Struct:
		if v.Type() == conditionType && v.CanAddr() {
			c := v.Addr().Interface().(*metav1.Condition)
			c.Type, c.Reason, c.Message = intern(c.Type), intern(c.Reason), intern(c.Message)
			return
		}
		if v.Type() == rawType && v.CanAddr() {
			raw := v.Addr().Interface().(*runtime.RawExtension)
			raw.Raw = internManifest(raw.Raw)
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				compact(v.Field(i))
			}
		}
	case reflect.Slice:
		trim(v)
		if kind := v.Type().Elem().Kind(); kind == reflect.Struct || kind == reflect.Pointer {
			for i := range v.Len() {
				compact(v.Index(i))
			}
		}
	case reflect.Map:
		if words, ok := v.Interface().(map[string]string); ok && v.CanSet() && len(words) > 0 {
			fresh := make(map[string]string, len(words))
			for key, value := range words {
				fresh[intern(key)] = value
			}
			v.Set(reflect.ValueOf(fresh))
		}
	}
}

// trim removes the spare capacity of a list, if that is worth a copy.
func trim(list reflect.Value) {
	if !list.CanSet() || list.Cap() <= list.Len()+list.Len()/8 {
		return
	}
	fitting := reflect.MakeSlice(list.Type(), list.Len(), list.Len())
	reflect.Copy(fitting, list)
	list.Set(fitting)
}

// minManifest is the size from which a manifest is compared with others: definitions of kinds are the same for every cluster, and
// smaller manifests mostly differ.
const minManifest = 4 << 10

// internManifest returns the one copy of a manifest that many Works have. It must not be changed, like everything of an object that is
// kept, so that a slice can share the memory of a string.
func internManifest(raw []byte) []byte {
	if len(raw) < minManifest {
		return raw
	}
	text := intern(string(raw))
	return unsafe.Slice(unsafe.StringData(text), len(text))
}

// intern returns the one copy of a text that many objects have.
func intern(text string) string { return unique.Make(text).Value() }
