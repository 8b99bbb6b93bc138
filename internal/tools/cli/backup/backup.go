// Package backup has the commands that make backups of a control plane, check them, and make a control plane of one.
package backup

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/host/backup/archive"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// NewCommand is the command "backup".
func NewCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup",
		Short: "Make and check backups of the control plane",
		Long: `A backup is one encrypted file with all that a control plane keeps: its store, its keys and certificates, its configuration.
It is made while the control plane runs. 'flagship restore from' makes a control plane of it.`,
	}
	c.AddCommand(newCreateCommand(s), newScheduleCommand(s), newListCommand(s), newVerifyCommand(s))
	return c
}

// source is what a backup is made of, where it goes and how many stay.
type source struct {
	storage storageFlags
	dir     string
	keep    int
	to      recipientFlags
}

func (o *source) add(c *cobra.Command) {
	o.storage.add(c)
	o.to.add(c)
	c.Flags().StringVar(&o.dir, "to", "", "directory of the backups, best on another machine")
	c.Flags().IntVar(&o.keep, "keep", 0, "delete older backups of this control plane in that directory until so many are left; 0 deletes none")
}

// check reads what the flags lead to.
func (o *source) check() (backup.Storage, []age.Recipient, error) {
	if o.dir == "" {
		return backup.Storage{}, nil, cli.UsageErrorf("--to DIR is needed: the directory of the backups")
	}
	if o.keep < 0 {
		return backup.Storage{}, nil, cli.UsageErrorf("--keep cannot be %d", o.keep)
	}
	recipients, err := o.to.read()
	if err != nil {
		return backup.Storage{}, nil, err
	}
	storage, err := o.storage.read()
	return storage, recipients, err
}

// save makes one backup, and deletes what is too old.
func (o *source) save(ctx context.Context, s cli.Streams, storage backup.Storage, recipients []age.Recipient, now time.Time) error {
	stored, summary, err := backup.Save(ctx, storage, o.dir, now, progress(s), recipients...)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s: %s, %d keys, %d files\n", stored.Path, size(stored.Bytes), summary.Keys, summary.Files)
	if o.keep == 0 {
		return nil
	}
	deleted, err := backup.Prune(o.dir, stored.ControlPlane, o.keep)
	for _, old := range deleted {
		fmt.Fprintf(s.Out, "%s deleted\n", old.Path)
	}
	return err
}

