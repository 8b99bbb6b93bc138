package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// NewFromCommand is the command "restore from".
func NewFromCommand(s cli.Streams) *cobra.Command {
	var (
		storage    storageFlags
		one        backupFlags
		encryption string
	)
	c := &cobra.Command{
		Use:   "from BACKUP --data-dir DIR",
		Short: "Make a control plane of a backup, in an empty directory",
		Long: `Writes what a backup has to an empty data directory, and with --etcd-servers to an etcd cluster that has no keys with the prefix:
a backup of one kind of storage can be restored to the other. Then start 'flagship server' on it.

That control plane writes nothing to the members that it wrote to before, and deletes nothing there: 'flagship restore status' lists
how they differ from it, 'flagship restore resume' goes on. Stop the old control plane first, or cut its network: a member that
both write to is held again.

Clients of the API list again, since resource versions begin anew. Who has read the backup has all keys in it: replace them with
'flagship certificates' and 'flagship encryption rotate' then.`,
		Example: `  flagship restore from flagship-1a2b3c4d-20260102T030405Z.tar.gz.age --passphrase-file passphrase --data-dir /var/lib/flagship`,
		Args:    cli.Exactly(1, "a backup"),
		RunE: func(c *cobra.Command, args []string) error {
			to, err := storage.read()
			if err != nil {
				return err
			}
			to.EncryptionConfig = encryption
			identities, file, err := one.open(c.Context(), args[0])
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
	one.add(c)
	encryptionFlag(c, &encryption)
	return c
}

// standbyPrefix is the default of --etcd-prefix for a standby.
const standbyPrefix = "/flagship-standby"

// NewFollowCommand is the command "restore follow".
func NewFollowCommand(s cli.Streams) *cobra.Command {
	var (
		from         LocationFlags
		with         identityFlags
		dir          string
		controlPlane string
		every        time.Duration
		external     etcd.External
		encryption   string
	)
	c := &cobra.Command{
		Use:   "follow --from LOCATION --dir DIR",
		Short: "Keep a standby: restore each new backup, ready to start a server on it",
		Long: `Restores the newest backup of a control plane, and then each newer one, until SIGINT or SIGTERM. To take over, start a server:

  flagship server --data-dir DIR/current

The standby is one backup behind at most; how far that is, 'flagship backup schedule --every' decides. Once a server was started on
it, it is not replaced any more, and this command ends. That server writes nothing to the members that the control plane wrote to
before, until 'flagship restore resume'.

The standby has an embedded etcd, or with --etcd-servers an external one. There each backup has a prefix of its own below
--etcd-prefix, which the data directory names to the server. The keys of an earlier backup are removed after the next one is
whole, and no others; once a server uses them, they stay. Values that are encrypted by AES-GCM or a KMS plugin are bound to their
keys: they are encrypted anew, with --encryption-provider-config.`,
		Example: `  flagship restore follow --from s3://backups/production --dir /var/lib/flagship-standby --passphrase-file /etc/flagship/passphrase
  flagship restore follow --from s3://backups/production --dir /var/lib/flagship-standby --passphrase-file /etc/flagship/passphrase --etcd-servers https://etcd1:2379`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir == "" {
				return cli.UsageErrorf("--dir DIR is needed: the directory of the standby")
			}
			if every < time.Second {
				return cli.UsageErrorf("--every must be a second or more, not %s", every)
			}
			in, err := from.Open()
			if err != nil {
				return err
			}
			identities, err := with.read(c.Context())
			if err != nil {
				return err
			}
			standby := &backup.Standby{Dir: dir, From: in, ControlPlane: controlPlane, Identities: identities, EncryptionConfig: encryption}
			if len(external.Endpoints) > 0 {
				external.Prefix = cmp.Or(external.Prefix, standbyPrefix)
				standby.External, standby.NewID = &external, func() string { return strings.ToLower(rand.Text()) }
			}
			return follow(c.Context(), s, standby, every)
		},
	}
	from.Add(c, "from", "where the backups are kept: DIR, s3://BUCKET or s3://BUCKET/PREFIX")
	with.add(c)
	c.Flags().StringVar(&dir, "dir", "", "directory of the standby")
	EtcdFlags(c.Flags(), &external)
	encryptionFlag(c, &encryption)
	c.Flags().Lookup("etcd-servers").Usage = "URLs of an external etcd cluster that the standby has its keys in (default: embedded)"
	c.Flags().Lookup("etcd-prefix").Usage = "what the prefixes of the backups begin with in etcd (default " + standbyPrefix + ")"
	c.Flags().StringVar(&controlPlane, "control-plane", "", "control plane whose backups are restored, as 'flagship backup list' prints it (default: the only one)")
	c.Flags().DurationVar(&every, "every", time.Minute, "how often newer backups are listed")
	return c
}

func encryptionFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "encryption-provider-config", "", "EncryptionConfiguration of the server: needed if the keys get another prefix, for values that AES-GCM or a KMS plugin binds to their keys")
}

// follow updates a standby in each period until the context ends or a server has taken it over.
func follow(ctx context.Context, s cli.Streams, standby *backup.Standby, every time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	taken := false
	err := repeat(ctx, clock.RealClock{}, every, func() error {
		stored, updated, err := standby.Update(ctx, progress(s))
		switch {
		case errors.Is(err, backup.ErrTakenOver):
			taken = true
			cancel()
		case err != nil && ctx.Err() == nil:
			fmt.Fprintf(s.Err, "%s: the standby is not updated: %v\n", time.Now().UTC().Format(time.RFC3339), err)
		case updated:
			fmt.Fprintf(s.Out, "restored %s; to take over: flagship server --data-dir %s\n", stored.Path, filepath.Join(standby.Dir, backup.Current))
		}
		return err
	})
	if taken {
		fmt.Fprintf(s.Out, "a server was started on the standby %s: no backup is restored to it any more\n", standby.Dir)
	}
	return err
}
