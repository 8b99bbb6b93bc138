package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// A report has the slowest tests and packages, and each that takes longer than long.
const (
	slowest = 10
	long    = 30 * time.Second
)

// event is a line of the output of go test -json: https://pkg.go.dev/cmd/test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// outcome is how a test or a package ended.
type outcome struct {
	pkg, test string
	elapsed   time.Duration
	// cpu is the processor time of the package's tests and of all processes they waited for; 0 if it was not measured.
	cpu time.Duration
}

// skip is a test that did not run.
type skip struct{ name, reason string }

// report collects the events of all tests. Its methods may be called at the same time.
type report struct {
	mu  sync.Mutex
	out io.Writer
	err error
	// printed is what a test that has not ended printed, by its package and its name before the first slash.
	printed         map[[2]string]*bytes.Buffer
	tests, packages []outcome
	skipped         []skip
	failures        int
	// cpu is the processor time of all.
	cpu time.Duration
}

func newReport(out io.Writer) *report {
	return &report{out: out, printed: map[[2]string]*bytes.Buffer{}}
}

// say prints a line.
func (r *report) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line(format, args...)
}

func (r *report) line(format string, args ...any) {
	if _, err := fmt.Fprintf(r.out, format+"\n", args...); err != nil && r.err == nil {
		r.err = fmt.Errorf("printing the report: %w", err)
	}
}

func (r *report) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures > 0
}

// used adds the processor time of a package.
func (r *report) used(pkg string, cpu time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cpu += cpu
	for i := range r.packages {
		if r.packages[i].pkg == pkg {
			r.packages[i].cpu = cpu
		}
	}
}

// usedTogether adds the processor time of packages that ran with one go test, compilers among it.
func (r *report) usedTogether(cpu time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cpu += cpu
}

// read takes the events of a command until it ends. What is no event is printed: go prints such lines when it cannot compile.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.add(e)
			} else {
				r.say("%s", bytes.TrimRight(line, "\n"))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of tests: %w", err)
		}
	}
}

func (r *report) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	top, _, _ := strings.Cut(e.Test, "/")
	key := [2]string{e.Package, top}
	elapsed := time.Duration(e.Elapsed * float64(time.Second))
	switch e.Action {
	case "output":
		if r.printed[key] == nil {
			r.printed[key] = &bytes.Buffer{}
		}
		r.printed[key].WriteString(e.Output)
	case "build-output":
		r.line("%s", strings.TrimRight(e.Output, "\n"))
	case "skip":
		if e.Test != "" {
			r.skipped = append(r.skipped, skip{e.Test, reason(r.printed[key])})
		}
		r.ended(e, key, elapsed)
	case "pass", "fail":
		r.ended(e, key, elapsed)
	}
}

// ended handles the end of a test or, if the event has no test, of a package. What a test printed is of interest if it failed.
func (r *report) ended(e event, key [2]string, elapsed time.Duration) {
	if strings.Contains(e.Test, "/") {
		return
	}
	if e.Test != "" {
		r.tests = append(r.tests, outcome{pkg: e.Package, test: e.Test, elapsed: elapsed})
		if e.Action == "fail" {
			r.failures++
			r.line("%s", bytes.TrimRight(r.printed[key].Bytes(), "\n"))
		}
		delete(r.printed, key)
		return
	}
	mark := map[string]string{"pass": "ok  ", "skip": "?   ", "fail": "FAIL"}[e.Action]
	if e.Action == "fail" {
		r.failures++
		r.unfinished(e.Package)
	}
	if e.Action != "skip" {
		r.packages = append(r.packages, outcome{pkg: e.Package, elapsed: elapsed})
		r.line("%s\t%s\t%.3fs", mark, e.Package, e.Elapsed)
	}
}

// unfinished prints what a package that failed printed outside its tests, and that of tests that have not ended: a panic, a timeout.
func (r *report) unfinished(pkg string) {
	for key, text := range r.printed {
		if key[0] == pkg {
			r.line("%s", bytes.TrimRight(text.Bytes(), "\n"))
			delete(r.printed, key)
		}
	}
}

// reason is the message of a skipped test: the last line it printed that is not one of the testing package.
func reason(printed *bytes.Buffer) string {
	last := "no reason"
	if printed == nil {
		return last
	}
	for line := range strings.Lines(printed.String()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		if _, message, ok := strings.Cut(line, ".go:"); ok { // file.go:12: message
			if _, message, ok = strings.Cut(message, ": "); ok {
				line = message
			}
		}
		last = line
	}
	return last
}

// print writes the summary. Its error is the first of all that were printed.
func (r *report) print(elapsed time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line("\nslowest packages, and all above %s (s, s of processor time)", long)
	for _, o := range top(r.packages) {
		r.line("%8.1f %8.1f  %s", o.elapsed.Seconds(), o.cpu.Seconds(), strings.TrimPrefix(o.pkg, module+"/"))
	}
	r.line("\nslowest tests, and all above %s (s)", long)
	for _, o := range top(r.tests) {
		r.line("%8.1f  %s %s", o.elapsed.Seconds(), strings.TrimPrefix(o.pkg, module+"/"), o.test)
	}
	if len(r.skipped) > 0 {
		r.line("\nskipped")
		for _, group := range byReason(r.skipped) {
			r.line("%8d  %s: %s", len(group), group[0].reason, firstNames(group))
		}
	}
	r.line("\n%d tests of %d packages in %s, %s of processor time, %d skipped, %d failures",
		len(r.tests), len(r.packages), elapsed.Round(time.Second), r.cpu.Round(time.Second), len(r.skipped), r.failures)
	return r.err
}

// top are the outcomes that took longest: ten, and all above long.
func top(all []outcome) []outcome {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b outcome) int { return int(b.elapsed - a.elapsed) })
	shown := min(len(sorted), slowest)
	for shown < len(sorted) && sorted[shown].elapsed > long {
		shown++
	}
	return sorted[:shown]
}

// byReason groups skips, in the order in which a reason came first.
func byReason(skipped []skip) [][]skip {
	var groups [][]skip
	at := map[string]int{}
	for _, s := range skipped {
		i, ok := at[s.reason]
		if !ok {
			i = len(groups)
			at[s.reason], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// firstNames are the names of some skipped tests, which fit a line.
func firstNames(skipped []skip) string {
	const shown = 3
	names := make([]string, 0, shown)
	for _, s := range skipped[:min(len(skipped), shown)] {
		names = append(names, s.name)
	}
	if len(skipped) > shown {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