func newCreateCommand(s cli.Streams) *cobra.Command {
	var o source
	c := &cobra.Command{
		Use:   "create --to DIR",
		Short: "Make a backup of a control plane that runs on this machine",
		Long: `Writes a backup of the control plane that uses --data-dir. It is made at one moment of the store, while the control plane goes on.
Events, which end by themselves after an hour, are not in it, nor are audit logs.

A backup has private keys and, with them, everything that is encrypted in the store: it is always encrypted itself, with a
passphrase or for the holders of age identities (https://age-encryption.org).`,
		Example: `  flagship backup create --data-dir /var/lib/flagship --to /mnt/backups --passphrase-file /etc/flagship/passphrase
  flagship backup create --to /mnt/backups --keep 28 --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			storage, recipients, err := o.check()
			if err != nil {
				return err
			}
			return o.save(c.Context(), s, storage, recipients, time.Now())
		},
	}
	o.add(c)
	return c
}

func newScheduleCommand(s cli.Streams) *cobra.Command {
	var (
		o     source
		every time.Duration
	)
	c := &cobra.Command{
		Use:   "schedule --every 6h --to DIR",
		Short: "Make a backup in each period",
		Long: `Makes a backup at once and then after each period, until SIGINT or SIGTERM. A backup that fails is reported on stderr and tried again
after a minute. Run it beside the control plane, as a service of its own; 'flagship backup create' suits cron and timers.`,
		Example: `  flagship backup schedule --every 6h --keep 28 --to /mnt/backups --passphrase-file /etc/flagship/passphrase`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < time.Minute {
				return cli.UsageErrorf("--every must be a minute or more, not %s", every)
			}
			storage, recipients, err := o.check()
			if err != nil {
				return err
			}
			return repeat(c.Context(), clock.RealClock{}, every, func() error {
				err := o.save(c.Context(), s, storage, recipients, time.Now())
				if err != nil && c.Context().Err() == nil {
					fmt.Fprintf(s.Err, "%s: no backup was made: %v\n", time.Now().UTC().Format(time.RFC3339), err)
				}
				return err
			})
		},
	}
	o.add(c)
	c.Flags().DurationVar(&every, "every", 6*time.Hour, "period from the beginning of a backup to that of the next one")
	return c
}

// retryAfter is when a backup that failed is tried again.
const retryAfter = time.Minute

// repeat calls a function at once and in each period, until the context ends.
func repeat(ctx context.Context, c clock.Clock, every time.Duration, once func() error) error {
	for {
		began := c.Now()
		wait := every
		if once() != nil {
			wait = min(retryAfter, every)
		}
		timer := c.NewTimer(max(wait-c.Since(began), 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

func newListCommand(s cli.Streams) *cobra.Command {
	var (
		dir string
		out cli.Output
	)
	c := &cobra.Command{
		Use:     "list --from DIR",
		Short:   "List the backups in a directory",
		Example: `  flagship backup list --from /mnt/backups`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			if dir == "" {
				return cli.UsageErrorf("--from DIR is needed: the directory of the backups")
			}
			found, err := backup.List(dir)
			if err != nil {
				return err
			}
			rows := make([][]string, 0, len(found))
			for _, b := range found {
				rows = append(rows, []string{b.Time.Format(time.RFC3339), duration.HumanDuration(time.Since(b.Time)), b.ControlPlane, size(b.Bytes), b.Path})
			}
			return out.Print(s, found, "TIME AGE CONTROL-PLANE SIZE PATH", rows)
		},
	}
	c.Flags().StringVar(&dir, "from", "", "directory of the backups")
	out.Flags(c)
	return c
}

func newVerifyCommand(s cli.Streams) *cobra.Command {
	var with identityFlags
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Read a whole backup and check that it is complete",
		Long: `Decrypts a backup, reads all of it, and compares it with its summary. What a restore makes of it is seen only by restoring it:
do that now and then, into a directory of another machine that cannot reach the members.`,
		Example: `  flagship backup verify /mnt/backups/flagship-1a2b3c4d-20260102T030405Z.tar.gz.age --passphrase-file /etc/flagship/passphrase`,
		Args:    cli.Exactly(1, "a file"),
		RunE: func(_ *cobra.Command, args []string) error {
			identities, file, err := with.open(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			header, summary, err := archive.Read(file, archive.Visitor{}, identities...)
			if err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "the backup of %s by release %s is complete: %d keys of %s, %d files\n",
				header.Time.Format(time.RFC3339), header.Release, summary.Keys, size(summary.Bytes), summary.Files)
			return nil
		},
	}
	with.add(c)
	return c
}

// storageFlags lead to a control plane's storage.
type storageFlags struct {
	dataDir string
	etcd    etcd.External
}

func (o *storageFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.dataDir, "data-dir", "", "data directory of the control plane (default: flagship in the user's state directory)")
	EtcdFlags(c.Flags(), &o.etcd)
}

// EtcdFlags adds the flags that lead to an external etcd cluster.
func EtcdFlags(f *pflag.FlagSet, external *etcd.External) {
	f.StringSliceVar(&external.Endpoints, "etcd-servers", nil, "URLs of an external etcd cluster (default: embedded)")
	f.StringVar(&external.CAFile, "etcd-cafile", "", "certificate authority of the etcd servers")
	f.StringVar(&external.CertFile, "etcd-certfile", "", "client certificate for etcd")
	f.StringVar(&external.KeyFile, "etcd-keyfile", "", "key of the client certificate for etcd")
	f.StringVar(&external.Prefix, "etcd-prefix", "", "where all keys start in etcd (default /registry)")
}

func (o *storageFlags) read() (backup.Storage, error) {
	if err := cli.DefaultDir(&o.dataDir); err != nil {
		return backup.Storage{}, err
	}
	if len(o.etcd.Endpoints) == 0 {
		return backup.Storage{DataDir: o.dataDir}, nil
	}
	return backup.Storage{DataDir: o.dataDir, External: &o.etcd}, nil
}

// recipientFlags are who can decrypt a backup.
type recipientFlags struct {
	passphrase string
	recipients []string
}

func (o *recipientFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "file with the passphrase that the backup is encrypted with")
	c.Flags().StringSliceVar(&o.recipients, "recipient", nil, "public key of age (age1…) that the backup is encrypted for; may be given again")
}

func (o *recipientFlags) read() ([]age.Recipient, error) {
	if (o.passphrase == "") == (len(o.recipients) == 0) {
		return nil, cli.UsageErrorf("either --passphrase-file or --recipient is needed: a backup has private keys, and is always encrypted")
	}
	if o.passphrase != "" {
		passphrase, err := readPassphrase(o.passphrase)
		if err != nil {
			return nil, err
		}
		recipient, err := age.NewScryptRecipient(passphrase)
		if err != nil {
			return nil, fmt.Errorf("using the passphrase: %w", err)
		}
		return []age.Recipient{recipient}, nil
	}
	recipients, err := age.ParseRecipients(strings.NewReader(strings.Join(o.recipients, "\n")))
	if err != nil {
		return nil, cli.UsageErrorf("--recipient: %v", err)
	}
	return recipients, nil
}

// identityFlags decrypt a backup.
type identityFlags struct{ passphrase, identities string }

func (o *identityFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&o.passphrase, "passphrase-file", "", "file with the passphrase that the backup is encrypted with")
	c.Flags().StringVar(&o.identities, "identity-file", "", "file with identities of age, one of which is that of a recipient of the backup")
}

func (o *identityFlags) read() ([]age.Identity, error) {
	if (o.passphrase == "") == (o.identities == "") {
		return nil, cli.UsageErrorf("either --passphrase-file or --identity-file is needed to decrypt the backup")
	}
	if o.passphrase != "" {
		passphrase, err := readPassphrase(o.passphrase)
		if err != nil {
			return nil, err
		}
		identity, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			return nil, fmt.Errorf("using the passphrase: %w", err)
		}
		return []age.Identity{identity}, nil
	}
	file, err := os.Open(o.identities)
	if err != nil {
		return nil, fmt.Errorf("reading identities: %w", err)
	}
	defer func() { _ = file.Close() }()
	identities, err := age.ParseIdentities(file)
	if err != nil {
		return nil, fmt.Errorf("reading identities of %s: %w", o.identities, err)
	}
	return identities, nil
}

// open opens a backup, and reads the identities that decrypt it. The caller closes the file.
func (o *identityFlags) open(path string) ([]age.Identity, *os.File, error) {
	identities, err := o.read()
	if err != nil {
		return nil, nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the backup: %w", err)
	}
	return identities, file, nil
}

// shortestPassphrase is the least number of bytes of a passphrase. A shorter one is guessed from a stolen backup.
const shortestPassphrase = 12

func readPassphrase(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	passphrase := strings.TrimRight(string(content), "\r\n")
	if len(passphrase) < shortestPassphrase {
		return "", cli.UsageErrorf("the passphrase in %s has less than %d bytes: whoever gets a backup would guess it", path, shortestPassphrase)
	}
	return passphrase, nil
}

// progressEvery is after how many keys the progress is shown.
const progressEvery = 50_000

// progress shows on stderr how far a long backup or restore is.
func progress(s cli.Streams) func(keys int64) {
	var shown int64
	return func(keys int64) {
		if keys-shown >= progressEvery {
			shown = keys
			fmt.Fprintf(s.Err, "  %d keys\n", keys)
		}
	}
}

func size(bytes int64) string {
	q := resource.NewQuantity(bytes, resource.BinarySI)
	if bytes >= 10<<20 {
		q = resource.NewQuantity(bytes>>20<<20, resource.BinarySI)
	} else if bytes >= 10<<10 {
		q = resource.NewQuantity(bytes>>10<<10, resource.BinarySI)
	}
	return q.String()
}
