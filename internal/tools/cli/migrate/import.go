package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/migration"
)

// Commands are those of the package.
func Commands(s cli.Streams) []*cobra.Command { return []*cobra.Command{newImportCommand(s)} }

// options are the flags of an import.
type options struct {
	hub             cli.HubAccess
	from, context   string
	dryRun, cutOver bool
	accept          bool
	clusters        []string
	patience        time.Duration
	out             cli.Output
	source, target  *migration.ControlPlane
	targetConfig    *rest.Config
	clock           clock.WithTicker
}

func newImportCommand(s cli.Streams) *cobra.Command {
	o := options{clock: clock.RealClock{}}
	c := &cobra.Command{
		Use:   "import --from-kubeconfig FILE",
		Short: "Take over the clusters and objects of a Karmada control plane",
		Long: `Copies Clusters with their credentials, namespaces, definitions of kinds, templates, policies, override policies, interpreters and
bindings from another control plane that serves Karmada's API, while it goes on. Nothing is written to the clusters yet: their condition
DispatchingHeld is True. Then it compares, object by object, what both control planes write to each cluster. It can be run again, and
brings up to date what it copied before.

With --cut-over this control plane takes the clusters: the controllers and agents of the other one must be stopped first, and both must
write the same. No object in a cluster is changed, restarted or removed by that.`,
		Example: `  flagship import --from-kubeconfig karmada.kubeconfig --dry-run
  flagship import --from-kubeconfig karmada.kubeconfig
  flagship import --from-kubeconfig karmada.kubeconfig --cut-over`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			switch {
			case o.dryRun:
				return o.plan(cmd.Context(), s)
			case o.cutOver:
				return o.take(cmd.Context(), s)
			default:
				return o.copy(cmd.Context(), s)
			}
		},
	}
	o.hub.Flags(c)
	o.out.Flags(c)
	f := c.Flags()
	f.StringVar(&o.from, "from-kubeconfig", "", "kubeconfig of the other control plane, with all rights there")
	f.StringVar(&o.context, "from-context", "", "context in that kubeconfig (default: its current one)")
	f.BoolVar(&o.dryRun, "dry-run", false, "list what would be copied and what would not, and write nothing")
	f.BoolVar(&o.cutOver, "cut-over", false, "take the clusters, when the other control plane is stopped and nothing differs")
	f.StringSliceVar(&o.clusters, "cluster", nil, "with --cut-over: name of a cluster; may be given again (default: all that wait)")
	o.hub.CompleteFlag(c, "cluster")
	f.BoolVar(&o.accept, "accept-differences", false, "with --cut-over: go on although objects in clusters would change")
	f.DurationVar(&o.patience, "timeout", 5*time.Minute, "how long this control plane may take to render what was copied")
	return c
}

func (o *options) complete() error {
	if o.from == "" {
		return cli.UsageErrorf("--from-kubeconfig FILE is needed: the kubeconfig of the control plane to import")
	}
	if o.dryRun && o.cutOver {
		return cli.UsageErrorf("--dry-run and --cut-over exclude each other")
	}
	if !o.cutOver && (o.accept || len(o.clusters) > 0) {
		return cli.UsageErrorf("--accept-differences and --cluster are for --cut-over")
	}
	if err := o.out.Check(); err != nil {
		return err
	}
	access, err := membership.LoadAccess(o.from, o.context)
	if err != nil {
		return fmt.Errorf("finding the control plane to import: %w", err)
	}
	if o.source, err = migration.Connect(access.Config); err != nil {
		return err
	}
	if o.targetConfig, err = o.hub.Config(); err != nil {
		return err
	}
	if o.targetConfig.Host == access.Config.Host {
		return cli.UsageErrorf("both kubeconfigs lead to the same control plane, %s", access.Config.Host)
	}
	o.target, err = migration.Connect(o.targetConfig)
	return err
}

// report is what an import prints.
type report struct {
	Copied     *migration.Outcome    `json:"copied,omitempty"`
	Kinds      map[string]int        `json:"kinds"`
	Notes      []migration.Note      `json:"notes,omitempty"`
	Comparison *migration.Comparison `json:"comparison,omitempty"`
}

