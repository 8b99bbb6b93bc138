package explain

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// width is how wide an answer is printed.
const width = 110

// tree prints an answer with the steps about each cluster below that cluster.
func tree(status *fleetv1alpha1.ExplanationStatus, now time.Time) string {
	var b strings.Builder
	if status.Object != nil {
		fmt.Fprintln(&b, named(status.Object))
	}
	fmt.Fprintln(&b, wrap(status.Summary, ""))
	var clusters []string
	for _, step := range status.Steps {
		if step.Cluster == "" {
			write(&b, step, "", now)
		} else if !slices.Contains(clusters, step.Cluster) {
			clusters = append(clusters, step.Cluster)
		}
	}
	for _, cluster := range clusters {
		fmt.Fprintln(&b, "cluster "+cluster)
		for _, step := range status.Steps {
			if step.Cluster == cluster {
				write(&b, step, "  ", now)
			}
		}
	}
	if n := status.OmittedClusters; n > 0 {
		fmt.Fprintf(&b, "and %d more clusters: name one with --cluster\n", n)
	}
	for i := range status.Instead {
		fmt.Fprintln(&b, "  there is "+named(&status.Instead[i]))
	}
	return b.String()
}

var marks = map[fleetv1alpha1.ExplanationOutcome]string{
	fleetv1alpha1.OutcomeDone: "ok", fleetv1alpha1.OutcomeDropped: "no", fleetv1alpha1.OutcomeWaiting: "wait", fleetv1alpha1.OutcomeFailed: "FAIL",
	fleetv1alpha1.OutcomeHidden: "hidden",
}

// write prints one step.
func write(b *strings.Builder, step fleetv1alpha1.ExplanationStep, indent string, now time.Time) {
	prefix := fmt.Sprintf("%s%-6s  %-10s  ", indent, marks[step.Outcome], strings.ToLower(string(step.Stage)))
	below := strings.Repeat(" ", len(prefix))
	fmt.Fprintln(b, strings.TrimRight(prefix+wrap(describe(step, now), below), " "))
	for _, remedy := range step.Remedies {
		fmt.Fprintln(b, below+wrap("to let it in: "+remedy, below))
	}
	for _, edit := range step.Fields {
		line := edit.Path
		if edit.From != "" || edit.To != "" {
			line += ": " + orNothing(edit.From) + " → " + orNothing(edit.To)
		}
		fmt.Fprintln(b, below+wrap(line, below))
	}
}

// describe is a step without its stage and outcome, on one line.
func describe(step fleetv1alpha1.ExplanationStep, now time.Time) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if step.Stage != fleetv1alpha1.StageTemplate {
		add(named(step.Object))
	}
	message := step.Message
	if step.Reason != "" && !strings.HasPrefix(message, step.Reason) {
		message = strings.TrimSuffix(step.Reason+": "+message, ": ")
	}
	add(message)
	var counts []string
	if step.Replicas != nil && step.Stage == fleetv1alpha1.StageCluster {
		counts = append(counts, countOf(*step.Replicas))
	}
	if step.Available != nil {
		counts = append(counts, fmt.Sprintf("%d more fit", *step.Available))
	}
	for _, score := range step.Scores {
		counts = append(counts, fmt.Sprintf("%s %d", score.Scorer, score.Points))
	}
	add(strings.Join(counts, ", "))
	line := strings.Join(parts, "; ")
	var by []string
	if step.Actor != "" {
		by = append(by, step.Actor)
	}
	if step.Time != nil {
		by = append(by, duration.HumanDuration(now.Sub(step.Time.Time))+" ago")
	}
	if step.NextTry != nil {
		by = append(by, "next try in "+duration.HumanDuration(max(step.NextTry.Sub(now), 0)))
	}
	if len(by) > 0 {
		line = strings.TrimPrefix(line+" ("+strings.Join(by, ", ")+")", " ")
	}
	return line
}

func countOf(replicas int32) string {
	if replicas == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", replicas)
}

func orNothing(value string) string {
	if value == "" {
		return "nothing"
	}
	return value
}

// table prints an answer with one step on a line.
func table(status *fleetv1alpha1.ExplanationStatus, now time.Time) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "STAGE\tCLUSTER\tOUTCOME\tDETAILS")
	for _, step := range status.Steps {
		details := []rune(describe(step, now))
		if len(details) > width-40 {
			details = append(details[:width-41], '…')
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", step.Stage, orDash(step.Cluster), step.Outcome, string(details))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// wrap breaks a text into lines that are not wider than the width, the further ones indented.
func wrap(text, indent string) string {
	var b strings.Builder
	used := len(indent)
	for i, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case i == 0:
			used += n
		case used+1+n > width:
			b.WriteString("\n" + indent)
			used = len(indent) + n
		default:
			b.WriteByte(' ')
			used += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}
