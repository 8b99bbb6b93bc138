package bounds

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"

	"golang.org/x/time/rate"
)

// Rate is how fast what a member sends is read: beyond it reading waits, and the connection with it.
type Rate struct{ limiter *rate.Limiter }

const (
	// BytesPerSecond and BytesAtOnce are the rate at which one member is read. A member that sends as fast as it can would otherwise take
	// a processor for each watch.
	BytesPerSecond, BytesAtOnce = 32 << 20, 128 << 20
	// pieceCost is what an event of a watch costs besides its bytes, for what follows from it.
	pieceCost = 4 << 10
)

// NewRate returns the rate of one member.
func NewRate() *Rate { return &Rate{rate.NewLimiter(BytesPerSecond, BytesAtOnce)} }

// wait waits until so many bytes may be read. The error is that of the context.
func (r *Rate) wait(ctx context.Context, n int64) error {
	if r == nil {
		return nil
	}
	for n > 0 {
		part := min(n, BytesAtOnce)
		if err := r.limiter.WaitN(ctx, int(part)); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// Meter reads an answer, and fails with a TooMuchError beyond its limit: of JSON for each document, of the events of a watch in protobuf for
// each event, of anything else for all of it. The values of protobuf are counted by Records.
type Meter struct {
	ctx    context.Context //nolint:containedctx // io.Reader has no context, and reading waits
	from   io.Reader
	limit  Limit
	rate   *Rate
	framed bool // documents or events follow each other

	begun           bool
	json            bool
	length          []byte // of an event in protobuf, as far as it is read
	left            int64  // of an event in protobuf
	bytes, values   int64
	depth           int
	quoted, escaped bool
	failed          error
}

// NewMeter returns a meter of an answer. With framed set documents follow each other, as the events of a watch do. The rate may be nil.
func NewMeter(ctx context.Context, from io.Reader, limit Limit, rate *Rate, framed bool) *Meter {
	return &Meter{ctx: ctx, from: from, limit: limit, rate: rate, framed: framed}
}

// Read implements io.Reader.
func (m *Meter) Read(p []byte) (int, error) {
	if m.failed != nil {
		return 0, m.failed
	}
	n, err := m.from.Read(p)
	cost := int64(n) + m.count(p[:n])*pieceCost
	if m.failed == nil && n > 0 {
		m.failed = m.rate.wait(m.ctx, cost)
	}
	if m.failed != nil {
		return 0, m.failed
	}
	return n, err
}

// count takes bytes into account, and returns how many documents ended in them.
func (m *Meter) count(read []byte) (ended int64) {
	if !m.begun {
		read = bytes.TrimLeft(read, " \t\r\n")
		if len(read) == 0 {
			return 0
		}
		// The length of an event that begins with a brace would be 2 GB.
		m.begun, m.json = true, read[0] == '{' || read[0] == '['
	}
	switch {
	case m.json:
		return m.countJSON(read)
	case m.framed:
		return m.countEvents(read)
	}
	m.add(int64(len(read)), 0)
	return 0
}

func (m *Meter) add(bytes, values int64) {
	m.bytes, m.values = m.bytes+bytes, m.values+values
	switch {
	case m.failed != nil:
	case m.bytes > m.limit.Bytes:
		m.failed = tooMuch("%s has more than %d bytes", m.limit.What, m.limit.Bytes)
	case m.values > m.limit.Values:
		m.failed = tooMuch("%s has more than %d values", m.limit.What, m.limit.Values)
	}
}

func (m *Meter) countJSON(read []byte) (ended int64) {
	begun := 0
	values := int64(0)
	for i, c := range read {
		switch {
		case m.escaped:
			m.escaped = false
		case m.quoted:
			m.escaped, m.quoted = c == '\\', c != '"'
		case c == '"':
			m.quoted = true
		case c == ',', c == ':':
			values++
		case c == '{', c == '[':
			values++
			m.depth++
		case c == '}', c == ']':
			if m.depth--; m.depth == 0 && m.framed {
				m.add(int64(i+1-begun), values)
				m.bytes, m.values, values, begun = 0, 0, 0, i+1
				ended++
			}
		}
	}
	m.add(int64(len(read)-begun), values)
	return ended
}

// countEvents follows the lengths before the events of a watch in protobuf.
func (m *Meter) countEvents(read []byte) (ended int64) {
	for len(read) > 0 && m.failed == nil {
		if m.left > 0 {
			part := min(m.left, int64(len(read)))
			m.left, read = m.left-part, read[part:]
			if m.left == 0 {
				ended++
			}
			continue
		}
		part := min(4-len(m.length), len(read))
		m.length, read = append(m.length, read[:part]...), read[part:]
		if len(m.length) < 4 {
			continue
		}
		m.left, m.length = int64(binary.BigEndian.Uint32(m.length)), m.length[:0]
		if m.bytes = 0; m.left > m.limit.Bytes {
			m.add(m.left, 0)
		}
	}
	return ended
}
