// Package clusters has the commands about member clusters: join, unjoin, unregister, cordon, taint, release the brake, resume
// after a restore, release and confirm what failover waits for.
package clusters

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Commands are those of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{
		newJoinCommand(s), newUnjoinCommand(s), newUnregisterCommand(s), newReleaseBrakeCommand(s), newOrphansCommand(s), newRestoreCommand(s),
		newCordonCommand(s), newUncordonCommand(s), newTaintCommand(s), newFailoverCommand(s),
	}
}
