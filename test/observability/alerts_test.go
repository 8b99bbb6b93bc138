package observability_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// scenarios has for each alert samples with which it fires, and samples with which it does not; one sample a minute, from 0 seconds on.
// Times in samples are seconds since the beginning.
var scenarios = map[string]struct {
	fires, silent string
	// labels are some of those of the alert that fires.
	labels map[string]string
	// hours is how long the samples are; 1 if it is 0.
	hours int
}{
	"FlagshipMemberNotReady": {
		`flagship_cluster_ready{cluster="m1",instance="a"} 1x10 0x50
		 flagship_cluster_ready{cluster="m2",instance="a"} 1x60`,
		`flagship_cluster_ready{cluster="m1",instance="a"} 1x10 0x3 1x50
		 flagship_cluster_ready{cluster="m1",instance="b"} 1x60`, map[string]string{"cluster": "m1"}, 0},
	"FlagshipManyMembersNotReady": {
		`flagship_cluster_ready{cluster="m1"} 0x60
		 flagship_cluster_ready{cluster="m2"} 0x60
		 flagship_cluster_ready{cluster="m3"} 1x60
		 flagship_cluster_ready{cluster="m4"} 1x60`,
		`flagship_cluster_ready{cluster="m1"} 0x60
		 flagship_cluster_ready{cluster="m2"} 1x60
		 flagship_cluster_ready{cluster="m3"} 1x60
		 flagship_cluster_ready{cluster="m4"} 1x60`, nil, 0},
	"FlagshipWorksNotApplied": {
		`flagship_works_not_applied{cluster="m1",reason="AppliedFailed"} 3x60`,
		`flagship_works_not_applied{cluster="m1",reason="Held"} 3x60
		 flagship_works_not_applied{cluster="m2",reason="AppliedFailed"} 3x10 _x50`, map[string]string{"cluster": "m1"}, 0},
	"FlagshipSlowArrival": {
		histogram("flagship_template_arrival_seconds", "", "30", "60", "+Inf", 0, 10, 10),
		histogram("flagship_template_arrival_seconds", "", "1", "60", "+Inf", 10, 10, 10), nil, 0},
	"FlagshipConfigurationInvalid": {
		`flagship_configuration_valid{instance="a"} 1x10 0x50`,
		`flagship_configuration_valid{instance="a"} 1x10 0x3 1x50`, map[string]string{"instance": "a"}, 0},
	"FlagshipCredentialsNotRenewed": {
		`flagship_credential_renewal_timestamp_seconds{cluster="m1",use="controller"} 0x180`,
		`flagship_credential_renewal_timestamp_seconds{cluster="m1",use="controller"} 9000x180`, map[string]string{"cluster": "m1", "use": "controller"}, 3},
	"FlagshipCredentialsExpireSoon": {
		`flagship_credential_renewal_timestamp_seconds{cluster="m1",use="controller"} 0x180
		 flagship_credential_expiry_timestamp_seconds{cluster="m1",use="controller"} 100000x180`,
		// A member that grants tokens for a day only, which are renewed in time; and a token that ends in a month.
		`flagship_credential_renewal_timestamp_seconds{cluster="m1",use="controller"} 28800x180
		 flagship_credential_expiry_timestamp_seconds{cluster="m1",use="controller"} 86400x180
		 flagship_credential_renewal_timestamp_seconds{cluster="m2",use="controller"} 0x180
		 flagship_credential_expiry_timestamp_seconds{cluster="m2",use="controller"} 2600000x180`, map[string]string{"cluster": "m1"}, 3},
	"FlagshipAgentCertificateExpiresSoon": {
		`flagship_agent_certificate_expiry_timestamp_seconds{cluster="m1"} 500000x60`,
		// An agent that renews its certificate, at the last minute; a cluster that has left.
		`flagship_agent_certificate_expiry_timestamp_seconds{cluster="m1"} 605000x10 2592000x50
		 flagship_agent_certificate_expiry_timestamp_seconds{cluster="m2"} 500000x5 _x55`, map[string]string{"cluster": "m1"}, 0},
	"FlagshipControlPlaneGone": {
		`flagship_build_info{instance="a"} 1x20 _x40
		 flagship_agent_tunnel_connected{instance="c"} 1x60`,
		`flagship_build_info{instance="a"} 1x20 _x40
		 flagship_build_info{instance="b"} 1x60`, nil, 0},
	"FlagshipServerGone": {
		`up{instance="a",job="x"} 1x20 0x40
		 flagship_build_info{instance="a",job="x"} 1x20 _x40
		 up{instance="b",job="x"} 1x60
		 flagship_build_info{instance="b",job="x"} 1x60`,
		// Another program is down; a server restarts; a server has another address now.
		`up{instance="other"} 0x60
		 up{instance="a"} 1x20 0x3 1x37
		 flagship_build_info{instance="a"} 1x20 _x3 1x37
		 up{instance="b"} 1x20 _x40
		 flagship_build_info{instance="b"} 1x20 _x40`, map[string]string{"instance": "a"}, 0},
	"FlagshipNoLeader": {
		`leader_election_master_status{name="flagship",instance="a"} 1x20 0x40
		 leader_election_master_status{name="flagship",instance="b"} 0x60
		 leader_election_master_status{name="other",instance="b"} 1x60`,
		`leader_election_master_status{name="flagship",instance="a"} 1x20 0x40
		 leader_election_master_status{name="flagship",instance="b"} 0x21 1x39`, nil, 0},
	"FlagshipCertificateExpiresSoon": {
		`flagship_certificate_expiry_timestamp_seconds{instance="a",name="apiserver"} 2500000x60
		 flagship_certificate_expiry_timestamp_seconds{instance="b",name="apiserver"} 9000000x60`,
		`flagship_certificate_expiry_timestamp_seconds{instance="a",name="apiserver"} 2600000x60`, map[string]string{"instance": "a", "name": "apiserver"}, 0},
	"FlagshipAuthorityExpiresSoon": {
		`flagship_certificate_expiry_timestamp_seconds{instance="a",name="ca"} 33000000x60
		 flagship_certificate_expiry_timestamp_seconds{instance="b",name="ca"} 33000000x60`,
		// The successor has signed since 400 days before the end; other certificates live for a year.
		`flagship_certificate_expiry_timestamp_seconds{instance="a",name="ca"} 34000000x60
		 flagship_certificate_expiry_timestamp_seconds{instance="a",name="apiserver"} 30000000x60`, map[string]string{"name": "ca"}, 0},
	"FlagshipStorageRefuses": {
		// Writes are refused, reads are not.
		`etcd_requests_total{instance="a",operation="update",resource="leases"} 0+6x60
		 etcd_request_errors_total{instance="a",operation="update",resource="leases"} 0+6x60
		 etcd_requests_total{instance="a",operation="get",resource="leases"} 0+600x60
		 etcd_request_errors_total{instance="a",operation="get",resource="leases"} 1x60`,
		// Some clients leave before their answer; another server of etcd leads, after a minute.
		`etcd_requests_total{instance="a",operation="list",resource="works"} 0+10x60
		 etcd_request_errors_total{instance="a",operation="list",resource="works"} 0+4x60
		 etcd_requests_total{instance="a",operation="update",resource="leases"} 0+6x60
		 etcd_request_errors_total{instance="a",operation="update",resource="leases"} 0x20 6x40`,
		map[string]string{"instance": "a", "operation": "update"}, 0},
	"FlagshipBrakeEngaged":    {`flagship_brake_engaged{cluster="m1"} 1x60`, `flagship_brake_engaged{cluster="m1"} 0x60`, map[string]string{"cluster": "m1"}, 0},
	"FlagshipEvictionsHeld":   {`flagship_evictions_held 2x60`, `flagship_evictions_held 0x60`, nil, 0},
	"FlagshipDispatchingHeld": {`flagship_dispatching_held{cluster="m1"} 1x60`, `flagship_dispatching_held{cluster="m1"} 0x60`, map[string]string{"cluster": "m1"}, 0},
	"FlagshipLoopStuck": {
		`flagship_loop_longest_running_seconds{loop="apply"} 0+60x60`, `flagship_loop_longest_running_seconds{loop="apply"} 200x60`, map[string]string{"loop": "apply"}, 0},
	"FlagshipLoopPanics": {
		`flagship_loop_reconcile_total{loop="apply",result="panic"} 1+1x60`,
		`flagship_loop_reconcile_total{loop="apply",result="panic"} 4x60
		 flagship_loop_reconcile_total{loop="apply",result="error"} 1+1x60`, map[string]string{"loop": "apply"}, 0},
	"FlagshipControllerPanics": {
		`controller_runtime_reconcile_panics_total{controller="render-resourcebinding"} 0+1x60`,
		`controller_runtime_reconcile_panics_total{controller="render-resourcebinding"} 4x60`, map[string]string{"controller": "render-resourcebinding"}, 0},
	"FlagshipQueueSlow": {
		histogram("flagship_loop_queue_seconds", `loop="apply"`, "30", "60", "+Inf", 0, 10, 10),
		histogram("flagship_loop_queue_seconds", `loop="apply"`, "1", "60", "+Inf", 10, 10, 10), map[string]string{"loop": "apply"}, 0},
	"FlagshipControllerQueueSlow": {
		histogram("workqueue_queue_duration_seconds", `name="render-resourcebinding"`, "10", "100", "+Inf", 0, 10, 10),
		histogram("workqueue_queue_duration_seconds", `name="limit"`, "10", "100", "+Inf", 0, 10, 10), map[string]string{"name": "render-resourcebinding"}, 0},
	"FlagshipHistoryLost": {
		`flagship_history_lost_total{of="revision",reason="failed"} 0+1x60`,
		`flagship_history_lost_total{of="revision",reason="too_large"} 0+1x60`, map[string]string{"reason": "failed"}, 0},
	"FlagshipBackupOld": {
		`flagship_backup_last_timestamp_seconds 0x1800`, `flagship_backup_last_timestamp_seconds 0x1000 60000x800`, nil, 30},
	"FlagshipBackupMissing": {
		`flagship_storage_full 0x1800`,
		`flagship_storage_full 0x1800
		 flagship_backup_last_timestamp_seconds 0x1800`, nil, 30},
	"FlagshipStorageFull":       {`flagship_storage_full{instance="a"} 1x60`, `flagship_storage_full{instance="a"} 0x60`, map[string]string{"instance": "a"}, 0},
	"FlagshipStorageAlmostFull": {`flagship_storage_used_ratio{instance="a"} 0.81x60`, `flagship_storage_used_ratio{instance="a"} 0.8x60`, nil, 0},
	"FlagshipDiskAlmostFull":    {`flagship_storage_disk_free_bytes{instance="a"} 1e9x60`, `flagship_storage_disk_free_bytes{instance="a"} 2e9x60`, nil, 0},
	"FlagshipDefragmentationFails": {
		`flagship_storage_defragmentations_total{result="failed"} 0+1x60`, `flagship_storage_defragmentations_total{result="done"} 0+1x60`, nil, 0},
	"FlagshipDiskSlow": {
		histogram("etcd_disk_wal_fsync_duration_seconds", `instance="a"`, "0.128", "0.256", "+Inf", 0, 10, 10),
		histogram("etcd_disk_wal_fsync_duration_seconds", `instance="a"`, "0.008", "0.256", "+Inf", 10, 10, 10), map[string]string{"instance": "a"}, 0},
	"FlagshipAgentWithoutTunnel": {`flagship_agent_tunnel_connected{instance="a"} 0x60`, `flagship_agent_tunnel_connected{instance="a"} 1x60`, nil, 0},
}

