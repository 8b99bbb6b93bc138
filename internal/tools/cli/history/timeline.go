package history

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

type timelineOptions struct {
	hub           cli.HubAccess
	namespace     string
	allNamespaces bool
	since         time.Duration
	out           cli.Output
}

func newTimelineCommand(s cli.Streams) *cobra.Command {
	var o timelineOptions
	c := &cobra.Command{
		Use:   "timeline",
		Short: "Show what changed, moved or was deleted lately, why, and on whose request",
		Long: `Shows the revisions and deletions of templates and the events about where they go, by time: what changed, what moved, why, and on
whose request. It has what you may get.`,
		Example: `  flagship timeline -n shop
  flagship timeline -A --since 10m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.out.Check(); err != nil {
				return err
			}
			if o.since < time.Second {
				return cli.UsageErrorf("--since %s is less than a second", o.since)
			}
			return o.run(cmd.Context(), s)
		},
	}
	o.hub.Flags(c)
	o.out.Flags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the objects")
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "objects of all namespaces, and cluster-scoped ones")
	c.Flags().DurationVar(&o.since, "since", time.Hour, "how far back to begin")
	return c
}

func (o *timelineOptions) run(ctx context.Context, s cli.Streams) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	question := &fleetv1alpha1.Timeline{
		TypeMeta: metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: fleetv1alpha1.KindTimeline},
		Spec:     fleetv1alpha1.TimelineSpec{Namespace: o.namespace, SinceSeconds: int64(o.since / time.Second)},
	}
	if o.allNamespaces {
		question.Spec.Namespace = ""
	}
	if err := cli.Ask(ctx, cfg, fleetv1alpha1.ResourcePluralTimeline, question); err != nil {
		return err
	}
	rows := make([][]string, 0, len(question.Status.Entries))
	for _, e := range question.Status.Entries {
		rows = append(rows, entryRow(e, o.allNamespaces))
	}
	if err := o.out.Print(s, question, "TIME OBJECT BY WHAT", rows); err != nil {
		return err
	}
	if question.Status.Truncated {
		fmt.Fprintln(s.Err, "older entries are left out: shorten --since, or name a namespace")
	}
	return nil
}

// widest is how many characters of a message a row has.
const widest = 100

func entryRow(e fleetv1alpha1.TimelineEntry, withNamespace bool) []string {
	name := strings.ToLower(e.Object.Kind) + "/" + e.Object.Name
	if withNamespace && e.Object.Namespace != "" {
		name = e.Object.Namespace + " " + name
	}
	what := e.Message
	switch e.Source {
	case fleetv1alpha1.TimelineRevision:
		what = "revision " + e.Reason + ": " + what
	case fleetv1alpha1.TimelineEvent:
		what = e.Reason + ": " + what
	}
	what = strings.Join(strings.Fields(what), " ")
	if runes := []rune(what); len(runes) > widest {
		what = string(runes[:widest-1]) + "…"
	}
	return []string{e.Time.Local().Format("15:04:05"), name, by(e.User, e.Manager), what}
}
