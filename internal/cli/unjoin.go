package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/enroll"
)

func newUnjoinCommand(s Streams) *cobra.Command {
	var (
		hub    hubAccess
		member memberAccess
		o      enroll.UnjoinOptions
	)
	c := &cobra.Command{
		Use:   "unjoin NAME",
		Short: "Take a cluster out of the control plane",
		Long: `Takes a member out: everything that was propagated to it is removed from it, then the service accounts, the credentials
and the Cluster. Objects whose policy asks for it (preserveResourcesOnDeletion) stay.

A cluster that cannot be reached is taken out too, once the control plane knows that; what is in it stays.`,
		Example: `  flagship unjoin member1
  flagship unjoin member1 --force --wait 10s`,
		Args: exactly(1, "the name of the cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := hub.config()
			if err != nil {
				return err
			}
			var access *rest.Config
			if member.kubeconfig != "" {
				loaded, err := enroll.LoadAccess(member.kubeconfig, member.context)
				if err != nil {
					return err
				}
				access = loaded.Config
			}
			o.Name = args[0]
			if err := enroll.Unjoin(cmd.Context(), cfg, access, o); err != nil {
				return fmt.Errorf("unjoining %s: %w", o.Name, err)
			}
			fmt.Fprintf(s.Out, "cluster %s has left\n", o.Name)
			return nil
		},
	}
	hub.flags(c)
	member.flags(c)
	c.Flags().DurationVar(&o.Wait, "wait", enroll.DefaultUnjoinWait, "how long to wait until everything is gone")
	c.Flags().BoolVar(&o.Force, "force", false, "after that time, let go of a cluster that cannot be cleaned up")
	return c
}
