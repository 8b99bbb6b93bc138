package internal_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// onlyForTrials are the packages that run and measure member clusters on one machine.
var onlyForTrials = regexp.MustCompile(`^(` + module + `internal/tools/(playground|bench|fleettest|cli/trial)(/.*)?` +
	`|sigs\.k8s\.io/kwok/.*` +
	`|k8s\.io/kubernetes/cmd/kube-controller-manager/.*` +
	`|k8s\.io/kubernetes/pkg/scheduler` +
	`|k8s\.io/kubernetes/pkg/controller/(deployment|replicaset|statefulset|daemon|job|cronjob))$`)

// TestTheServerLinksNoPlayground: what is shipped in an image carries no playground, bench, simulated nodes, scheduler of pods or
// controllers of workloads. cmd/flagship links them all, which shows that the pattern matches.
func TestTheServerLinksNoPlayground(t *testing.T) {
	for command, want := range map[string]bool{"flagship": true, "flagship-server": false} {
		packages, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../cmd/"+command).Output()
		if err != nil {
			t.Fatalf("listing the packages of %s: %v", command, err)
		}
		var found []string
		for name := range strings.Lines(string(packages)) {
			if name = strings.TrimSpace(name); onlyForTrials.MatchString(name) {
				found = append(found, name)
			}
		}
		if !want && len(found) > 0 {
			t.Errorf("%s links %v", command, found)
		}
		if want && len(found) < 10 {
			t.Errorf("%s links only %v of what trials need: correct the pattern", command, found)
		}
	}
}
