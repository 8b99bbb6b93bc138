// Package agent has the commands of cmd/flagship-agent.
package agent

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
)

// Root is the program.
func Root(s cli.Streams) *cobra.Command {
	return cli.Root(s, &cobra.Command{
		Use:   "flagship-agent",
		Short: "The agent of a cluster of a Flagship control plane",
		Long:  "Registers a cluster in Pull mode and runs its agent. Every command is the one of the same name in flagship.",
	}, agents.Commands(s))
}
