package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

func TestParallelRunsEveryStepOnceOrReportsTheFailure(t *testing.T) {
	var ran [100]atomic.Int32
	var at, most atomic.Int32
	err := Parallel(t.Context(), 4, len(ran), func(_ context.Context, i int) error {
		ran[i].Add(1)
		if n := at.Add(1); n > most.Load() {
			most.Store(n)
		}
		at.Add(-1)
		return nil
	})
	if err != nil || most.Load() > 4 {
		t.Errorf("%d writers at once, %v; want 4 at most", most.Load(), err)
	}
	for i := range ran {
		if n := ran[i].Load(); n != 1 {
			t.Errorf("step %d ran %d times", i, n)
		}
	}
	failure := errors.New("refused")
	err = Parallel(t.Context(), 2, 10, func(_ context.Context, i int) error {
		if i == 3 {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) {
		t.Errorf("a failed step gives %v", err)
	}
}

func TestQuantile(t *testing.T) {
	sample := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.95: 5, 1: 5} {
		if got := quantile(sample, q); got != want {
			t.Errorf("the quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("the median of nothing is %v", got)
	}
	if sample[0] != 5 {
		t.Error("the sample was sorted in place")
	}
}

func TestResultsOfBothKindsAreOneArray(t *testing.T) {
	var table, text bytes.Buffer
	o := Options{Out: &table, JSON: &text}
	err := o.print([]Result{{Name: "(a)", InMembers: 1.25, CPUPerObject: 0.0034, Writes: map[string]float64{"update works": 0.4, "create works": 1}}}, []ClaimResult{{}})
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(text.Bytes(), &rows); err != nil || len(rows) != 2 {
		t.Errorf("%d results were written, %v:\n%s", len(rows), err, &text)
	}
	for _, want := range []string{"1.2 s", "3 ms"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &table)
		}
	}
	if strings.Index(table.String(), "create works") > strings.Index(table.String(), "update works") {
		t.Errorf("the largest number of writes is not first:\n%s", &table)
	}
}
