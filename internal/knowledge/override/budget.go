package override

import (
	"errors"
	"fmt"
	"strings"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// What the overriders of all policies may do to one object for one cluster. A policy has a place for thirty thousand edits and an object one for a
// hundred thousand values, so that edits which each pass over the object would take minutes of a processor for each cluster.
const (
	// maxSteps is in steps of about 50 ns: a value that is compared, or some bytes of a document that are parsed. A hundred edits of an object
	// of 100 kB take a hundredth of it.
	maxSteps = 1 << 24
	// maxWritten is in bytes of values that are written into the object.
	maxWritten = 2 * workv1alpha1.MaxManifestBytes
	// maxYAMLValues is how many values a YAML document may have: each takes 300 bytes of memory while the document is edited.
	maxYAMLValues = 400_000
)

// Errors of what exceeds these. They end with what to do.
var (
	errSteps   = fmt.Errorf("the edits of this object take more than %d steps: use fewer edits, or a smaller object", maxSteps)
	errWritten = fmt.Errorf("the edits write more than %d bytes into the object: write less", maxWritten)
	errValues  = fmt.Errorf("the YAML document has more than %d values: divide it", maxYAMLValues)
	errLarge   = fmt.Errorf("the edited document has more than %d bytes: divide it, or use fewer aliases", workv1alpha1.MaxManifestBytes)
	errCycle   = errors.New("an anchor of the YAML document contains itself")
)

// budget is what is left for the edits of one object for one cluster.
type budget struct{ steps, bytes int }

func newBudget() *budget { return &budget{steps: maxSteps, bytes: maxWritten} }

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

// checkValues refuses text of YAML or JSON that may have more values than maxYAMLValues: none begins without one of these characters before it.
func checkValues(text string) error {
	n := 1
	for _, mark := range []string{"\n", ",", ":", "[", "{", "-", "?"} {
		n += strings.Count(text, mark)
	}
	if n > maxYAMLValues {
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
