package memberwatch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// maxFrame bounds an event, as client-go does: a member that never ends one would take all memory.
	maxFrame = 16 << 20
	// keptBuffer bounds the buffer that a stream keeps while it waits for the next event.
	keptBuffer = 4 << 10
)

// stream reads the events of a response: JSON, or protobuf with the length before each event. A length that begins with a brace would be
// 2 GB, so the first byte distinguishes the two. Between two events a stream has a small buffer only. Those of client-go stay as large as
// the largest event.
type stream struct {
	body   io.ReadCloser
	unread io.Reader // what of body is not read yet, up to the bound of the next event
	bound  *bounded
	begun  bool
	json   *json.Decoder // nil for protobuf
	decode func([]byte) (runtime.Object, error)
}

func newStream(body io.ReadCloser, decode func([]byte) (runtime.Object, error)) *stream {
	bound := &bounded{Reader: body, left: maxFrame}
	return &stream{body: body, unread: bound, bound: bound, decode: decode}
}

// bounded fails after a number of bytes.
type bounded struct {
	io.Reader
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("an event of a watch has more than %d bytes", maxFrame)
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Close implements Stream.
func (s *stream) Close() { _ = s.body.Close() } // nothing is lost: it is not read any more

// Next implements Stream.
func (s *stream) Next() (watch.Event, error) {
	s.bound.left = maxFrame
	if !s.begun {
		first := make([]byte, 1)
		if _, err := io.ReadFull(s.unread, first); err != nil {
			return watch.Event{}, err
		}
		s.begun, s.unread = true, io.MultiReader(bytes.NewReader(first), s.unread)
		if first[0] == '{' {
			s.json = json.NewDecoder(s.unread)
		}
	}
	frame := s.readProtobuf
	if s.json != nil {
		frame = s.readJSON
	}
	event, err := frame()
	if err != nil {
		return watch.Event{}, err
	}
	object, err := s.decode(event.Object.Raw)
	if err != nil {
		return watch.Event{}, fmt.Errorf("decoding an object of a watch: %w", err)
	}
	return watch.Event{Type: watch.EventType(event.Type), Object: object}, nil
}

func (s *stream) readJSON() (event metav1.WatchEvent, err error) {
	if err := s.json.Decode(&event); err != nil {
		return event, err
	}
	if len(event.Object.Raw) > keptBuffer {
		s.unread = io.MultiReader(s.json.Buffered(), s.unread)
		s.json = json.NewDecoder(s.unread)
	}
	return event, nil
}

func (s *stream) readProtobuf() (event metav1.WatchEvent, err error) {
	var length [4]byte
	if _, err := io.ReadFull(s.unread, length[:]); err != nil {
		return event, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > maxFrame-4 {
		return event, fmt.Errorf("an event of a watch has %d bytes, more than %d", size, maxFrame)
	}
	frame := make([]byte, size)
	if _, err := io.ReadFull(s.unread, frame); err != nil {
		return event, err
	}
	if err := event.Unmarshal(frame); err != nil {
		return event, fmt.Errorf("decoding an event of a watch: %w", err)
	}
	return event, nil
}

// received are the events of a watch.Interface.
type received struct{ watch.Interface }

// Next implements Stream.
func (r received) Next() (watch.Event, error) {
	event, running := <-r.ResultChan()
	if !running {
		return event, io.EOF
	}
	return event, nil
}

// Close implements Stream.
func (r received) Close() { r.Stop() }
