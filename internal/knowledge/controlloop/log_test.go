package controlloop

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// A reconcile that fails is in the log at the first failure and then at each doubling, so that one that fails for an hour is never silent for
// longer than it has failed before.
func TestLogFailure(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		expected  bool
		verbosity int
		logged    []int
		stack     bool
	}{
		"AFailure":                  {err: errors.New("no space left"), logged: []int{1, 2, 4, 8, 16}},
		"APanic":                    {err: &PanicError{Stack: []byte("goroutine 7")}, logged: []int{1, 2, 4, 8, 16}, stack: true},
		"AnExpectedFailure":         {err: errors.New("not connected"), expected: true},
		"EachAtVerbosity1":          {err: errors.New("no space left"), verbosity: 1, logged: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
		"AnExpectedOneAtVerbosity1": {err: errors.New("not connected"), expected: true, verbosity: 1, logged: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: c.verbosity})
			var logged []int
			for failures := 1; failures <= 20; failures++ {
				before := len(lines)
				LogFailure(logger, c.err, failures, c.expected)
				if len(lines) > before {
					logged = append(logged, failures)
				}
			}
			if !slices.Equal(logged, c.logged) {
				t.Errorf("logged at failures %v, want %v", logged, c.logged)
			}
			for _, line := range lines {
				if !strings.Contains(line, c.err.Error()) || strings.Contains(line, "goroutine 7") != c.stack {
					t.Errorf("the line is %s", line)
				}
			}
		})
	}
}
