package declarative

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What one call may use.
const (
	callTimeout = time.Second
	maxSteps    = 2_000_000
	maxString   = 1 << 20
	// stringStep is how many bytes of new strings cost one step.
	stringStep = 64
	// pollSteps is after how many steps the time is checked.
	pollSteps = 256
)

var errSteps = errors.New("the script took more than 2000000 steps")

// meter counts what a call uses. It is a context, because that is what the
// virtual machine asks before every instruction: Done is called once for each.
// It serves one call on one goroutine.
type meter struct {
	context.Context
	steps    int
	poll     int
	deadline time.Time
	err      error
	// ended is what Done returns once the call has to end.
	ended chan struct{}
}

func newMeter(ctx context.Context) *meter {
	return &meter{Context: ctx, steps: maxSteps, poll: pollSteps, deadline: time.Now().Add(callTimeout)}
}

// Done counts one step. A nil channel is never ready.
func (m *meter) Done() <-chan struct{} {
	m.use(1)
	if m.err == nil {
		return nil
	}
	if m.ended == nil {
		m.ended = make(chan struct{})
		close(m.ended)
	}
	return m.ended
}

// Err tells why the call has to end.
func (m *meter) Err() error { return m.err }

// use counts steps; the first limit that is hit stays the reason to end.
func (m *meter) use(steps int) {
	m.steps -= steps
	m.poll -= steps
	if m.err != nil {
		return
	}
	if m.steps < 0 {
		m.err = errSteps
		return
	}
	if m.poll < 0 {
		m.poll = pollSteps
		err := m.Context.Err()
		if err == nil && time.Now().After(m.deadline) {
			err = context.DeadlineExceeded
		}
		if err != nil {
			m.err = fmt.Errorf("the script did not end in time: %w", err)
		}
	}
}
