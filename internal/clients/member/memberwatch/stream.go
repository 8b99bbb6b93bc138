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

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// keptBuffer bounds the buffer that a stream keeps while it waits for the next event.
const keptBuffer = 4 << 10

// stream reads the events of a response: JSON, or protobuf with the length before each event. A length that begins with a brace would be
// 2 GB, so the first byte distinguishes the two. Between two events a stream has a small buffer only. Those of client-go stay as large as
// the largest event.
type stream struct {
	body   io.ReadCloser
	unread io.Reader // what of body is not read yet
	begun  bool
	json   *json.Decoder // nil for protobuf
	decode func([]byte) (runtime.Object, error)
}

// newStream returns the stream of a body that has a bound for each event.
func newStream(body io.ReadCloser, decode func([]byte) (runtime.Object, error)) *stream {
	return &stream{body: body, unread: body, decode: decode}
}

// Close implements Stream.
func (s *stream) Close() { _ = s.body.Close() } // nothing is lost: it is not read any more

// Next implements Stream.
func (s *stream) Next() (watch.Event, error) {
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
	if err := bounds.Event.Piece.Check(int64(size)); err != nil {
		return event, err
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
