package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/credentials"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/datadir"
	"github.com/flagship-k8s/flagship/internal/host/controlplane"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// run runs the program with the commands of this package.
func run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	build := func(s cli.Streams) *cobra.Command {
		return cli.Root(s, &cobra.Command{Use: "flagship"}, Commands(s))
	}
	code = cli.Run(build, args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// TestMisuseStartsNothing: a flag that makes no sense is refused before the data directory is touched.
func TestMisuseStartsNothing(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"Argument":        {"server now", "unknown command"},
		"UnknownFlag":     {"server --bind-to 0.0.0.0", "run 'flagship server --help' for the flags"},
		"Size":            {"server --namespace-size-limit many", "--namespace-size-limit is a quantity of bytes such as 2Gi"},
		"Objects":         {"server --namespace-object-limit -1", "--namespace-object-limit cannot be -1"},
		"Quota":           {"server --storage-quota 0", "--storage-quota cannot be 0"},
		"Pattern":         {"server --skipped-propagating-namespaces (", "--skipped-propagating-namespaces: "},
		"Encryption":      {"encryption", "encryption needs a command: rewrite, rotate"},
		"EncryptionStep":  {"encryption rotate --step undo", `--step cannot be "undo": it is one of [add use rewrite remove]`},
		"Certificates":    {"certificates", "certificates needs a command: rotate-authority"},
		"NoStep":          {"certificates rotate-authority", `--step cannot be "": it is one of [prepare switch finish]`},
		"Backup":          {"backup", "backup needs a command: create, list, schedule, verify"},
		"BackupWhere":     {"backup create", "--to LOCATION is needed"},
		"BackupPlain":     {"backup create --to backups", "a backup has private keys, and is always encrypted"},
		"BackupTwoWays":   {"backup create --to backups --passphrase-file p --recipient age1x", "either --passphrase-file, or --recipient"},
		"BackupRecipient": {"backup create --to backups --recipient me", "--recipient: "},
		"BackupBucket":    {"backup list --from s3://", "names no bucket"},
		"BackupEndpoint":  {"backup list --from s3://backups --s3-endpoint host", "is no URL of a server"},
		"BackupKeep":      {"backup create --to backups --keep -1", "--keep cannot be -1"},
		"BackupOften":     {"backup schedule --every 1s --to backups --recipient age1x", "--every must be a minute or more"},
		"BackupListWhere": {"backup list", "--from LOCATION is needed"},
		"VerifyNothing":   {"backup verify --passphrase-file p", "verify needs a backup"},
		"VerifyNoKey":     {"backup verify file", "one of --passphrase-file, --identity-file and --kms-plugin is needed"},
		"UnknownStep":     {"certificates rotate-authority --step undo", `--step cannot be "undo": it is one of [prepare switch finish]`},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			t.Setenv("XDG_STATE_HOME", state)
			t.Setenv("KUBECONFIG", "")
			code, out, errs := run(strings.Fields(tc.args)...)
			if code != 2 || out != "" || !strings.HasPrefix(errs, "error: ") || !strings.Contains(errs, tc.want) {
				t.Errorf("code %d, output %q, errors %q; want 2 and %q", code, out, errs, tc.want)
			}
			if made, err := os.ReadDir(state); err != nil || len(made) > 0 {
				t.Errorf("%v was made: %v", made, err)
			}
		})
	}
}

func TestRotateAuthority(t *testing.T) {
	dir := t.TempDir()
	rotate := func(step string) (int, string, string) {
		return run("certificates", "rotate-authority", "--data-dir", dir, "--step", step)
	}
	if code, out, errs := rotate("prepare"); code != 1 || out != "" || !strings.Contains(errs, "no control plane has its keys in "+filepath.Join(dir, "pki")) {
		t.Errorf("without a control plane: code %d, output %q, errors %q", code, out, errs)
	}
	if _, err := credentials.Open(t.Context(), credentials.Options{Dir: filepath.Join(dir, "pki"), ServiceCIDR: "10.96.0.0/16", Clock: clock.RealClock{}}); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := rotate("switch"); code != 1 || out != "" || !strings.HasSuffix(errs, "prepare one first\n") {
		t.Errorf("switch before prepare: code %d, output %q, errors %q; want what to do", code, out, errs)
	}
	for _, step := range []string{"prepare", "switch", "finish"} {
		if code, out, errs := rotate(step); code != 0 || out != "done; start the control plane again\n" || errs != "" {
			t.Errorf("%s: code %d, output %q, errors %q", step, code, out, errs)
		}
	}
	lock, err := datadir.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if code, out, errs := rotate("prepare"); code != 1 || out != "" || !strings.Contains(errs, "is in use by process") {
		t.Errorf("while the control plane runs: code %d, output %q, errors %q", code, out, errs)
	}
}

func TestCommandsNeedAControlPlane(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	missing := filepath.Join(t.TempDir(), "data")
	for args, want := range map[string]string{
		"encryption rotate --data-dir " + missing:      "finding the control plane: kubeconfig " + filepath.Join(missing, "hub.kubeconfig") + " does not exist",
		"encryption rewrite":                           "set --kubeconfig, KUBECONFIG or --data-dir",
		"encryption rewrite --kubeconfig " + missing:   "kubeconfig " + missing + " does not exist",
		"encryption rotate --step add --kubeconfig no": "kubeconfig no does not exist",
	} {
		if code, out, errs := run(strings.Fields(args)...); code != 1 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: code %d, output %q, errors %q; want 1 and %q", args, code, out, errs, want)
		}
	}
}

func TestStorageFlags(t *testing.T) {
	tests := map[string]struct {
		args                  string
		objects, bytes, quota int64
	}{
		"Defaults":  {"", 200_000, 1 << 30, 8 << 30},
		"Own":       {"--namespace-object-limit 5 --namespace-size-limit 1Mi --storage-quota 2Gi", 5, 1 << 20, 2 << 30},
		"Unlimited": {"--namespace-object-limit 0 --namespace-size-limit 0", -1, -1, 8 << 30},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var flags storageFlags
			var o controlplane.Options
			c := &cobra.Command{}
			flags.add(c.Flags())
			if err := c.ParseFlags(strings.Fields(tc.args)); err != nil {
				t.Fatal(err)
			}
			if err := flags.apply(&o); err != nil {
				t.Fatal(err)
			}
			if o.Tunable.NamespaceLimits.Objects != tc.objects || o.Tunable.NamespaceLimits.Bytes != tc.bytes || o.Server.StorageQuota != tc.quota {
				t.Errorf("limits are %+v and %d, want %d, %d and %d; 0 is the default in options and no limit in flags", o.Tunable.NamespaceLimits, o.Server.StorageQuota, tc.objects, tc.bytes, tc.quota)
			}
		})
	}
}
