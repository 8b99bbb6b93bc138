package storage

import (
	"reflect"
	"unique"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Compact brings an object that was decoded just now, and is to be kept, to the size it needs: lists without spare capacity,
// and one copy for all of what many objects say alike: the keys of maps, the words of conditions, large manifests.
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
			c.Type, c.Reason, c.Message = one(c.Type), one(c.Reason), one(c.Message)
			return
		}
		if v.Type() == rawType && v.CanAddr() {
			raw := v.Addr().Interface().(*runtime.RawExtension)
			raw.Raw = oneManifest(raw.Raw)
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				compact(v.Field(i))
			}
		}
	case reflect.Slice:
		fit(v)
		if kind := v.Type().Elem().Kind(); kind == reflect.Struct || kind == reflect.Pointer {
			for i := range v.Len() {
				compact(v.Index(i))
			}
		}
	case reflect.Map:
		if words, ok := v.Interface().(map[string]string); ok && v.CanSet() && len(words) > 0 {
			fresh := make(map[string]string, len(words))
			for key, value := range words {
				fresh[one(key)] = value
			}
			v.Set(reflect.ValueOf(fresh))
		}
	}
}

// fit removes the spare capacity of a list, if that is worth a copy.
func fit(list reflect.Value) {
	if !list.CanSet() || list.Cap() <= list.Len()+list.Len()/8 {
		return
	}
	fitting := reflect.MakeSlice(list.Type(), list.Len(), list.Len())
	reflect.Copy(fitting, list)
	list.Set(fitting)
}

// large is from how many bytes on a manifest is worth comparing with others: definitions of kinds go to every cluster as
// they are, and what is smaller mostly differs.
const large = 4 << 10

// oneManifest returns the one copy of a manifest that many Works have. It must not be changed, like every part
// of an object that is kept.
func oneManifest(raw []byte) []byte {
	if len(raw) < large {
		return raw
	}
	word := one(string(raw))
	return unsafe.Slice(unsafe.StringData(word), len(word))
}

// one returns the one copy of a word that many objects have.
func one(word string) string { return unique.Make(word).Value() }