// histogram is samples of three buckets that grow by these numbers each minute.
func histogram(name, labels, le1, le2, le3 string, n1, n2, n3 int) string {
	var b strings.Builder
	for i, le := range []string{le1, le2, le3} {
		fmt.Fprintf(&b, "%s_bucket{%s} 0+%dx60\n", name, strings.Trim(labels+`,le="`+le+`"`, ","), []int{n1, n2, n3}[i])
	}
	return b.String()
}

const deploy = "../../deploy/observability"

// alerts are those of the rules.
func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, faults := rulefmt.ParseFile(filepath.Join(deploy, "rules.yaml"), false, model.UTF8Validation)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestAlerts(t *testing.T) {
	tested := map[string]bool{}
	for _, rule := range alerts(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			scenario, has := scenarios[rule.Alert]
			if !has || tested[rule.Alert] {
				t.Fatal("the alert needs one scenario, and a name of its own")
			}
			tested[rule.Alert] = true
			hours := max(scenario.hours, 1)
			if got := fired(t, rule, scenario.silent, hours); len(got) > 0 {
				t.Errorf("it fires without a reason: %v", got)
			}
			got := fired(t, rule, scenario.fires, hours)
			if len(got) != 1 {
				t.Fatalf("it fires %d times, want once: %v", len(got), got)
			}
			for name, want := range scenario.labels {
				if got[0].Labels.Get(name) != want {
					t.Errorf("its labels are %s, want %s=%q", got[0].Labels, name, want)
				}
			}
			for _, text := range []string{"summary", "description"} {
				if value := got[0].Annotations.Get(text); value == "" || strings.Contains(value, "{{") || strings.Contains(value, "error") || strings.Contains(value, "<no value>") {
					t.Errorf("its %s is %q", text, value)
				}
			}
		})
	}
	for name := range maps.Keys(scenarios) {
		if !tested[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// fired evaluates a rule every minute, as Prometheus does, and returns what fires at any time, each once.
func fired(t *testing.T, rule rulefmt.Rule, samples string, hours int) (found []*rules.Alert) {
	t.Helper()
	store := promqltest.LoadedStorage(t, "load 1m\n  "+strings.ReplaceAll(strings.TrimSpace(samples), "\n", "\n  ")+"\n")
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	expr, err := parser.ParseExpr(rule.Expr)
	if err != nil {
		t.Fatal(err)
	}
	alert := rules.NewAlertingRule(rule.Alert, expr, time.Duration(rule.For), 0, labels.FromMap(rule.Labels), labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, promslog.NewNopLogger())
	query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, 1_000_000), store)
	for minute := range hours * 60 {
		if _, err := alert.Eval(t.Context(), 0, time.Unix(0, 0).Add(time.Duration(minute)*time.Minute), query, nil, 0); err != nil {
			t.Fatal(err)
		}
		alert.ForEachActiveAlert(func(a *rules.Alert) {
			if a.State == rules.StateFiring && !slices.ContainsFunc(found, func(b *rules.Alert) bool { return labels.Equal(a.Labels, b.Labels) }) {
				found = append(found, a)
			}
		})
	}
	return found
}

// TestRunbooks: each alert leads to a section of the page.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(page), -1) {
		sections["docs/troubleshooting.md#"+strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	for _, rule := range alerts(t) {
		if !sections[rule.Annotations["runbook_url"]] {
			t.Errorf("%s links to %q, which is no section", rule.Alert, rule.Annotations["runbook_url"])
		}
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has the severity %q", rule.Alert, severity)
		}
	}
}
