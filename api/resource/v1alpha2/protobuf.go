package v1alpha2

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The protobuf form of the kinds follows the tags of their fields. The numbers are those of Kubernetes 1.30; the gaps were fields
// of earlier releases and must stay empty. No generator writes it: k8s.io/api generated its form for the types of its own that it
// has since removed, go-to-protobuf needs protoc, and google.golang.org/protobuf encodes only the types that protoc-gen-go wrote.

// numbered is a field of a struct that has a number.
//
// +k8s:openapi-gen=false
type numbered struct {
	index  int
	number protowire.Number
}

// fieldsOf has the fields of every struct of this package in the kinds, by number. It does not change.
var fieldsOf = tables(&ResourceClaimList{}, &ResourceClaimTemplateList{}, &ResourceClassList{}, &PodSchedulingContextList{})

func tables(lists ...any) map[reflect.Type][]numbered {
	result := map[reflect.Type][]numbered{}
	here := reflect.TypeFor[ResourceClaim]().PkgPath()
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if _, done := result[t]; done || t.Kind() != reflect.Struct || t.PkgPath() != here {
			return
		}
		var fields []numbered
		for i := range t.NumField() {
			if parts := strings.Split(t.Field(i).Tag.Get("protobuf"), ","); len(parts) > 1 {
				number, _ := strconv.Atoi(parts[1])
				fields = append(fields, numbered{index: i, number: protowire.Number(number)})
				add(t.Field(i).Type)
			}
		}
		slices.SortFunc(fields, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
		result[t] = fields
	}
	for _, list := range lists {
		add(reflect.TypeOf(list))
	}
	return result
}

// message is a struct of another package, with the methods that its generator wrote.
type message interface {
	Size() int
	MarshalToSizedBuffer(buffer []byte) (int, error)
	Unmarshal(data []byte) error
}

// writer fills a buffer from its end to its start, so that the length of a message is known when its prefix is written. Without
// a buffer it only counts, so that the size of a message is computed by the code that writes it.
//
// +k8s:openapi-gen=false
type writer struct {
	buffer []byte
	size   int
	err    error
}

func sizeOf(kind any) int {
	w := writer{}
	w.message(reflect.ValueOf(kind).Elem())
	return w.size
}

func marshal(kind any) ([]byte, error) {
	data := make([]byte, sizeOf(kind))
	n, err := marshalTo(kind, data)
	return data[len(data)-n:], err
}

func marshalTo(kind any, buffer []byte) (int, error) {
	if size := sizeOf(kind); size > len(buffer) {
		return 0, fmt.Errorf("protobuf message of %d bytes does not fit in %d", size, len(buffer))
	}
	w := writer{buffer: buffer}
	w.message(reflect.ValueOf(kind).Elem())
	return w.size, w.err
}

// message writes the fields of a struct.
func (w *writer) message(value reflect.Value) {
	fields, ours := fieldsOf[value.Type()]
	for _, f := range slices.Backward(fields) {
		w.field(f.number, value.Field(f.index))
	}
	if ours {
		return
	}
	m := value.Addr().Interface().(message)
	if w.buffer == nil {
		w.size += m.Size()
		return
	}
	n, err := m.MarshalToSizedBuffer(w.buffer[:len(w.buffer)-w.size])
	w.size += n
	w.err = errors.Join(w.err, err)
}

// field writes a field. Empty texts and false are written, as generated code does; nil is not.
func (w *writer) field(number protowire.Number, value reflect.Value) {
	before := w.size
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			w.field(number, value.Elem())
		}
	case reflect.Slice:
		for i := value.Len() - 1; i >= 0; i-- {
			w.field(number, value.Index(i))
		}
	case reflect.Bool:
		w.varint(protowire.EncodeBool(value.Bool()))
		w.varint(protowire.EncodeTag(number, protowire.VarintType))
	case reflect.String:
		w.size += value.Len()
		if w.buffer != nil {
			copy(w.buffer[len(w.buffer)-w.size:], value.String())
		}
		w.prefix(number, before)
	case reflect.Struct:
		w.message(value)
		w.prefix(number, before)
	}
}

// prefix writes the tag and length of what was written since before.
func (w *writer) prefix(number protowire.Number, before int) {
	w.varint(uint64(w.size - before))
	w.varint(protowire.EncodeTag(number, protowire.BytesType))
}

func (w *writer) varint(value uint64) {
	w.size += protowire.SizeVarint(value)
	if w.buffer != nil {
		at := len(w.buffer) - w.size
		protowire.AppendVarint(w.buffer[at:at], value)
	}
}

// unmarshal adds the fields in data to those of a kind. It skips unknown fields.
func unmarshal(kind any, data []byte) error { return read(reflect.ValueOf(kind).Elem(), data) }

func read(into reflect.Value, data []byte) error {
	fields, ours := fieldsOf[into.Type()]
	if !ours {
		return into.Addr().Interface().(message).Unmarshal(data)
	}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		length := protowire.ConsumeFieldValue(number, wire, data[n:])
		if length < 0 {
			return protowire.ParseError(length)
		}
		content := data[n : n+length]
		data = data[n+length:]
		for _, f := range fields {
			if f.number != number {
				continue
			}
			if err := readField(into.Field(f.index), wire, content); err != nil {
				return fmt.Errorf("protobuf field %d: %w", number, err)
			}
		}
	}
	return nil
}

func readField(into reflect.Value, wire protowire.Type, content []byte) error {
	switch into.Kind() {
	case reflect.Pointer:
		if into.IsNil() {
			into.Set(reflect.New(into.Type().Elem()))
		}
		return readField(into.Elem(), wire, content)
	case reflect.Slice:
		into.Set(reflect.Append(into, reflect.Zero(into.Type().Elem())))
		return readField(into.Index(into.Len()-1), wire, content)
	case reflect.Bool:
		if wire != protowire.VarintType {
			return fmt.Errorf("wire type %d where %d belongs", wire, protowire.VarintType)
		}
		value, _ := protowire.ConsumeVarint(content)
		into.SetBool(protowire.DecodeBool(value))
		return nil
	}
	if wire != protowire.BytesType {
		return fmt.Errorf("wire type %d where %d belongs", wire, protowire.BytesType)
	}
	content, _ = protowire.ConsumeBytes(content)
	if into.Kind() == reflect.String {
		into.SetString(string(content))
		return nil
	}
	return read(into, content)
}
