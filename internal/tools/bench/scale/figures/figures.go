// Package figures collects what a bench measures, and prints it as a table or as JSON.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Figure is one result of a step.
type Figure struct {
	Step  string  `json:"step"`
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Report collects figures, and prints each step as soon as it is done.
type Report struct {
	figures []Figure
	rows    []row
	// Progress receives each figure at once.
	Progress io.Writer
}

// row is a line of the table: a figure, or all quantiles of a sample.
type row struct{ step, name, text string }

// Add adds one figure of a step.
func (r *Report) Add(step, name string, value float64, unit string) {
	r.figures = append(r.figures, Figure{step, name, value, unit})
	r.row(step, name, number(value)+" "+unit)
}

func (r *Report) row(step, name, text string) {
	r.rows = append(r.rows, row{step, name, text})
	fmt.Fprintf(r.Progress, "    %-60s %s\n", name, text)
}

// Distribution adds a sample in seconds in the form in which KubeFleet reports placements.
func (r *Report) Distribution(step, name string, sample []float64) {
	var texts []string
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", .5}, {"p90", .9}, {"p95", .95}, {"max", 1}} {
		value := Quantile(sample, q.at)
		r.figures = append(r.figures, Figure{step, name + " " + q.name, value, "s"})
		texts = append(texts, q.name+" "+number(value))
	}
	r.row(step, name, strings.Join(texts, ", ")+" s")
}

// Quantile is the nearest-rank quantile of a sample.
func Quantile(sample []float64, q float64) float64 {
	if len(sample) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func number(v float64) string {
	switch {
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) < 1:
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// Print writes all figures as a table to out, and as JSON to file. Either may be nil.
func (r *Report) Print(out, file io.Writer) error {
	if out == nil {
		out = io.Discard
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tFIGURE\tVALUE")
	for _, row := range r.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row.step, row.name, row.text)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the figures: %w", err)
	}
	if file == nil {
		return nil
	}
	encoder := json.NewEncoder(file)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(slices.DeleteFunc(slices.Clone(r.figures), func(f Figure) bool { return math.IsNaN(f.Value) })); err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}
