// Package flagship has the commands of cmd/flagship.
package flagship

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
	"github.com/flagship-k8s/flagship/internal/tools/cli/clusters"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor"
	"github.com/flagship-k8s/flagship/internal/tools/cli/drift"
	"github.com/flagship-k8s/flagship/internal/tools/cli/explain"
	"github.com/flagship-k8s/flagship/internal/tools/cli/history"
	"github.com/flagship-k8s/flagship/internal/tools/cli/interpret"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members"
	"github.com/flagship-k8s/flagship/internal/tools/cli/migrate"
	"github.com/flagship-k8s/flagship/internal/tools/cli/preview"
	"github.com/flagship-k8s/flagship/internal/tools/cli/server"
	"github.com/flagship-k8s/flagship/internal/tools/cli/support"
	"github.com/flagship-k8s/flagship/internal/tools/cli/trial"
)

// Root is the program.
func Root(s cli.Streams) *cobra.Command {
	return cli.Root(s, &cobra.Command{
		Use:   "flagship",
		Short: "A multi-cluster Kubernetes control plane in one binary",
		Long: `Flagship keeps one control plane and many member clusters.

Apply a Deployment, or any other kind, and a PropagationPolicy to the control plane: Flagship carries the object to the
member clusters that the policy chooses, keeps it there, and brings its status back.

  flagship demo     see it work: a control plane, two members, an nginx Deployment
  flagship up       a playground with members that are real API servers
  flagship server   the control plane alone`,
	}, trial.Commands(s), server.Commands(s), clusters.Commands(s), agents.Commands(s), members.Commands(s), history.Commands(s), preview.Commands(s), migrate.Commands(s),
		[]*cobra.Command{doctor.NewCommand(s), support.NewCommand(s), drift.NewCommand(s), explain.NewCommand(s), interpret.NewCommand(s)})
}
