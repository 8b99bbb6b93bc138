package clusters

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/backup"
)

func newOrphansCommand(s cli.Streams) *cobra.Command {
	return reportCommand(s, restore.OrphansPath, &cobra.Command{
		Use:   "orphans",
		Short: "List objects in clusters that the control plane manages and has no Work for",
		Long: `Lists objects that carry the labels of this control plane in a cluster, while it has no Work for them: after a restore
from a backup, or after 'flagship release-brake --keep-objects'. Nothing happens to them until a Work of the same name takes
them over. Kinds of which the control plane has no Work in a cluster are not watched there; 'flagship restore status' lists
these, too.`,
		Example: `  flagship orphans
  flagship orphans --cluster member1 -o json`,
	})
}

func newRestoreCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "restore",
		Short: "Make a control plane of a backup; see and end what waits then",
		Long: `A control plane that was restored from a backup has less than its members. It writes nothing to such a member and
deletes nothing there, and the Cluster has the condition DispatchingHeld, until a person resumes it.`,
	}
	c.AddCommand(backup.NewFromCommand(s), backup.NewFollowCommand(s), reportCommand(s, restore.StatusPath, &cobra.Command{
		Use:   "status",
		Short: "List how clusters differ from what the control plane has",
		Long: `Lists, for every cluster, objects that the control plane manages there and has no Work for (Orphan), that were applied from
a later template than it has (Newer) or from something else than it has (Different), which going on takes back, that it
has and the cluster has not (Missing), which going on makes again, and that the cluster has and the control plane does not apply
there any more (Unwanted), such as the objects of a Work that is being deleted, which going on deletes.`,
		Example: `  flagship restore status
  flagship restore status --cluster member1 -o yaml`,
	}), newResumeCommand(s))
	return c
}

// resumable are the operations of --only.
var resumable = []string{clusterv1alpha1.ResumeCreate, clusterv1alpha1.ResumeChange, clusterv1alpha1.ResumeDelete}

func newResumeCommand(s cli.Streams) *cobra.Command {
	var (
		hub      cli.HubAccess
		clusters []string
		only     []string
		all      bool
	)
	c := &cobra.Command{
		Use:   "resume",
		Short: "Write to clusters again",
		Long: `Lets the control plane write to clusters again: it makes what is Missing there, takes back what is Newer and Different,
and deletes what is Unwanted. Orphans stay. With --only it does a part of that, and the rest waits: create is what is Missing,
change what is Newer and Different, delete what is Unwanted, such as the objects of a Work that was deleted since. Another --only takes the place of the one before, and without it everything goes on.`,
		Example: `  flagship restore resume --cluster member1 --only create
  flagship restore resume --cluster member1 --only create,change
  flagship restore resume --all`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all != (len(clusters) == 0) {
				return cli.UsageErrorf("resume needs either --cluster or --all")
			}
			for _, operation := range only {
				if !slices.Contains(resumable, operation) {
					return cli.UsageErrorf("--only is one or more of %s, not %q", strings.Join(resumable, ", "), operation)
				}
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			resumed, err := membership.ResumeDispatching(cmd.Context(), cfg, clusters, only, time.Now())
			suffix := ""
			if len(only) > 0 {
				suffix = " for: " + strings.Join(only, ", ")
			}
			for _, cluster := range resumed {
				fmt.Fprintf(s.Out, "writing to cluster %s is resumed%s\n", cluster, suffix)
			}
			return err
		},
	}
	hub.Flags(c)
	c.Flags().StringSliceVar(&clusters, "cluster", nil, "name of a cluster; may be given again")
	hub.CompleteFlag(c, "cluster")
	c.Flags().BoolVar(&all, "all", false, "every cluster that waits")
	c.Flags().StringSliceVar(&only, "only", nil, "do only this and let the rest wait: "+strings.Join(resumable, ", ")+" (default: everything)")
	return c
}

// reportCommand prints what the control plane answers on a path about clusters.
func reportCommand(s cli.Streams, path string, c *cobra.Command) *cobra.Command {
	var (
		hub      cli.HubAccess
		clusters []string
		out      cli.Output
	)
	c.Args = cobra.NoArgs
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.Check(); err != nil {
			return err
		}
		cfg, err := hub.Config()
		if err != nil {
			return err
		}
		reports, err := FetchReports(cmd.Context(), cfg, path, clusters)
		if err != nil {
			return err
		}
		if err := printReports(s, &out, reports); err != nil {
			return err
		}
		return faultsIn(reports)
	}
	hub.Flags(c)
	out.Flags(c)
	c.Flags().StringSliceVar(&clusters, "cluster", nil, "name of a cluster; may be given again (default: all)")
	hub.CompleteFlag(c, "cluster")
	return c
}

// FetchReports reads one of the pages restore.OrphansPath and restore.StatusPath, of all clusters if none is named.
func FetchReports(ctx context.Context, hub *rest.Config, path string, clusters []string) (_ []restore.Report, err error) {
	httpClient, err := rest.HTTPClientFor(hub)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	address := strings.TrimSuffix(hub.Host, "/") + path + "?" + url.Values{"cluster": clusters}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("building the request: %w", err)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the control plane: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the control plane answers %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	var reports []restore.Report
	if err := json.Unmarshal(body, &reports); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return reports, nil
}

func printReports(s cli.Streams, out *cli.Output, reports []restore.Report) error {
	var rows [][]string
	for _, r := range reports {
		for _, f := range r.Findings {
			rows = append(rows, []string{r.Cluster, heldIn(r), string(f.Class), f.Resource, cli.OrNone(f.Namespace), f.Name, f.Work})
		}
		if r.Held && len(r.Findings) == 0 {
			rows = append(rows, []string{r.Cluster, heldIn(r), "-", "-", "-", "-", "-"})
		}
	}
	return out.Print(s, reports, "CLUSTER HELD CLASS RESOURCE NAMESPACE NAME WORK", rows)
}

// heldIn names the operations that wait.
func heldIn(r restore.Report) string {
	if !r.Held {
		return "false"
	}
	return cmp.Or(strings.Join(r.Waiting, ","), "true") // a control plane of an earlier version names none
}

// faultsIn returns what could not be looked into.
func faultsIn(reports []restore.Report) error {
	var faults []error
	for _, r := range reports {
		if r.Error != "" {
			faults = append(faults, fmt.Errorf("cluster %s: %s", r.Cluster, r.Error))
		}
	}
	return errors.Join(faults...)
}
