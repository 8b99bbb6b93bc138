package override

import (
	"errors"
	"fmt"
	"strings"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// Errors of what exceeds the budget of the overriders of all policies for one object and one cluster. A policy has a place for thirty thousand edits
// and an object one for a hundred thousand values, so that edits which each pass over the object would take minutes of a processor for each
// cluster. The errors end with what to do.
var (
	errSteps   = fmt.Errorf("the edits of this object take more than %d steps: use fewer edits, or a smaller object", bounds.MaxSteps)
	errWritten = fmt.Errorf("the edits write more than %d bytes into the object: write less", bounds.MaxWrittenBytes)
	errValues  = fmt.Errorf("the YAML document has more than %d values: divide it", bounds.MaxYAMLValues)
	errLarge   = fmt.Errorf("the edited document has more than %d bytes: divide it, or use fewer aliases", workv1alpha1.MaxManifestBytes)
	errCycle   = errors.New("an anchor of the YAML document contains itself")
)

// budget is what is left for the edits of one object for one cluster.
type budget struct {
	steps, bytes int
	// changes is whether the present edit changed something, and idle are the first edits of the present rule that did not.
	changes bool
	idle    []string
}

// maxIdle is how many edits without effect are named.
const maxIdle = 5

// finish ends an edit, which is the index-th of an overrider.
func (b *budget) finish(overrider string, index int) {
	if !b.changes && len(b.idle) < maxIdle {
		b.idle = append(b.idle, fmt.Sprintf("%s[%d]", overrider, index))
	}
	b.changes = false
}

func newBudget() *budget { return &budget{steps: bounds.MaxSteps, bytes: bounds.MaxWrittenBytes} }

// step takes steps off. They are taken before they are made, where their number is known by then.
func (b *budget) step(n int) error {
	if b.steps -= n; b.steps < 0 {
		return errSteps
	}
	return nil
}

// write takes bytes of values that are written into the object off, and the steps for them.
func (b *budget) write(n int) error {
	if b.bytes -= n; b.bytes < 0 {
		return errWritten
	}
	return b.step(n)
}

// valuesIn is how many values a value of JSON has, itself included.
func valuesIn(value any) int {
	n := 1
	switch value := value.(type) {
	case map[string]any:
		for _, entry := range value {
			n += valuesIn(entry)
		}
	case []any:
		for _, entry := range value {
			n += valuesIn(entry)
		}
	}
	return n
}

// checkValues refuses text of YAML or JSON that may have more values than bounds.MaxYAMLValues: none begins without one of these characters before it.
func checkValues(text string) error {
	n := 1
	for _, mark := range []string{"\n", ",", ":", "[", "{", "-", "?"} {
		n += strings.Count(text, mark)
	}
	if n > bounds.MaxYAMLValues {
		return errValues
	}
	return nil
}

// limited is a document that is being written.
type limited struct{ strings.Builder }

// Write implements io.Writer.
func (b *limited) Write(part []byte) (int, error) {
	if b.Len()+len(part) > workv1alpha1.MaxManifestBytes {
		return 0, errLarge
	}
	return b.Builder.Write(part)
}
