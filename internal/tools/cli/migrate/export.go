package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/migration"
)

func newExportCommand(s cli.Streams) *cobra.Command {
	o := options{clock: clock.RealClock{}}
	c := &cobra.Command{
		Use:   "export --to-kubeconfig FILE",
		Short: "Give the clusters and objects to a Karmada control plane",
		Long: `Copies Clusters, namespaces, definitions of kinds, templates, policies, override policies, interpreters and bindings to another control
plane that serves Karmada's API, while this one goes on. The Clusters are copied without their credentials, so that the other control plane
writes nothing to them. Then it compares, object by object, what both control planes write to each cluster. It can be run again, and brings
up to date what it copied before.

With --cut-over this control plane writes nothing more to the clusters, and the other one gets their credentials. No object in a cluster is
removed or created again by that.`,
		Example: `  flagship export --to-kubeconfig karmada.kubeconfig --dry-run
  flagship export --to-kubeconfig karmada.kubeconfig
  flagship export --to-kubeconfig karmada.kubeconfig --cut-over`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete("--to-kubeconfig"); err != nil {
				return err
			}
			return o.run(cmd.Context(), s, o.own, o.export, o.give)
		},
	}
	o.flags(c, texts{
		prefix:    "to",
		overwrite: "replace objects of the other control plane that have the same name, but no Clusters, and what was changed there after a cut-over",
		cutOver:   "give the clusters to the other control plane, when nothing differs",
		clusters:  "with --cut-over: name of a cluster; may be given again (default: all)",
		timeout:   "how long the other control plane may take to render what was copied",
	})
	return c
}

func (o *options) export(ctx context.Context, s cli.Streams) error {
	copier := &migration.Copier{Target: o.other, Manager: migration.ExportManager, Overwrite: o.overwrite}
	if err := o.copyTo(ctx, s, o.own, copier); err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "Nothing would change. Run the command with --cut-over.")
	return nil
}

// give has this control plane write nothing more to clusters, and then gives their credentials to the other one.
func (o *options) give(ctx context.Context, s cli.Streams) error {
	p, err := migration.Read(ctx, o.own)
	if err != nil {
		return err
	}
	if err := o.agreed(ctx, s, o.own, o.other); err != nil {
		return err
	}
	names := o.clusters
	if len(names) == 0 {
		names = p.Clusters()
	}
	if err := membership.HoldDispatching(ctx, o.ownConfig, names, migration.GivenTo(o.other.Address)); err != nil {
		return err
	}
	if err := migration.AwaitHeld(ctx, o.own, names); err != nil {
		return err
	}
	copier := &migration.Copier{Target: o.other, Manager: migration.ExportManager, Pruned: interpret.Chain(builtin.New(o.clock))}
	var failed []error
	for _, name := range names {
		if err := copier.Give(ctx, p, name); err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(s.Out, "cluster %s is given away\n", name)
	}
	return errors.Join(failed...)
}
