// Package server has the commands of cmd/flagship-server.
package server

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
	"github.com/flagship-k8s/flagship/internal/tools/cli/clusters"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor"
	"github.com/flagship-k8s/flagship/internal/tools/cli/drift"
	"github.com/flagship-k8s/flagship/internal/tools/cli/explain"
	"github.com/flagship-k8s/flagship/internal/tools/cli/history"
	"github.com/flagship-k8s/flagship/internal/tools/cli/preview"
	"github.com/flagship-k8s/flagship/internal/tools/cli/server"
	"github.com/flagship-k8s/flagship/internal/tools/cli/support"
)

// Root is the program.
func Root(s cli.Streams) *cobra.Command {
	return cli.Root(s, &cobra.Command{
		Use:   "flagship-server",
		Short: "A multi-cluster Kubernetes control plane",
		Long:  "Runs and operates the control plane of Flagship. Every command is the one of the same name in flagship.",
	}, server.Commands(s), clusters.Commands(s), agents.Commands(s), history.Commands(s), preview.Commands(s),
		[]*cobra.Command{doctor.NewCommand(s), support.NewCommand(s), drift.NewCommand(s), explain.NewCommand(s)})
}
