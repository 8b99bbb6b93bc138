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
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newImportCommand(s), newExportCommand(s)}
}

// options are the flags of an import and of an export.
type options struct {
	hub             cli.HubAccess
	file, context   string // of the other control plane
	dryRun, cutOver bool
	accept          bool
	overwrite       bool
	clusters        []string
	patience        time.Duration
	out             cli.Output
	own, other      *migration.ControlPlane
	ownConfig       *rest.Config
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
			if err := o.complete("--from-kubeconfig"); err != nil {
				return err
			}
			return o.run(cmd.Context(), s, o.other, o.copy, o.take)
		},
	}
	o.flags(c, texts{
		prefix:    "from",
		overwrite: "replace objects of this control plane that have the same name, but no Clusters, and what was changed here after a cut-over",
		cutOver:   "take the clusters, when the other control plane is stopped and nothing differs",
		clusters:  "with --cut-over: name of a cluster; may be given again (default: all that wait)",
		timeout:   "how long this control plane may take to render what was copied",
	})
	return c
}

// texts are what differs in the flags of both commands.
type texts struct{ prefix, overwrite, cutOver, clusters, timeout string }

// flags adds those of both commands.
func (o *options) flags(c *cobra.Command, t texts) {
	o.hub.Flags(c)
	o.out.Flags(c)
	f := c.Flags()
	f.StringVar(&o.file, t.prefix+"-kubeconfig", "", "kubeconfig of the other control plane, with all rights there")
	f.StringVar(&o.context, t.prefix+"-context", "", "context in that kubeconfig (default: its current one)")
	f.BoolVar(&o.dryRun, "dry-run", false, "list what would be copied and what would not, and write nothing")
	f.BoolVar(&o.overwrite, "overwrite", false, t.overwrite)
	f.BoolVar(&o.cutOver, "cut-over", false, t.cutOver)
	f.BoolVar(&o.accept, "accept-differences", false, "with --cut-over: go on although objects in clusters would change")
	f.StringSliceVar(&o.clusters, "cluster", nil, t.clusters)
	o.hub.CompleteFlag(c, "cluster")
	f.DurationVar(&o.patience, "timeout", 5*time.Minute, t.timeout)
}

// run does what the flags select: it plans a copy of what source keeps, copies it, or cuts over.
func (o *options) run(ctx context.Context, s cli.Streams, source *migration.ControlPlane, duplicate, cutOver func(context.Context, cli.Streams) error) error {
	switch {
	case o.dryRun:
		return o.plan(ctx, s, source)
	case o.cutOver:
		return cutOver(ctx, s)
	default:
		return duplicate(ctx, s)
	}
}

// complete connects to both control planes. The flag is the one with the kubeconfig of the other one.
func (o *options) complete(flag string) error {
	if o.file == "" {
		return cli.UsageErrorf("%s FILE is needed: the kubeconfig of the other control plane", flag)
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
	access, err := membership.LoadAccess(o.file, o.context)
	if err != nil {
		return fmt.Errorf("finding the other control plane: %w", err)
	}
	if o.other, err = migration.Connect(access.Config); err != nil {
		return err
	}
	if o.ownConfig, err = o.hub.Config(); err != nil {
		return err
	}
	if o.ownConfig.Host == access.Config.Host {
		return cli.UsageErrorf("both kubeconfigs lead to the same control plane, %s", access.Config.Host)
	}
	o.own, err = migration.Connect(o.ownConfig)
	return err
}

// report is what both commands print.
type report struct {
	Copied     *migration.Outcome    `json:"copied,omitempty"`
	Kinds      map[string]int        `json:"kinds"`
	Notes      []migration.Note      `json:"notes,omitempty"`
	Comparison *migration.Comparison `json:"comparison,omitempty"`
}

func (o *options) plan(ctx context.Context, s cli.Streams, source *migration.ControlPlane) error {
	p, err := migration.Read(ctx, source)
	if err != nil {
		return err
	}
	return o.print(s, report{Kinds: p.Counts(), Notes: p.Notes})
}

func (o *options) copy(ctx context.Context, s cli.Streams) error {
	copier := &migration.Copier{Target: o.own, Manager: migration.ImportManager, Overwrite: o.overwrite, Held: "imported from " + o.other.Address + "; 'flagship import --cut-over' goes on"}
	if err := o.copyTo(ctx, s, o.other, copier); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "Nothing would change. Stop the controllers and agents of the other control plane, and run the command with --cut-over.")
	return nil
}

// copyTo copies what a control plane keeps, and compares what it writes to clusters with what the copy would write.
func (o *options) copyTo(ctx context.Context, s cli.Streams, source *migration.ControlPlane, copier *migration.Copier) error {
	p, err := migration.Read(ctx, source)
	if err != nil {
		return err
	}
	copier.Pruned, copier.Progress = interpret.Chain(builtin.New(o.clock)), func(line string) { fmt.Fprintln(s.Err, line) }
	outcome, err := copier.Copy(ctx, p)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "comparing what both control planes write to clusters")
	comparison, err := migration.Settled(ctx, source, copier.Target, o.patience)
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
	return nil
}

// agreed returns an error if objects in clusters would change by a cut-over, unless that is accepted.
func (o *options) agreed(ctx context.Context, s cli.Streams, source, target *migration.ControlPlane) error {
	comparison, err := migration.Settled(ctx, source, target, o.patience)
	if err != nil || len(comparison.Differences) == 0 || o.accept {
		return err
	}
	if err := o.print(s, report{Comparison: comparison}); err != nil {
		return err
	}
	return fmt.Errorf("%d objects in clusters would change. Copy again without --cut-over, or accept them with --accept-differences", len(comparison.Differences))
}

func (o *options) take(ctx context.Context, s cli.Streams) error {
	running, err := migration.Running(ctx, o.other, o.clock)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return fmt.Errorf("the other control plane may still write to clusters: %s; stop its controllers and agents, such as with "+
			"'kubectl -n karmada-system scale deployment karmada-controller-manager karmada-scheduler --replicas 0', and run the command again",
			strings.Join(running, "; "))
	}
	if err := o.agreed(ctx, s, o.other, o.own); err != nil {
		return err
	}
	resumed, err := membership.ResumeDispatching(ctx, o.ownConfig, o.clusters, nil, o.clock.Now())
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
