package storage

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// versions are the latest versions of the objects of a watch. The watch cache keeps every version for more than a minute and never
// changes one, so that versions can share what they have in common. It is reflection, for it holds for every kind: a version of a
// Pod takes half as much (BenchmarkVersions).
type versions map[types.NamespacedName]runtime.Object

// add makes the object of an event share what it has in common with the version before. It returns whether the event is one of an
// object.
func (v versions) add(e watch.Event) bool {
	if e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted {
		return false
	}
	object := e.Object
	if timed, ok := object.(storage.WatchEventWithRecordTime); ok {
		object = timed.Unwrap()
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return false // nothing that has versions
	}
	Compact(object)
	key := types.NamespacedName{Namespace: accessor.GetNamespace(), Name: accessor.GetName()}
	if before, known := v[key]; known {
		share(reflect.ValueOf(before), reflect.ValueOf(object))
	}
	if e.Type == watch.Deleted {
		delete(v, key)
	} else {
		v[key] = object
	}
	return true
}

// share replaces parts of the newer value by equal ones of the older. What cannot be set from here, such as the inside of
// a time, stays.
func share(older, newer reflect.Value) {
	if older.Type() != newer.Type() {
		return
	}
	switch newer.Kind() {
	case reflect.Struct:
		for i := range newer.NumField() {
			if newer.Type().Field(i).IsExported() {
				share(older.Field(i), newer.Field(i))
			}
		}
	case reflect.String:
		if newer.CanSet() && older.String() == newer.String() {
			newer.Set(older)
		}
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		if older.IsNil() || newer.IsNil() {
			return
		}
		if newer.CanSet() && reflect.DeepEqual(older.Interface(), newer.Interface()) {
			newer.Set(older)
			return
		}
		shareInside(older, newer)
	}
}

// shareInside shares parts of two values that differ.
func shareInside(older, newer reflect.Value) {
	switch newer.Kind() {
	case reflect.Pointer, reflect.Interface:
		share(older.Elem(), newer.Elem())
	case reflect.Slice:
		if newer.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range min(older.Len(), newer.Len()) {
			share(older.Index(i), newer.Index(i))
		}
	case reflect.Map:
		for entries := newer.MapRange(); entries.Next(); {
			was := older.MapIndex(entries.Key())
			if !was.IsValid() {
				continue
			}
			if reflect.DeepEqual(was.Interface(), entries.Value().Interface()) {
				newer.SetMapIndex(entries.Key(), was)
			} else {
				share(was, entries.Value()) // reaches what is behind pointers, slices and maps
			}
		}
	}
}
