package backup_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/backup"
)

func TestWhatAStandbyNeeds(t *testing.T) {
	passphrase := filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(passphrase, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--from backups":                            "--dir DIR is needed",
		"--dir standby":                             "--from LOCATION is needed",
		"--dir standby --from s3://":                "names no bucket",
		"--dir standby --from backups":              "is needed to decrypt the backup",
		"--dir standby --from backups --every 10ms": "--every must be a second or more",
		"--dir standby --from backups --passphrase-file " + passphrase: "less than 12 bytes",
	} {
		c := backup.NewFollowCommand(cli.Streams{Out: io.Discard, Err: io.Discard})
		c.SetArgs(strings.Fields(args))
		c.SilenceErrors, c.SilenceUsage = true, true
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q in it", args, err, want)
		}
	}
	if _, err := os.Stat("standby"); err == nil {
		t.Error("a standby was made")
	}
}