func (o *options) plan(ctx context.Context, s cli.Streams) error {
	p, err := migration.Read(ctx, o.source)
	if err != nil {
		return err
	}
	return o.print(s, report{Kinds: p.Counts(), Notes: p.Notes})
}

func (o *options) copy(ctx context.Context, s cli.Streams) error {
	p, err := migration.Read(ctx, o.source)
	if err != nil {
		return err
	}
	copier := &migration.Copier{
		Target: o.target, Held: "imported from " + o.source.Address + "; 'flagship import --cut-over' goes on",
		Pruned: interpret.Chain(builtin.New(o.clock)), Progress: func(line string) { fmt.Fprintln(s.Err, line) },
	}
	outcome, err := copier.Copy(ctx, p)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "comparing what both control planes write to clusters")
	comparison, err := migration.Settled(ctx, o.source, o.target, o.patience)
	if err != nil {
		return err
	}
	if err := o.print(s, report{Copied: outcome, Kinds: p.Counts(), Notes: p.Notes, Comparison: comparison}); err != nil {
		return err
	}
	switch {
	case len(outcome.Refused) > 0:
		return fmt.Errorf("%d objects were not copied; correct them and run the command again", len(outcome.Refused))
	case len(comparison.Differences) > 0:
		return fmt.Errorf("%d objects in clusters would change; see 'flagship explain' for each, and run the command again", len(comparison.Differences))
	}
	fmt.Fprintln(s.Err, "Nothing would change. Stop the controllers and agents of the other control plane, and run the command with --cut-over.")
	return nil
}

func (o *options) take(ctx context.Context, s cli.Streams) error {
	running, err := migration.Running(ctx, o.source, o.clock)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("the other control plane may still write to clusters: %s; stop its controllers and agents, such as with "+
			"'kubectl -n karmada-system scale deployment karmada-controller-manager karmada-scheduler --replicas 0', and run the command again",
			strings.Join(running, "; "))
	}
	comparison, err := migration.Settled(ctx, o.source, o.target, o.patience)
	if err != nil {
		return err
	}
	if len(comparison.Differences) > 0 && !o.accept {
		if err := o.print(s, report{Comparison: comparison}); err != nil {
			return err
		}
		return fmt.Errorf("%d objects in clusters would change. Import again, or accept them with --accept-differences", len(comparison.Differences))
	}
	resumed, err := membership.ResumeDispatching(ctx, o.targetConfig, o.clusters, o.clock.Now())
	for _, cluster := range resumed {
		fmt.Fprintf(s.Out, "cluster %s is taken over\n", cluster)
	}
	return err
}

// maxLines bounds the differences in a table; -o json has all.
const maxLines = 50

func (o *options) print(s cli.Streams, r report) error {
	var rows [][]string
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		rows = append(rows, []string{"copied", kind, fmt.Sprint(r.Kinds[kind]), ""})
	}
	for _, n := range r.Notes {
		names := strings.Join(n.Names, ", ")
		if n.Count > len(n.Names) {
			names += ", ..."
		}
		rows = append(rows, []string{"note", n.Kind, fmt.Sprint(n.Count), n.Reason + ": " + names})
	}
	if r.Copied != nil {
		for _, refused := range r.Copied.Refused {
			rows = append(rows, []string{"refused", "", "1", refused})
		}
	}
	if r.Comparison != nil {
		rows = append(rows, []string{"same", "objects in clusters", fmt.Sprint(r.Comparison.Same), ""})
		for i, d := range r.Comparison.Differences {
			if i == maxLines {
				rows = append(rows, []string{"...", "", fmt.Sprint(len(r.Comparison.Differences) - i), "more; -o json has all"})
				break
			}
			rows = append(rows, []string{strings.ToLower(string(d.Class)), d.Cluster, "1", strings.TrimSpace(d.Object + " " + strings.Join(d.Fields, ", "))})
		}
	}
	return o.out.Print(s, r, "WHAT KIND COUNT DETAIL", rows)
}
