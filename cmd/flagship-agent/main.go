// Command flagship-agent is the agent of a cluster in Pull mode for images. It links no API server, so that it needs a third of the memory
// that the same command of flagship does.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
)

func main() { os.Exit(cli.Main(root)) }

func root(s cli.Streams) *cobra.Command {
	return cli.Root(s, &cobra.Command{
		Use:   "flagship-agent",
		Short: "The agent of a cluster of a Flagship control plane",
		Long:  "Registers a cluster in Pull mode and runs its agent. Every command is the one of the same name in flagship.",
	}, agents.Commands(s))
}
