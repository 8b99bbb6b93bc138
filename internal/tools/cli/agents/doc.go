// Package agents has the commands about clusters in Pull mode: token, register, agent.
package agents

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Commands are those of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newTokenCommand(s), newRegisterCommand(s), NewAgentCommand(s)}
}
