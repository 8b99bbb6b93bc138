package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/backup"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	backupcli "github.com/flagship-k8s/flagship/internal/tools/cli/backup"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/checks"
	"github.com/flagship-k8s/flagship/internal/tools/cli/doctor/gather"
)

// Exit codes, besides 0 if all is well. A command line that makes no sense ends with 2, too, and prints no result.
const (
	// exitWarning: something is a warning or could not be checked.
	exitWarning cli.Exit = 1
	// exitFailure: something failed.
	exitFailure cli.Exit = 2
)

// NewCommand is the command "doctor".
func NewCommand(s cli.Streams) *cobra.Command {
	var (
		hub     cli.HubAccess
		out     cli.Output
		o       options
		backups backupcli.LocationFlags
	)
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check the control plane and its members, and print what is wrong and what to do",
		Long: `Checks storage, certificates, credentials, clocks, members, versions, rights, brakes, conditions, deletions that do not end, and
what is left over. It changes nothing and needs no rights of its own: what the caller may not read is "unchecked".

Exit codes: 0 all is well, 1 something is a warning or could not be checked, 2 something failed.`,
		Example: `  flagship doctor
  flagship doctor --backup-dir /mnt/backups --backup-age 7h
  flagship doctor -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			cfg, err := hub.Config()
			if err != nil {
				return err
			}
			results, err := run(cmd.Context(), cfg, o, &backups)
			if err != nil {
				return err
			}
			if err := out.PrintText(s, results, func() string { return Text(results) }); err != nil {
				return err
			}
			switch checks.Worst(results) {
			case checks.Failure:
				return exitFailure
			case checks.Warning, checks.Unchecked:
				return exitWarning
			default:
				return nil
			}
		},
	}
	hub.Flags(c)
	out.Flags(c)
	f := c.Flags()
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long all checks may take")
	f.DurationVar(&o.memberTimeout, "member-timeout", 5*time.Second, "how long each member may take; members are checked at the same time")
	f.DurationVar(&o.patience, "patience", 5*time.Minute, "how long a deletion, a certificate request of an agent, or an object without what it belongs to is no trouble")
	backups.Add(c, "backup-dir", "where backups are kept whose newest one is checked, a directory or s3://BUCKET/PREFIX (default: the time that the control plane has of its last backup)")
	f.DurationVar(&o.backupAge, "backup-age", 24*time.Hour, "age above which the newest backup is a failure")
	return c
}

type options struct {
	timeout, memberTimeout, patience, backupAge time.Duration
}

func (o options) check() error {
	if o.timeout <= 0 || o.memberTimeout <= 0 || o.backupAge <= 0 {
		return cli.UsageErrorf("--timeout, --member-timeout and --backup-age must be more than 0")
	}
	return nil
}

func run(ctx context.Context, cfg *rest.Config, o options, backups *backupcli.LocationFlags) ([]checks.Result, error) {
	facts, err := Facts(ctx, cfg, o.timeout, o.memberTimeout)
	if err != nil {
		return nil, err
	}
	facts.Patience, facts.BackupAge = o.patience, o.backupAge
	if backups.Given() {
		in, err := backups.Open()
		if err != nil {
			return nil, err
		}
		stored, err := backup.List(ctx, in)
		facts.Backups = &checks.Read[[]time.Time]{Err: err}
		for _, b := range stored {
			facts.Backups.Value = append(facts.Backups.Value, b.Time)
		}
	}
	return checks.Run(facts), nil
}

// Facts reads what the checks judge in bounded time.
func Facts(ctx context.Context, cfg *rest.Config, timeout, memberTimeout time.Duration) (checks.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return gather.Facts(ctx, gather.Options{Hub: cfg, MemberTimeout: memberTimeout, Clock: clock.RealClock{}})
}

// width is how wide results are printed.
const width = 110

// Text is a table of results, with what to do below each.
func Text(results []checks.Result) string {
	var b strings.Builder
	prefix := "%-9s  %-16s  "
	below := strings.Repeat(" ", len(fmt.Sprintf(prefix, "", "")))
	last := ""
	for _, r := range results {
		name := r.Check
		if name == last {
			name = ""
		}
		last = r.Check
		fmt.Fprintf(&b, prefix, r.Status, name)
		fmt.Fprintln(&b, wrapped(r.Found, below))
		if r.Next != "" {
			fmt.Fprintln(&b, below+wrapped("next: "+r.Next, below))
		}
	}
	return b.String()
}

// wrapped breaks a text into lines, which begin with an indent but for the first. What members and tenants wrote controls no terminal.
func wrapped(text, indent string) string {
	var b strings.Builder
	line := len(indent)
	for i, word := range strings.Fields(cli.Printable(text)) {
		switch {
		case i == 0:
		case line+1+len(word) > width:
			b.WriteString("\n" + indent)
			line = len(indent)
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}
