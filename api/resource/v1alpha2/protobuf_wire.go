package v1alpha2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The four wire types that occur in valid messages; only the first and third are used by the kinds here.
const (
	wireVarint = 0
	wireEight  = 1
	wireBytes  = 2
	wireFour   = 5
)

var errTruncated = errors.New("protobuf message ends in the middle of a field")

// message is a part of an object as it encodes itself: fields in falling order of their numbers, because the
// writer works from the end of the buffer towards its start.
type message interface{ encode(w *writer) }

// foreign is a message of another package, with the methods its generator gave it.
type foreign interface {
	Size() int
	MarshalToSizedBuffer(data []byte) (int, error)
}

// writer fills a buffer from its end, so that a message's length is known when its prefix is written. Without a
// buffer it only counts, which is how the size of a message is found: by the code that writes it.
type writer struct {
	buffer []byte
	size   int
	err    error
}

// sizeOf is how many bytes a message takes.
func sizeOf(m message) int {
	w := writer{}
	m.encode(&w)
	return w.size
}

// marshal encodes a message on its own.
func marshal(m message) ([]byte, error) {
	data := make([]byte, sizeOf(m))
	n, err := marshalInto(m, data)
	return data[len(data)-n:], err
}

// marshalInto writes a message to the end of the buffer and returns its length.
func marshalInto(m message, buffer []byte) (int, error) {
	if size := sizeOf(m); size > len(buffer) {
		return 0, fmt.Errorf("protobuf message of %d bytes does not fit in %d", size, len(buffer))
	}
	w := writer{buffer: buffer}
	m.encode(&w)
	return w.size, w.err
}

func (w *writer) varint(value uint64) {
	var scratch [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(scratch[:], value)
	w.size += n
	if w.buffer != nil {
		copy(w.buffer[len(w.buffer)-w.size:], scratch[:n])
	}
}

func (w *writer) tag(field, wire uint64) { w.varint(field<<3 | wire) }

// text writes a string, the empty one too, as generated code does.
func (w *writer) text(field uint64, value string) {
	w.size += len(value)
	if w.buffer != nil {
		copy(w.buffer[len(w.buffer)-w.size:], value)
	}
	w.varint(uint64(len(value)))
	w.tag(field, wireBytes)
}

// flag writes a bool, false too.
func (w *writer) flag(field uint64, value bool) {
	number := uint64(0)
	if value {
		number = 1
	}
	w.varint(number)
	w.tag(field, wireVarint)
}

func (w *writer) message(field uint64, m message) {
	before := w.size
	m.encode(w)
	w.varint(uint64(w.size - before))
	w.tag(field, wireBytes)
}

func (w *writer) foreign(field uint64, m foreign) {
	var size int
	if w.buffer == nil {
		size = m.Size()
	} else {
		var err error
		size, err = m.MarshalToSizedBuffer(w.buffer[:len(w.buffer)-w.size])
		w.err = errors.Join(w.err, err)
	}
	w.size += size
	w.varint(uint64(size))
	w.tag(field, wireBytes)
}

// wireField is one field of an encoded message.
type wireField struct {
	number uint64
	wire   uint64
	flag   bool
	bytes  []byte
}

// decodable is a message that reads itself from its encoding.
type decodable interface{ Unmarshal(data []byte) error }

// eachField calls read for each field of a message. Fields that read does not know are skipped, as long as they
// are well-formed.
func eachField(data []byte, read func(wireField) error) error {
	for len(data) > 0 {
		key, n := binary.Uvarint(data)
		if n <= 0 {
			return errTruncated
		}
		data = data[n:]
		f := wireField{number: key >> 3, wire: key & 7}
		if f.number == 0 || f.number > math.MaxInt32>>2 {
			return fmt.Errorf("protobuf field number %d is out of range", f.number)
		}
		n, err := f.take(data)
		if err != nil {
			return err
		}
		data = data[n:]
		if err := read(f); err != nil {
			return fmt.Errorf("protobuf field %d: %w", f.number, err)
		}
	}
	return nil
}

// take reads the value at the start of data and returns how long it is.
func (f *wireField) take(data []byte) (int, error) {
	switch f.wire {
	case wireVarint:
		value, n := binary.Uvarint(data)
		if n <= 0 {
			return 0, errTruncated
		}
		f.flag = value != 0
		return n, nil
	case wireBytes:
		length, n := binary.Uvarint(data)
		if n <= 0 || length > uint64(len(data)-n) {
			return 0, errTruncated
		}
		end := n + int(length)
		f.bytes = data[n:end]
		return end, nil
	case wireEight, wireFour:
		size := 8
		if f.wire == wireFour {
			size = 4
		}
		if len(data) < size {
			return 0, errTruncated
		}
		return size, nil
	}
	return 0, fmt.Errorf("protobuf wire type %d is not known", f.wire)
}

func (f wireField) expect(wire uint64) error {
	if f.wire != wire {
		return fmt.Errorf("wire type %d where %d belongs", f.wire, wire)
	}
	return nil
}

func (f wireField) toFlag(into *bool) error {
	*into = f.flag
	return f.expect(wireVarint)
}

func (f wireField) toMessage(into decodable) error {
	if err := f.expect(wireBytes); err != nil {
		return err
	}
	return into.Unmarshal(f.bytes)
}

func toText[T ~string](f wireField, into *T) error {
	*into = T(f.bytes)
	return f.expect(wireBytes)
}

func toTexts(f wireField, into *[]string) error {
	*into = append(*into, string(f.bytes))
	return f.expect(wireBytes)
}

// toPointer reads a message into *into, made if it is not there yet: of a field that occurs twice the parts add up.
func toPointer[T any, P interface {
	*T
	decodable
}](f wireField, into *P) error {
	if *into == nil {
		*into = new(T)
	}
	return f.toMessage(*into)
}

// toList reads a message into a new element of *into.
func toList[T any, P interface {
	*T
	decodable
}](f wireField, into *[]T) error {
	var element T
	*into = append(*into, element)
	return f.toMessage(P(&(*into)[len(*into)-1]))
}

// messages writes a repeated field.
func messages[T any, P interface {
	*T
	message
}](w *writer, field uint64, list []T) {
	for i := len(list) - 1; i >= 0; i-- {
		w.message(field, P(&list[i]))
	}
}

// texts writes a repeated string field.
func texts(w *writer, field uint64, list []string) {
	for i := len(list) - 1; i >= 0; i-- {
		w.text(field, list[i])
	}
}
