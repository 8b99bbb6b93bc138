package figures

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	sample := []float64{5, 1, 4, 2, 3, 6, 7, 8, 9, 10}
	for q, want := range map[float64]float64{0: 1, .5: 5, .9: 9, .95: 10, 1: 10} {
		if got := Quantile(sample, q); got != want {
			t.Errorf("the quantile %v is %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(Quantile(nil, .5)) {
		t.Error("the median of nothing is a number")
	}
}

func TestFiguresAreATableAndJSON(t *testing.T) {
	var log, table, file bytes.Buffer
	r := Report{Progress: &log}
	r.Add("join", "CPU", 0.1234, "s")
	r.Distribution("place", "placement", []float64{1, 2.25, 3})
	r.Distribution("hang", "nothing", nil)
	if err := r.Print(&table, &file); err != nil {
		t.Fatal(err)
	}
	if text := table.String(); !strings.Contains(text, "0.123 s") || !strings.Contains(text, "p50 2.2, p90 3, p95 3, max 3 s") {
		t.Errorf("the table is\n%s", text)
	}
	var figures []Figure
	if err := json.Unmarshal(file.Bytes(), &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures) != 5 || figures[1] != (Figure{"place", "placement p50", 2.25, "s"}) {
		t.Errorf("the figures are %v, want those that are numbers", figures)
	}
	if !strings.Contains(log.String(), "max 3 s") {
		t.Errorf("the progress is\n%s", log.String())
	}
}
