package backup

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// NewFromCommand is the command "restore from".
func NewFromCommand(s cli.Streams) *cobra.Command {
	var (
		storage storageFlags
		with    identityFlags
	)
	c := &cobra.Command{
		Use:   "from FILE --data-dir DIR",
		Short: "Make a control plane of a backup, in an empty directory",
		Long: `Writes what a backup has to an empty data directory, and with --etcd-servers to an etcd cluster that has no keys with the prefix:
a backup of one kind of storage can be restored to the other. Then start 'flagship server' on it.

That control plane writes nothing to the members that it wrote to before, and deletes nothing there: 'flagship restore status' lists
how they differ from it, 'flagship restore resume' goes on. Stop the old control plane first, or cut its network: a member that
both write to is held again.

Clients of the API list again, since resource versions begin anew. Who came to know the backup has all keys in it: replace them with
'flagship certificates' and 'flagship encryption rotate' then.`,
		Example: `  flagship restore from flagship-1a2b3c4d-20260102T030405Z.tar.gz.age --passphrase-file passphrase --data-dir /var/lib/flagship`,
		Args:    cli.Exactly(1, "a backup"),
		RunE: func(c *cobra.Command, args []string) error {
			to, err := storage.read()
			if err != nil {
				return err
			}
			identities, file, err := with.open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			header, summary, err := backup.Restore(c.Context(), file, to, progress(s), identities...)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "restored the state of %s to %s: %d keys, %d files\n", header.Time.Format(time.RFC3339), to.DataDir, summary.Keys, summary.Files)
			fmt.Fprintf(s.Out, "start 'flagship server --data-dir %s', then see 'flagship restore status' and 'flagship restore resume'\n", to.DataDir)
			return nil
		},
	}
	storage.add(c)
	with.add(c)
	return c
}
