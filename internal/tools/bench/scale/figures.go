package scale

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

// report collects figures, and prints each step as soon as it is done.
type report struct {
	figures []Figure
	rows    []row
	log     io.Writer
}

// row is a line of the table: a figure, or all quantiles of a sample.
type row struct{ step, name, text string }

func (r *report) add(step, name string, value float64, unit string) {
	r.figures = append(r.figures, Figure{step, name, value, unit})
	r.row(step, name, number(value)+" "+unit)
}

func (r *report) row(step, name, text string) {
	r.rows = append(r.rows, row{step, name, text})
	fmt.Fprintf(r.log, "    %-60s %s\n", name, text)
}

// distribution adds a sample in seconds in the form in which KubeFleet reports placements.
func (r *report) distribution(step, name string, sample []float64) {
	var texts []string
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", .5}, {"p90", .9}, {"p95", .95}, {"max", 1}} {
		value := quantile(sample, q.at)
		r.figures = append(r.figures, Figure{step, name + " " + q.name, value, "s"})
		texts = append(texts, q.name+" "+number(value))
	}
	r.row(step, name, strings.Join(texts, ", ")+" s")
}

// quantile is the nearest-rank quantile of a sample.
func quantile(sample []float64, q float64) float64 {
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

// print writes all figures as a table to out, and as JSON to file. Either may be nil.
func (r *report) print(out, file io.Writer) error {
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
