package internal_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// onlyForTrials are the packages that run and measure member clusters on one machine, and kubectl's commands.
var onlyForTrials = regexp.MustCompile(`^(` + module + `internal/tools/(playground|bench|fleettest|cli/trial|cli/members)(/.*)?` +
	`|k8s\.io/(kubectl/pkg/cmd|cli-runtime)/.*` +
	`|sigs\.k8s\.io/kwok/.*` +
	`|k8s\.io/kubernetes/cmd/kube-controller-manager/.*` +
	`|k8s\.io/kubernetes/pkg/scheduler` +
	`|k8s\.io/kubernetes/pkg/controller/(deployment|replicaset|statefulset|daemon|job|cronjob))$`)

// onlyForServers are the packages of an API server and its storage.
var onlyForServers = regexp.MustCompile(`^(` + module + `internal/host/(apiserver|controlplane)(/.*)?` +
	`|k8s\.io/kubernetes/pkg/(controlplane|registry)(/.*)?` +
	`|k8s\.io/apiserver/pkg/server(/.*)?` +
	`|go\.etcd\.io/etcd/server/.*)$`)

// TestTheServerLinksNoPlayground: what is shipped in an image carries no playground, bench, simulated nodes, scheduler of pods or
// controllers of workloads. cmd/flagship links them all, which shows that the pattern matches.
func TestTheServerLinksNoPlayground(t *testing.T) {
	expectLinked(t, onlyForTrials, map[string]bool{"flagship": true, "flagship-server": false, "flagship-agent": false})
}

// TestTheAgentLinksNoServer: an API server would make the agent three times as large.
func TestTheAgentLinksNoServer(t *testing.T) {
	expectLinked(t, onlyForServers, map[string]bool{"flagship-server": true, "flagship-agent": false})
}

// expectLinked fails if a command links packages of a pattern that it must not link, or hardly any where it is to link them.
func expectLinked(t *testing.T, pattern *regexp.Regexp, commands map[string]bool) {
	t.Helper()
	for command, want := range commands {
		packages, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../cmd/"+command).Output()
		if err != nil {
			t.Fatalf("listing the packages of %s: %v", command, err)
		}
		var found []string
		for name := range strings.Lines(string(packages)) {
			if name = strings.TrimSpace(name); pattern.MatchString(name) {
				found = append(found, name)
			}
		}
		if !want && len(found) > 0 {
			t.Errorf("%s links %v", command, found)
		}
		if want && len(found) < 10 {
			t.Errorf("%s links only %v of what it needs: correct the pattern", command, found)
		}
	}
}
