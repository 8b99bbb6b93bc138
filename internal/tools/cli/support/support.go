package support

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Options say what goes into a bundle.
type Options struct {
	Hub *rest.Config
	// DataDir is the data directory of a control plane on this machine, whose command line is added; "" for none.
	DataDir string
	// LogFile is added from its end; "" for none.
	LogFile string
	// Manifests adds the shape of the manifests in Works.
	Manifests bool
	// MaxObjects bounds the objects of each kind.
	MaxObjects int
	// Timeout bounds everything, MemberTimeout what is read of one member.
	Timeout, MemberTimeout time.Duration
	Clock                  clock.PassiveClock
}

// NewCommand is the command "support-bundle".
func NewCommand(s cli.Streams) *cobra.Command {
	var (
		hub  cli.HubAccess
		o    Options
		file string
	)
	c := &cobra.Command{
		Use:   "support-bundle",
		Short: "Collect what is needed to find a fault in one file, without secrets",
		Long: `Writes a tar.gz with versions, the results of 'flagship doctor', metrics, a goroutine dump, Clusters, policies, bindings, Works and
Events, as the caller may read them. With --data-dir, it has the command line of the control plane on this machine.

No Secret is read into it. Of objects it has listed fields only: manifests in Works are left out, or with --manifests kept in their shape,
with field names and without values; annotations of others, values of overriders and the status of users' kinds are left out. Free text is
searched for tokens, keys and passwords. The README inside lists the files. Read the bundle before you pass it on: names of objects,
namespaces, clusters and hosts are in it.`,
		Example: `  flagship support-bundle
  flagship support-bundle --data-dir /var/lib/flagship --log-file /var/log/flagship.log --file bundle.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.MaxObjects <= 0 || o.Timeout <= 0 || o.MemberTimeout <= 0 {
				return cli.UsageErrorf("--max-objects, --timeout and --member-timeout must be more than 0")
			}
			var err error
			if o.Hub, err = hub.Config(); err != nil {
				return err
			}
			o.DataDir, o.Clock = hub.DataDir, clock.RealClock{}
			path := cmp.Or(file, "flagship-support-"+o.Clock.Now().UTC().Format("20060102T150405Z")+".tar.gz")
			entries, err := write(cmd.Context(), path, o)
			if err != nil {
				return err
			}
			failed := 0
			for _, e := range entries {
				if e.Fault != "" {
					failed++
				}
			}
			fmt.Fprintf(s.Out, "%s: %d files, of which %d could not be read; README.md inside lists them\n", path, len(entries), failed)
			return nil
		},
	}
	hub.Flags(c)
	f := c.Flags()
	f.StringVar(&file, "file", "", "file to write, which must not exist (default: flagship-support-TIME.tar.gz)")
	f.StringVar(&o.LogFile, "log-file", "", "file with the output of the control plane, whose last 5 MiB are added")
	f.BoolVar(&o.Manifests, "manifests", false, "add the manifests in Works: field names, and of built-in kinds images, replicas, ports and resources")
	f.IntVar(&o.MaxObjects, "max-objects", 5000, "objects of each kind")
	f.DurationVar(&o.Timeout, "timeout", 5*time.Minute, "how long everything may take")
	f.DurationVar(&o.MemberTimeout, "member-timeout", 5*time.Second, "how long each member may take")
	return c
}

// write makes the file. One that is not complete is removed.
func write(ctx context.Context, path string, o Options) (_ []Entry, err error) {
	file, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the bundle: %w", err)
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return Write(ctx, file, o)
}
