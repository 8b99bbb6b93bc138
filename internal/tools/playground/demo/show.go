package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// screen shows journeys as they go on: as one table drawn over itself, or as a line for each change.
type screen struct {
	out     io.Writer
	redraw  bool
	drawn   string          // what the table shows
	printed map[string]bool // lines printed, without redraw
}

func (s *screen) show(journeys []journey) {
	if !s.redraw {
		s.tell(journeys)
		return
	}
	table := table(journeys)
	if table == s.drawn {
		return
	}
	var up string
	if n := strings.Count(s.drawn, "\n"); n > 0 {
		up = fmt.Sprintf("\x1b[%dA\x1b[J", n) // up n lines, clear to the end
	}
	s.drawn = table
	_, _ = io.WriteString(s.out, up+table)
}

// tell prints what has not been said before.
func (s *screen) tell(journeys []journey) {
	if s.printed == nil {
		s.printed = map[string]bool{}
	}
	for _, j := range journeys {
		for _, line := range lines(j) {
			if !s.printed[line] {
				s.printed[line] = true
				_, _ = fmt.Fprintln(s.out, line)
			}
		}
	}
}

func table(journeys []journey) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "TEMPLATE\tCLUSTER\tREPLICAS\tAPPLIED\tREADY")
	for _, j := range journeys {
		name := j.name
		if len(j.stops) == 0 {
			fmt.Fprintf(w, "%s\t-\t-\t-\t-\n", name)
		}
		for _, s := range j.stops {
			replicas, ready := "-", "-"
			if j.replicas != nil {
				replicas, ready = fmt.Sprint(s.replicas), fmt.Sprintf("%d/%d", s.ready, s.replicas)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", name, s.cluster, replicas, yes(s.applied), ready)
			name = ""
		}
		if j.replicas != nil {
			fmt.Fprintf(w, "\tall\t%d\t\t%d/%d\n", *j.replicas, *j.ready, *j.replicas)
		}
	}
	_ = w.Flush()
	return out.String()
}

func lines(j journey) []string {
	var out []string
	for _, s := range j.stops {
		switch {
		case !s.applied:
			out = append(out, fmt.Sprintf("%s → %s", j.name, s.cluster))
		case j.replicas == nil:
			out = append(out, fmt.Sprintf("%s → %s: applied", j.name, s.cluster))
		default:
			out = append(out, fmt.Sprintf("%s → %s: applied, %d/%d ready", j.name, s.cluster, s.ready, s.replicas))
		}
	}
	if j.ready != nil && *j.ready > 0 {
		out = append(out, fmt.Sprintf("%s: %d/%d ready", j.name, *j.ready, *j.replicas))
	}
	return out
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
