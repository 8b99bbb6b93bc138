package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// readyLine is what a member writes on its report pipe once it serves; any other line is an error.
const readyLine = "ready"

// ErrParentGone is the cause of a child context whose parent has let go of its end of the pipe.
var ErrParentGone = errors.New("the process that started this one has ended")

// Child is a member process's view of the playground that started it.
type Child struct {
	life   io.Reader
	report io.WriteCloser
}

// NewChild is for a process that a playground started: standard input is its life line and the first descriptor after
// the standard three takes its report.
func NewChild() *Child {
	return &Child{life: os.Stdin, report: os.NewFile(readyFD, "report")}
}

// Bind returns a context that ends with the parent, whose end closes the life line however it came about.
func (c *Child) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	return Bind(ctx, c.life)
}

// Bind returns a context that ends with the input of this process: the other end of that pipe is closed when the process that started this
// one ends, however it does.
func Bind(ctx context.Context, input io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	// Nothing waits for this goroutine. Package os opens the standard input without the poller, so that neither a deadline nor Close ends a
	// read, and the process ends after the context.
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel(ErrParentGone)
	}()
	return ctx, func() { cancel(nil) }
}

// Report reports to the parent, once, that this member serves (nil) or why it will not.
func (c *Child) Report(err error) error {
	line := readyLine
	if err != nil {
		line = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if _, err := fmt.Fprintln(c.report, line); err != nil {
		return fmt.Errorf("reporting to the playground: %w", err)
	}
	return c.report.Close()
}
