package clusters

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func TestMisuseIsOneClearLine(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("{{{ no\n\tyaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	type constructor = func(cli.Streams) *cobra.Command
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
		"CordonWithoutName":     {newCordonCommand, nil, true, "cordon needs the name"},
		"TaintNothing":          {newTaintCommand, []string{"m1"}, true, "at least one taint"},
		"TaintClustersNothing":  {newTaintCommand, []string{"clusters", "m1"}, true, "at least one taint"},
		"TaintNonsense":         {newTaintCommand, []string{"m1", "a:Never"}, true, "is none of NoSchedule"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			c := tc.command(cli.Streams{Out: &out, Err: &out})
			c.SilenceErrors, c.SilenceUsage = true, true
			c.SetArgs(append([]string{}, tc.args...))
			err := c.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || out.String() != "" {
				t.Fatalf("got %v and printed %q, want %q", err, out.String(), tc.want)
			}
			var misuse cli.UsageError
			if errors.As(err, &misuse) != tc.misuse {
				t.Errorf("%v counts as misuse: %v, want %v", err, !tc.misuse, tc.misuse)
			}
			if !tc.misuse && strings.Contains(err.Error(), "\n") {
				t.Errorf("the failure takes several lines: %q", err)
			}
		})
	}
}
