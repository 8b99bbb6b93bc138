package preview_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/preview"
)

const examples = "../../../../examples/preview/"

// run runs a command, and returns its exit code and what it printed.
func run(t *testing.T, input string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(func(s cli.Streams) *cobra.Command {
		return cli.Root(s, &cobra.Command{Use: "flagship"}, preview.Commands(s))
	}, args, cli.Streams{In: strings.NewReader(input), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// file writes a file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const fleet = `
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member1}, status: {conditions: [{type: Ready, status: "True"}], apiEnablements: [
    {groupVersion: v1, resources: [{name: secrets, kind: Secret}]}]}}
- {apiVersion: policy.karmada.io/v1alpha1, kind: PropagationPolicy, metadata: {name: keys, namespace: shop},
   spec: {resourceSelectors: [{apiVersion: v1, kind: Secret}], placement: {}}}
- {apiVersion: v1, kind: Secret, metadata: {name: key, namespace: shop}, data: {a: b2xk}}
`

const changedKey = `{apiVersion: v1, kind: Secret, metadata: {name: key, namespace: shop}, data: {a: bmV3}}`

func TestPreviewOfAnExport(t *testing.T) {
	snapshot := file(t, fleet)
	code, out, errs := run(t, changedKey, "preview", "--hub-snapshot", snapshot, "-f", "-")
	want := `Objects change in 1 cluster.
update   Secret shop/key
  - /data/a: "(hidden)"
  + /data/a: "(hidden)"
update   Secret shop/key in member1
  - /data/a: "(hidden)"
  + /data/a: "(hidden)"
`
	if code != 1 || out != want || errs != "" {
		t.Errorf("a changed Secret: code %d, errors %q, output\n%s", code, errs, out)
	}
	if code, out, _ := run(t, changedKey, "preview", "--hub-snapshot", snapshot, "-f", "-", "--delete", "-o", "table"); code != 1 || out != `CHANGE  OBJECT           DETAILS
Delete  Secret shop/key
Place   Secret shop/key  member1: leaves
Delete  Secret shop/key  member1
` {
		t.Errorf("a deleted Secret: code %d\n%s", code, out)
	}
	if code, out, _ := run(t, strings.Replace(changedKey, "bmV3", "b2xk", 1), "preview", "--hub-snapshot", snapshot, "-f", "-", "-o", "json"); code != 0 || !strings.Contains(out, `"Nothing changes."`) {
		t.Errorf("nothing changes: code %d\n%s", code, out)
	}
	for _, format := range []string{"json", "yaml", "diff", "table"} {
		if _, out, _ := run(t, changedKey, "preview", "--hub-snapshot", snapshot, "-f", "-", "-o", format); strings.Contains(out, "bmV3") {
			t.Errorf("%s has the value of a Secret:\n%s", format, out)
		}
	}
}

const farm = `
apiVersion: v1
kind: List
items:
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member1}, status: {conditions: [{type: Ready, status: "True"}], apiEnablements: [
    {groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]}}
- {apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member2}, status: {conditions: [{type: Ready, status: "True"}], apiEnablements: [
    {groupVersion: apps/v1, resources: [{name: deployments, kind: Deployment}]}]}}
- apiVersion: policy.karmada.io/v1alpha1
  kind: PropagationPolicy
  metadata: {name: web, namespace: shop}
  spec:
    resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
    failover: {cluster: {purgeMode: Gracefully}}
    placement:
      clusterTolerations: [{key: repair, operator: Exists, effect: NoExecute, tolerationSeconds: 2400}]
      replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop}
  spec: {replicas: 4, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: web:1}]}}}
`

func TestPreviewHasTimesAndTaints(t *testing.T) {
	snapshot := file(t, farm)
	const repairs = `
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: repairs}
spec:
  targetClusters: {clusterNames: [member2]}
  addOnConditions: [{conditionType: Ready, operator: In, statusValues: ["True"]}]
  taints: [{key: repair, effect: NoExecute}]
