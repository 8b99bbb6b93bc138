package clusters

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newUnjoinCommand(s cli.Streams) *cobra.Command {
	return removeCommand(s, membership.UnjoinOptions{})
}

func newUnregisterCommand(s cli.Streams) *cobra.Command {
	c := removeCommand(s, membership.UnjoinOptions{SyncMode: clusterv1alpha1.Pull})
	c.Use = "unregister CLUSTER"
	c.Short = "Take a cluster in Pull mode out of the control plane"
	c.Long = `Takes a cluster in Pull mode out, as unjoin does: first the objects that were propagated to it, which its agent releases or deletes,
then the Cluster. The credential of the agent is of no use from then on, also for a later Cluster of the same name, and the agent ends.

With --cluster-kubeconfig, what 'flagship register' created in the cluster is deleted, too.

With --keep-objects the objects stay in the cluster, without the labels and annotations of the control plane. With
--delete-objects they are deleted there, except those that were there before, and those whose policy says so
(preserveResourcesOnDeletion). While the cluster holds objects, one of both flags is required.

A cluster whose agent does not report is taken out too, once the control plane has observed that; what is in it stays.`
	c.Example = `  flagship unregister member3 --keep-objects --cluster-kubeconfig ~/member3.yaml
  flagship unregister member3 --delete-objects --dry-run`
	return c
}

// removeCommand is unjoin, with some options set.
func removeCommand(s cli.Streams, o membership.UnjoinOptions) *cobra.Command {
	var (
		hub                cli.HubAccess
		member             memberAccess
		keep, drop, dryRun bool
		out                cli.Output
	)
	c := &cobra.Command{
		Use:   "unjoin NAME",
		Short: "Take a cluster out of the control plane",
		Long: `Takes a member out: the objects that were propagated to it, then the service accounts, the credentials and the Cluster.

With --keep-objects the objects stay in the cluster, without the labels and annotations of the control plane. With
--delete-objects they are deleted there, except those that were there before, and those whose policy says so
(preserveResourcesOnDeletion). While the cluster holds objects, one of both flags is required. Deleting the Cluster with
kubectl keeps the objects, unless the Cluster has the annotation flagship.io/on-removal: DeleteObjects.

A cluster that cannot be reached is taken out too, once the control plane has observed that; what is in it stays.`,
		Example: `  flagship unjoin member1 --keep-objects
  flagship unjoin member1 --delete-objects --dry-run
  flagship unjoin member1 --keep-objects --force --wait 10s`,
		Args: cli.Exactly(1, "the name of the cluster"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			o.Name = args[0]
			switch {
			case keep:
				o.Objects = membership.KeepObjects
			case drop:
				o.Objects = membership.DeleteObjects
			}
			if dryRun {
				return printContents(cmd, s, &out, cfg, o)
			}
			var access *rest.Config
			if member.kubeconfig != "" {
				loaded, err := membership.LoadAccess(member.kubeconfig, member.context)
				if err != nil {
					return err
				}
				access = loaded.Config
			}
			if err := membership.Unjoin(cmd.Context(), cfg, access, o); err != nil {
				return fmt.Errorf("unjoining %s: %w", o.Name, err)
			}
			fmt.Fprintf(s.Out, "cluster %s has left\n", o.Name)
			return nil
		},
	}
	hub.Flags(c)
	c.ValidArgsFunction = hub.ClusterNames
	member.flags(c)
	out.Flags(c)
	f := c.Flags()
	f.DurationVar(&o.Wait, "wait", membership.DefaultUnjoinWait, "how long to wait until everything is gone")
	f.BoolVar(&o.Force, "force", false, "after that time, let go of a cluster that cannot be cleaned up")
	f.BoolVar(&keep, "keep-objects", false, "leave the objects in the cluster, without the labels of the control plane")
	f.BoolVar(&drop, "delete-objects", false, "delete the objects in the cluster that the control plane made")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be kept and deleted, and change nothing")
	c.MarkFlagsMutuallyExclusive("keep-objects", "delete-objects")
	return c
}

// printContents prints what unjoining would keep and delete.
func printContents(cmd *cobra.Command, s cli.Streams, out *cli.Output, hub *rest.Config, o membership.UnjoinOptions) error {
	contents, err := membership.UnjoinContents(cmd.Context(), hub, o)
	if err != nil {
		return err
	}
	rows := make([][]string, 0, len(contents))
	for _, c := range contents {
		action := "delete"
		if c.Kept {
			action = "keep"
		}
		rows = append(rows, []string{cli.OrNone(c.Namespace), c.Kind, c.APIVersion, strconv.Itoa(c.Objects), action})
	}
	return out.Print(s, contents, "NAMESPACE KIND APIVERSION OBJECTS ACTION", rows)
}
