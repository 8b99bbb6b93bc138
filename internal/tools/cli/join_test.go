package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestWhichControlPlane(t *testing.T) {
	touch := func(path ...string) string {
		file := filepath.Join(path...)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	state := t.TempDir()
	playground := touch(state, "flagship", "playground", "hub.kubeconfig")
	fromEnv := touch(t.TempDir(), "env")
	cases := map[string]struct {
		reason string
		access hubAccess
		env    string
		want   string
	}{
		"Flag":       {"what is said wins", hubAccess{kubeconfig: "said", dataDir: "dir"}, fromEnv, "said"},
		"DataDir":    {"so does a data directory", hubAccess{dataDir: "dir"}, fromEnv, filepath.Join("dir", "hub.kubeconfig")},
		"Env":        {"then comes KUBECONFIG", hubAccess{}, fromEnv, fromEnv},
		"EnvList":    {"which may be a list", hubAccess{}, "absent" + string(filepath.ListSeparator) + fromEnv, fromEnv},
		"EnvAbsent":  {"and is taken at its word", hubAccess{}, "absent", "absent"},
		"Playground": {"then what runs on this machine", hubAccess{}, "", playground},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", state)
			t.Setenv("KUBECONFIG", tc.env)
			if got, err := tc.access.path(); err != nil || got != tc.want {
				t.Errorf("%s: got %s, %v; want %s", tc.reason, got, err, tc.want)
			}
		})
	}
}

func TestMisuseIsOneClearLine(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("{{{ no\n\tyaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	type constructor = func(Streams) *cobra.Command
	cases := map[string]struct {
		command constructor
		args    []string
		misuse  bool
		want    string
	}{
		"JoinWithoutName":       {newJoinCommand, nil, true, "join needs the name"},
		"JoinWithoutKubeconfig": {newJoinCommand, []string{"m1"}, true, "--cluster-kubeconfig is needed"},
		"JoinGarbage":           {newJoinCommand, []string{"m1", "--cluster-kubeconfig", garbage}, false, "is no kubeconfig"},
		"JoinMissingFile":       {newJoinCommand, []string{"m1", "--cluster-kubeconfig", garbage + "x"}, false, "does not exist"},
		"UnjoinNoControlPlane":  {newUnjoinCommand, []string{"m1"}, false, "set --kubeconfig, KUBECONFIG or --data-dir"},
		"UnjoinGarbageHub":      {newUnjoinCommand, []string{"m1", "--kubeconfig", garbage}, false, "finding the control plane"},
		"CordonNobody":          {newCordonCommand, nil, true, "cordon needs the name"},
		"TaintNothing":          {newTaintCommand, []string{"m1"}, true, "at least one taint"},
		"TaintClustersNothing":  {newTaintCommand, []string{"clusters", "m1"}, true, "at least one taint"},
		"TaintNonsense":         {newTaintCommand, []string{"m1", "a:Never"}, true, "is none of NoSchedule"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c := tc.command(Streams{Out: &out, Err: &out})
			c.SilenceErrors, c.SilenceUsage = true, true
			c.SetArgs(append([]string{}, tc.args...))
			err := c.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || out.String() != "" {
				t.Fatalf("got %v and printed %q, want %q", err, out.String(), tc.want)
			}
			var misuse usageError
			if errors.As(err, &misuse) != tc.misuse {
				t.Errorf("%v counts as misuse: %v, want %v", err, !tc.misuse, tc.misuse)
			}
			if !tc.misuse && strings.Contains(err.Error(), "\n") {
				t.Errorf("the failure takes several lines: %q", err)
			}
		})
	}
}
