// Package backup has the commands that make backups of a control plane, check them, and make a control plane of one.
package backup

import (
	"context"
	"fmt"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/host/backup/archive"
	"github.com/flagship-k8s/flagship/internal/host/backup/repository"
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
	storage    storageFlags
	to         LocationFlags
	keep       int
	recipients recipientFlags
}

func (o *source) add(c *cobra.Command) {
	o.storage.add(c)
	o.recipients.add(c)
	o.to.Add(c, "to", "where the backups are kept, best not on this machine: DIR, s3://BUCKET or s3://BUCKET/PREFIX")
	c.Flags().IntVar(&o.keep, "keep", 0, "delete older backups of this control plane there until so many are left; 0 deletes none")
}

// job is a source whose flags were read.
type job struct {
	storage    backup.Storage
	to         repository.Repository
	keep       int
	recipients []age.Recipient
}

// read reads what the flags lead to.
func (o *source) read(ctx context.Context) (j job, err error) {
	if o.keep < 0 {
		return job{}, cli.UsageErrorf("--keep cannot be %d", o.keep)
	}
	j.keep = o.keep
	if j.to, err = o.to.Open(); err != nil {
		return job{}, err
	}
	if j.recipients, err = o.recipients.read(ctx); err != nil {
		return job{}, err
	}
	j.storage, err = o.storage.read()
	return j, err
}

// save makes one backup, and deletes what is too old.
func (j *job) save(ctx context.Context, s cli.Streams, now time.Time) error {
	stored, summary, err := backup.Save(ctx, j.storage, j.to, now, progress(s), j.recipients...)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s: %s, %d keys, %d files\n", stored.Path, size(stored.Bytes), summary.Keys, summary.Files)
	if j.keep == 0 {
		return nil
	}
	deleted, err := backup.Prune(ctx, j.to, stored.ControlPlane, j.keep)
	for _, old := range deleted {
		fmt.Fprintf(s.Out, "%s deleted\n", old.Path)
	}
	return err
}

func newCreateCommand(s cli.Streams) *cobra.Command {
	var o source
	c := &cobra.Command{
		Use:   "create --to LOCATION",
		Short: "Make a backup of a control plane that runs on this machine",
		Long: `Writes a backup of the control plane that uses --data-dir. It is made at one moment of the store, while the control plane goes on.
Events, which end by themselves after an hour, are not in it, nor are audit logs.

A backup has private keys and, with them, everything that is encrypted in the store: it is always encrypted itself, with a
passphrase, for the holders of age identities (https://age-encryption.org) or with a key of a key management service. Object storage
takes the credentials that Amazon's tools take: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the role of the machine.`,
		Example: `  flagship backup create --data-dir /var/lib/flagship --to /mnt/backups --passphrase-file /etc/flagship/passphrase
  flagship backup create --to s3://backups/production --keep 28 --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			j, err := o.read(c.Context())
			if err != nil {
				return err
			}
			return j.save(c.Context(), s, time.Now())
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
		Use:   "schedule --every 6h --to LOCATION",
		Short: "Make a backup in each period",
		Long: `Makes a backup at once and then after each period, until SIGINT or SIGTERM. A backup that fails is reported on stderr and tried again
after a minute. Run it beside the control plane, as a service of its own; 'flagship backup create' suits cron and timers.`,
		Example: `  flagship backup schedule --every 6h --keep 28 --to /mnt/backups --passphrase-file /etc/flagship/passphrase`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < time.Minute {
				return cli.UsageErrorf("--every must be a minute or more, not %s", every)
			}
			j, err := o.read(c.Context())
			if err != nil {
				return err
			}
			return repeat(c.Context(), clock.RealClock{}, every, func() error {
				err := j.save(c.Context(), s, time.Now())
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
		from LocationFlags
		out  cli.Output
	)
	c := &cobra.Command{
		Use:   "list --from LOCATION",
		Short: "List backups",
		Example: `  flagship backup list --from /mnt/backups
  flagship backup list --from s3://backups/production`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			in, err := from.Open()
			if err != nil {
				return err
			}
			found, err := backup.List(c.Context(), in)
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
	from.Add(c, "from", "where the backups are kept: DIR, s3://BUCKET or s3://BUCKET/PREFIX")
	out.Flags(c)
	return c
}

func newVerifyCommand(s cli.Streams) *cobra.Command {
	var one backupFlags
	c := &cobra.Command{
		Use:   "verify BACKUP",
		Short: "Read a whole backup and check that it is complete",
		Long: `Decrypts a backup, reads all of it, and compares it with its summary. What a restore makes of it is seen only by restoring it:
do that now and then, into a directory of another machine that cannot reach the members.`,
		Example: `  flagship backup verify /mnt/backups/flagship-1a2b3c4d-20260102T030405Z.tar.gz.age --passphrase-file /etc/flagship/passphrase`,
		Args:    cli.Exactly(1, "a backup"),
		RunE: func(c *cobra.Command, args []string) error {
			identities, file, err := one.open(c.Context(), args[0])
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
	one.add(c)
	return c
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
