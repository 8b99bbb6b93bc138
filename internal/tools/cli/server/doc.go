// Package server has the commands that run a control plane and that are run beside it on its machine: its certificates, its encryption, its backups.
package server

import (
	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/backup"
)

// Commands are those of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newServerCommand(s), newEncryptionCommand(s), newCertificatesCommand(s), backup.NewCommand(s)}
}
