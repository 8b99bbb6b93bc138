package clusters

import (
	"strings"
	"testing"
)

// TestNamesOfClustersAreCompleted: arguments and flags that are names of Clusters complete to those of the control plane that are not
// given yet; without a control plane to nothing.
func TestNamesOfClustersAreCompleted(t *testing.T) {
	hub(t, cluster("east"), cluster("west"))
	for args, want := range map[string]string{
		"cordon ":                   "east west",
		"cordon east ":              "west",
		"uncordon ":                 "east west",
		"unjoin ":                   "east west",
		"taint ":                    "east west",
		"release-brake east ":       "west",
		"failover fence ":           "east west",
		"restore resume --cluster ": "east west",
		"orphans --cluster ":        "east west",
	} {
		code, out, errs := run(append([]string{"__completeNoDesc"}, strings.Split(args, " ")...)...)
		names, _, _ := strings.Cut(out, "\n:")
		if got := strings.Join(strings.Fields(names), " "); code != 0 || got != want {
			t.Errorf("%q completes to %q, want %q (code %d, %s)", args, got, want, code, errs)
		}
	}
	t.Setenv("KUBECONFIG", t.TempDir()+"/absent")
	if _, out, _ := run("__completeNoDesc", "cordon", ""); !strings.HasPrefix(out, ":") {
		t.Errorf("without a control plane it completes to %q", out)
	}
}
