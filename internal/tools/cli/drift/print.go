package drift

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// width is how wide a line of a table is at most.
const width = 110

var outcomes = map[fleetv1alpha1.DriftOutcome]string{
	fleetv1alpha1.DriftPutBack: "put back", fleetv1alpha1.DriftLeft: "left", fleetv1alpha1.DriftReported: "reported", fleetv1alpha1.DriftPaused: "paused",
	fleetv1alpha1.DriftCreatedAgain: "created again",
}

// table prints an object and below it its fields, each on a line or two.
func table(status *fleetv1alpha1.DriftReportStatus, now time.Time) string {
	var b strings.Builder
	for i := range status.Objects {
		object(&b, &status.Objects[i], now)
	}
	if len(status.Objects) == 0 {
		fmt.Fprintln(&b, "Nothing that you may get differs or was put back within the last hour.")
	}
	if n := status.OmittedObjects; n > 0 {
		fmt.Fprintf(&b, "and %d more objects: name a namespace, a type or a cluster\n", n)
	}
	for _, c := range status.Unanswered {
		fmt.Fprintln(&b, clipped(fmt.Sprintf("%s is not known: %s", c.Name, c.Message)))
	}
	return b.String()
}

func object(b *strings.Builder, o *fleetv1alpha1.DriftedObject, now time.Time) {
	head := fmt.Sprintf("%s  %s %s  since %s", o.Cluster, o.Object.Kind, strings.TrimPrefix(o.Object.Namespace+"/"+o.Object.Name, "/"), ago(o.Since.Time, now))
	if o.Mode != "" {
		head += "  policy: " + o.Mode
	}
	fmt.Fprintln(b, clipped(head))
	for _, field := range o.Fields {
		if field.Outcome == fleetv1alpha1.DriftCreatedAgain {
			fmt.Fprintln(b, clipped(fmt.Sprintf("  %s  %s, after others deleted it", outcomes[field.Outcome], ago(cmp.Or(field.Time, &o.Last).Time, now))))
			continue
		}
		by := "by " + cmp.Or(field.Manager, "an unknown manager")
		if field.Time != nil {
			by += " " + ago(field.Time.Time, now)
		}
		fmt.Fprintln(b, clipped(fmt.Sprintf("  %-8s  %s  %s", outcomes[field.Outcome], field.Path, by)))
		if o.ValuesHidden == "" {
			fmt.Fprintln(b, clipped(fmt.Sprintf("            wanted %s, found %s", orNothing(field.Wanted), orNothing(field.Found))))
		}
	}
	if o.OmittedFields > 0 {
		fmt.Fprintf(b, "  and %d more fields\n", o.OmittedFields)
	}
	if o.ValuesHidden != "" {
		fmt.Fprintln(b, clipped("  "+o.ValuesHidden))
	}
	if o.PutBack > 1 {
		times := make([]string, 0, len(o.Recent))
		for _, r := range o.Recent {
			times = append(times, ago(r.Time.Time, now))
		}
		fmt.Fprintln(b, clipped(fmt.Sprintf("  put back %d times; lately %s", o.PutBack, strings.Join(times, ", "))))
	}
}

func ago(at, now time.Time) string { return duration.HumanDuration(max(now.Sub(at), 0)) + " ago" }

func orNothing(value string) string { return cmp.Or(value, "nothing") }

// clipped ends a line that is too wide. Whoever writes in a member chooses names and values: none of them controls a terminal.
func clipped(line string) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, line))
	if len(runes) <= width {
		return string(runes)
	}
	return string(runes[:width-1]) + "…"
}
