package bounds

import "reflect"

// maxSizeDepth ends the count of a value that contains itself.
const maxSizeDepth = 16

// SizeOf is about how many bytes of memory a value takes with all that it points to. What several values share counts for each.
func SizeOf(value any) int64 {
	if value == nil {
		return 0
	}
	v := reflect.ValueOf(value)
	return int64(v.Type().Size()) + behind(v, 0)
}

// behind is what a value takes besides the memory in which it is itself.
func behind(v reflect.Value, depth int) (size int64) {
	if depth > maxSizeDepth {
		return 0
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Slice:
		size = int64(v.Cap()) * int64(v.Type().Elem().Size())
		if !flat(v.Type().Elem()) {
			for i := range v.Len() {
				size += behind(v.Index(i), depth+1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			size += behind(v.Index(i), depth+1)
		}
	case reflect.Map:
		const overhead = 16
		each := int64(v.Type().Key().Size()+v.Type().Elem().Size()) + overhead
		for entries := v.MapRange(); entries.Next(); {
			size += each + behind(entries.Key(), depth+1) + behind(entries.Value(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			size += behind(v.Field(i), depth+1)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			size = int64(v.Elem().Type().Size()) + behind(v.Elem(), depth+1)
		}
	}
	return size
}

// flat returns whether a value of a type points to nothing.
func flat(t reflect.Type) bool { return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128 }