`
	code, out, errs := run(t, repairs, "preview", "--hub-snapshot", snapshot, "-f", "-")
	want := `Taints of 1 cluster change; 1 object is placed otherwise; objects change in 1 cluster.
create   ClusterTaintPolicy repairs
taint    Cluster member2
  + repair:NoExecute
place    Deployment shop/web
  member1: 2 → 4 replicas in 40m
  member2: leaves in 40m when the copies elsewhere are healthy (evicted: The taint repair:NoExecute of cluster member2 is not tolerated)
update   Deployment shop/web in member1 in 40m
  - /spec/replicas: 2
  + /spec/replicas: 4
`
	if code != 1 || out != want || errs != "" {
		t.Errorf("a policy that taints: code %d, errors %q, output\n%s", code, errs, out)
	}
	code, out, errs = run(t, `{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: member2}}`, "preview", "--hub-snapshot", snapshot, "-f", "-", "--delete", "-o", "table")
	want = `CHANGE  OBJECT               DETAILS
Delete  Cluster member2
Place   Deployment shop/web  member1: 2 → 4 replicas
Place   Deployment shop/web  member2: leaves
Update  Deployment shop/web  member1 1 field
Delete  Deployment shop/web  member2
`
	if code != 1 || out != want || errs != "" {
		t.Errorf("a Cluster that is deleted: code %d, errors %q, output\n%s", code, errs, out)
	}
}

func TestPreviewIsMisused(t *testing.T) {
	snapshot := file(t, fleet)
	for text, args := range map[string][]string{
		"needs objects": {"preview"}, "is none of diff": {"preview", "-f", "-", "-o", "x"}, "previews nothing": {"preview", "--export", "x", "-f", "y"},
		"needs a control plane": {"preview", "--hub-snapshot", snapshot, "--members", "-f", "-"}, "no such file": {"preview", "--hub-snapshot", snapshot, "-f", "absent"},
		"has no .yaml": {"preview", "--hub-snapshot", snapshot, "-f", t.TempDir()}, "reading a manifest": {"preview", "--hub-snapshot", snapshot, "-f", "-"},
		"requires at least 1 arg": {"test"},
	} {
		if code, out, errs := run(t, "a: b", args...); code != 2 || !strings.Contains(errs, text) || out != "" {
			t.Errorf("%v: code %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestCases(t *testing.T) {
	if code, out, errs := run(t, "", "test", examples+"placement_test.yaml"); code != 0 || !strings.HasSuffix(out, "ok    4 cases\n") {
		t.Errorf("the example: code %d, %s%s", code, out, errs)
	}
	content, err := os.ReadFile(examples + "placement_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	web, err := os.ReadFile(examples + "web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cases.yaml": strings.NewReplacer("member2: 2}", "member2: 3}", "policy: shop/web", "policy: other", "refused: true", "refused: false").Replace(string(content)), "web.yaml": string(web),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, _ := run(t, "", "test", filepath.Join(dir, "cases.yaml"))
	for _, want := range []string{
		"Deployment shop/web is placed at member1:1 member2:2, want member1:1 member2:3", `belongs to policy "shop/web", want "other"`,
		"PropagationPolicy shop/broken is refused: ", "FAIL  2 of 4 cases", "cases.yaml: a taint keeps it out",
	} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("code %d, no %q in\n%s", code, want, out)
		}
	}
	for text, content := range map[string]string{
		`unknown field "case"`: "case: []", "has no cases": "cases: []", "something to expect": "cases: [{name: a}]", "needs apiVersion": "cases: [{name: a, apply: [{}], expect: [{kind: a, name: b}]}]",
	} {
		if code, out, errs := run(t, "", "test", file(t, content)); code != 2 || !strings.Contains(errs, text) || out != "" {
			t.Errorf("%s: code %d, %q, %q", content, code, out, errs)
		}
	}
}
