package preview

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// width is how wide a table is at most.
const width = 80

// diff prints an answer, with a line for each field as it is and one as it will be.
func diff(status *fleetv1alpha1.PreviewStatus) string {
	var b strings.Builder
	fmt.Fprintln(&b, status.Summary)
	for _, r := range status.Refused {
		fmt.Fprintf(&b, "refused  %s: %s\n", named(&r.Object), r.Message)
	}
	for _, o := range status.Objects {
		if o.Action == fleetv1alpha1.PreviewNone {
			continue
		}
		fmt.Fprintf(&b, "%-7s  %s\n", strings.ToLower(string(o.Action)), named(&o.Object))
		fields(&b, o.Fields)
	}
	for _, c := range status.Taints {
		fmt.Fprintf(&b, "taint    Cluster %s\n", c.Cluster)
		for _, taint := range c.Removed {
			fmt.Fprintf(&b, "  - %s\n", taint)
		}
		for _, taint := range c.Added {
			fmt.Fprintf(&b, "  + %s\n", taint)
		}
	}
	for _, p := range status.Policies {
		fmt.Fprintf(&b, "policy   %s: %s → %s\n", named(&p.Object), policyOrNone(p.From), policyOrNone(p.To))
	}
	for _, p := range status.Placements {
		fmt.Fprintf(&b, "place    %s\n", named(&p.Object))
		for i := range p.Clusters {
			fmt.Fprintf(&b, "  %s: %s\n", p.Clusters[i].Name, move(&p.Clusters[i]))
		}
		if p.Message != "" {
			fmt.Fprintf(&b, "  not all of it has a place: %s\n", p.Message)
		}
	}
	for i := range status.Copies {
		c := &status.Copies[i]
		fmt.Fprintf(&b, "%-7s  %s in %s%s\n", strings.ToLower(string(c.Action)), named(&c.Object), strings.Join(c.Clusters, ", "), later(c.AfterSeconds))
		if c.Message != "" {
			fmt.Fprintln(&b, "  "+c.Message)
		}
		fields(&b, c.Fields)
		if len(c.Member) > 0 {
			fmt.Fprintln(&b, "  by a dry run there:")
			fields(&b, c.Member)
		}
	}
	for i := range status.Brakes {
		fmt.Fprintf(&b, "brake    %s: %s\n", status.Brakes[i].Cluster, status.Brakes[i].Message)
	}
	for _, w := range status.Warnings {
		fmt.Fprintf(&b, "warning  %s\n", w)
	}
	if status.Omitted > 0 {
		fmt.Fprintf(&b, "and %d more\n", status.Omitted)
	}
	return b.String()
}

// fields prints what changes. What names the object is known.
func fields(b *strings.Builder, edits []fleetv1alpha1.FieldEdit) {
	for _, e := range edits {
		if e.From == "" && slices.Contains([]string{"/apiVersion", "/kind"}, e.Path) {
			continue
		}
		if e.From != "" {
			fmt.Fprintf(b, "  - %s: %s\n", e.Path, e.From)
		}
		if e.To != "" {
			fmt.Fprintf(b, "  + %s: %s\n", e.Path, e.To)
		}
	}
}

// move is what changes in a cluster for an object.
func move(c *fleetv1alpha1.PreviewCluster) string {
	text, when := "", later(c.AfterSeconds)
	switch {
	case c.From == nil && c.To == nil:
		text = "stays until the copies elsewhere are healthy" + when
	case c.From == nil:
		text = "comes" + replicas(*c.To) + when
	case c.To == nil && c.Eviction != "":
		text = "leaves" + when + " when the copies elsewhere are healthy"
	case c.To == nil:
		text = "leaves" + when
	default:
		text = fmt.Sprintf("%d → %d replicas%s", *c.From, *c.To, when)
	}
	if c.Eviction != "" {
		text += " (evicted: " + c.Eviction + ")"
	}
	return text
}

// later is when something happens that does not happen at once. Part of the time has passed when the answer is there: minutes are without
// single seconds.
func later(seconds int64) string {
	if seconds == 0 {
		return ""
	}
	after := time.Duration(seconds) * time.Second
	switch {
	case after > 10*time.Minute:
		after = after.Round(time.Minute)
	case after > time.Minute:
		after = after.Round(5 * time.Second)
	}
	return " in " + duration.HumanDuration(after)
}

func replicas(n int32) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " with 1 replica"
	}
	return fmt.Sprintf(" with %d replicas", n)
}

func policyOrNone(p *fleetv1alpha1.ObjectIdentity) string {
	if p == nil {
		return "none"
	}
	return named(p)
}

// named is an object as kubectl names it.
func named(o *fleetv1alpha1.ObjectIdentity) string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// table prints an answer with one line for each change.
func table(status *fleetv1alpha1.PreviewStatus) string {
	var rows [][3]string
	add := func(change, object, details string) { rows = append(rows, [3]string{change, object, details}) }
	for _, r := range status.Refused {
		add("Refused", named(&r.Object), r.Message)
	}
	for _, o := range status.Objects {
		if o.Action != fleetv1alpha1.PreviewNone {
			add(string(o.Action), named(&o.Object), count(len(o.Fields)))
		}
	}
	for _, c := range status.Taints {
		for _, taint := range c.Removed {
			add("Taint", "Cluster "+c.Cluster, "- "+taint)
		}
		for _, taint := range c.Added {
			add("Taint", "Cluster "+c.Cluster, "+ "+taint)
		}
	}
	for _, p := range status.Policies {
		add("Policy", named(&p.Object), policyOrNone(p.From)+" → "+policyOrNone(p.To))
	}
	for _, p := range status.Placements {
		for i := range p.Clusters {
			add("Place", named(&p.Object), p.Clusters[i].Name+": "+move(&p.Clusters[i]))
		}
		if p.Message != "" {
			add("Place", named(&p.Object), p.Message)
		}
	}
	for i := range status.Copies {
		c := &status.Copies[i]
		add(string(c.Action), named(&c.Object), strings.Join(c.Clusters, ",")+" "+count(len(c.Fields)+len(c.Member))+later(c.AfterSeconds))
	}
	for i := range status.Brakes {
		add("Brake", "Cluster "+status.Brakes[i].Cluster, status.Brakes[i].Message)
	}
	for _, w := range status.Warnings {
		add("Warning", "-", w)
	}
	if len(rows) == 0 {
		return status.Summary + "\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "CHANGE\tOBJECT\tDETAILS")
	for _, row := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", row[0], cut(row[1], 36), row[2])
	}
	_ = w.Flush() // a strings.Builder takes everything
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(cut(lines[i], width), " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func count(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

func cut(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
