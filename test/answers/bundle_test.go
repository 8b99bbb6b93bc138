package answers_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// seed is in every secret that the test makes.
const seed = "seed-6b1f"

// supportBundle puts secrets where users have them, and expects none of them, nor any credential of the fleet, in a bundle.
func supportBundle(t *testing.T, fleet *fleettest.Fleet, binary string) {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	web := fleettest.Deployment(shop, "seeded", 1)
	web.Annotations = map[string]string{lastApplied: seed}
	container := &web.Spec.Template.Spec.Containers[0]
	container.Env, container.Args = []corev1.EnvVar{{Name: "A", Value: seed}}, []string{"--password=" + seed}
	secret := fleettest.Secret(shop, "seeded", map[string]string{"a": seed})
	policy := fleettest.Policy(shop, "seeded", fleettest.To("member1", "member2"), web, secret)
	policy.Annotations = map[string]string{lastApplied: seed}
	overrides := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "seeded"}}
	overrides.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "seeded"}}
	overrides.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
		ArgsOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: container.Name, Operator: policyv1alpha1.OverriderOpAdd, Value: []string{seed}}},
	}}}
	suspended := true
	custom := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: "seeded-custom"}}
	custom.Spec.SuspendDispatching = &suspended
	custom.Spec.Workload.Manifests = []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"example.com/v1","kind":"Database","metadata":{"name":"x"},"spec":{"auth":{"value":"` + seed + `"}}}`)}}}
	fleettest.Create(t, fleet.Hub, secret, web, overrides, policy, custom)
	fleettest.ExpectEventually(t, fleet.Hub, &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace("member2"), Name: workv1alpha1.WorkName("Deployment", shop, "seeded"),
	}}, func(w *workv1alpha1.Work) error { // the rights there were removed
		if c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied); c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("its condition is %v", c)
		}
		return nil
	})

	kubeconfig := filepath.Join(fleet.Dir, "hub.kubeconfig")
	metrics := []string{ // what deploy/observability and the checks of storage use of the programs inside
		`etcd_disk_wal_fsync_duration_seconds_bucket\{le="0.128"\}`, `etcd_mvcc_db_total_size_in_bytes [1-9]`, `etcd_mvcc_db_total_size_in_use_in_bytes [1-9]`,
		`workqueue_queue_duration_seconds_bucket\{[^}]*name="propagate"`, `workqueue_queue_duration_seconds_bucket\{[^}]*name="schedule"`,
		`workqueue_queue_duration_seconds_bucket\{[^}]*name="render-resourcebinding"`, `workqueue_queue_duration_seconds_bucket\{[^}]*name="aggregate"`,
		`apiserver_request_total\{code="[^}]*verb="`, `(?m)^process_resident_memory_bytes [1-9]`,
		`flagship_cluster_ready\{cluster="member1"\} 1\n`, `flagship_cluster_ready\{cluster="member3"\} 0\n`,
		`flagship_works_not_applied\{cluster="member2",reason="Forbidden"\} [1-9]`, `flagship_work_arrival_seconds_count [1-9]`,
		`flagship_credential_renewal_timestamp_seconds\{cluster="member2",use="controller"\} [1-9]`,
	}
	seeds := append(credentials(t, fleet, kubeconfig), seed)
	for _, args := range [][]string{nil, {"--manifests"}} {
		var files map[string]string
		fleettest.Eventually(t, "a bundle with all metrics", func() bool { // a metric follows the condition that it counts a moment later
			files = unpack(t, binary, append([]string{"--kubeconfig", kubeconfig, "--data-dir", filepath.Join(fleet.Dir, "hub")}, args...)...)
			for _, want := range metrics {
				if !regexp.MustCompile(want).MatchString(files["metrics.txt"]) {
					t.Logf("metrics.txt lacks %s", want)
					return false
				}
			}
			return strings.Contains(files["readyz.txt"], "ok")
		})
		for name, content := range files {
			for _, s := range seeds {
				if strings.Contains(content, s) || strings.Contains(content, base64.StdEncoding.EncodeToString([]byte(s))) {
					t.Errorf("%s has a secret of %d bytes that begins with %.9s", name, len(s), s)
				}
			}
			if name != "README.md" && !strings.Contains(files["README.md"], "| "+name+" |") {
				t.Errorf("README.md lacks %s", name)
			}
		}
		for name, want := range map[string]string{
			"version.json": "goVersion|platform", "server-version.json": "gitVersion", "doctor.txt": "member3: ClusterNotReachable", "readyz.txt": "ok",
			"flags.txt": `(?m)^up$`, "clusters.yaml": "name: member3", "propagationpolicies.yaml": "name: seeded",
			"overridepolicies.yaml": "operator: add", "resourcebindings.yaml": "name: seeded-deployment", "works.yaml": "kind: Database", "events.yaml": "reason: ",
			"clusterresourcebindings.yaml": "", "README.md": "goroutines.txt .* not complete: ",
		} {
			if content, has := files[name]; !has || !regexp.MustCompile(want).MatchString(content) {
				t.Errorf("%s lacks %q, it is\n%.2000s", name, want, content)
			}
		}
	}
}

// credentials are the values of all Secrets of the fleet, and the key of the operator.
func credentials(t *testing.T, fleet *fleettest.Fleet, kubeconfig string) (values []string) {
	t.Helper()
	var secrets corev1.SecretList
	if err := fleet.Hub.List(t.Context(), &secrets, client.InNamespace(clusterv1alpha1.ClusterNamespace)); err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		for key, value := range s.Data {
			if key == clusterv1alpha1.SecretTokenKey || key == clusterv1alpha1.SecretRenewalTokenKey {
				values = append(values, string(value))
			}
		}
	}
	if len(values) < 6 {
		t.Fatalf("the fleet has %d tokens", len(values))
	}
	access, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range access.AuthInfos {
		values = append(values, string(user.ClientKeyData))
	}
	return values
}

// unpack makes a bundle and returns its files by name.
func unpack(t *testing.T, binary string, args ...string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if out, err := exec.CommandContext(t.Context(), binary, append([]string{"support-bundle", "--file", path}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "flagship-support/")] = string(content)
	}
}
