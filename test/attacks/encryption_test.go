package attacks_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// storedValues are the values under a prefix of a data directory's etcd, by key.
func storedValues(t *testing.T, dataDir, prefix string) map[string][]byte {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(dataDir, "sockets", "client.sock")}, DialTimeout: fleettest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	answer, err := etcd.Get(t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("reading %s: %v", prefix, err)
	}
	values := map[string][]byte{}
	for _, pair := range answer.Kvs {
		values[string(pair.Key)] = pair.Value
	}
	return values
}

// encryptedPrefixes are where objects are stored that hold Secrets or parts of them.
var encryptedPrefixes = []string{
	"/registry/secrets/", "/registry/work.karmada.io/works/", "/registry/work.karmada.io/resourcebindings/",
	"/registry/policy.karmada.io/overridepolicies/",
}

// storedWith returns whether there are objects under each prefix, and all of them are stored with the provider and key.
func storedWith(t *testing.T, dataDir, start string) error {
	t.Helper()
	for _, prefix := range encryptedPrefixes {
		values := storedValues(t, dataDir, prefix)
		if len(values) == 0 {
			return fmt.Errorf("nothing is stored under %s", prefix)
		}
		for key, value := range values {
			if !bytes.HasPrefix(value, []byte(start)) {
				return fmt.Errorf("%s is stored as %q", key, value[:min(len(value), 50)])
			}
		}
	}
	return nil
}

// filesWith are the files below a directory that hold one of the texts. A file that its owner renames meanwhile is not missed.
func filesWith(t *testing.T, dir string, texts ...string) (found []string) {
	t.Helper()
	until(t, func() (err error) {
		found, err = findIn(dir, texts...)
		return err
	})
	return found
}

func findIn(dir string, texts ...string) ([]string, error) {
	var found []string
	return found, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if bytes.Contains(content, []byte(text)) {
				found = append(found, fmt.Sprintf("%s holds %q", path, text))
			}
		}
		return nil
	})
}

// TestPropagatedSecretsAreNotInEtcdsFiles: who gets hold of a disk or a backup of the storage, without the key, reads
// nothing of Secrets, wherever they go.
func TestPropagatedSecretsAreNotInEtcdsFiles(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	const password, overridden, applied = "canary-of-the-template-5713", "canary-of-the-override-8264", "canary-of-kubectl-apply-9920"
	secret := fleettest.Secret(ns, "canary", map[string]string{"password": password, "other": "x"})
	secret.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"stringData":{"password":"` + applied + `"}}`, "stays": "true"}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	override := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "canary"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Secret", Name: secret.Name}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
				Path: "/data/other", Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(`"` + encode(overridden) + `"`)},
			}}}}},
		},
	}
	fleettest.Create(t, fleet.Hub, override, secret, fleettest.Policy(ns, "canary", fleettest.To("member1"), secret))

	there := fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.Secret(ns, "canary", nil), func(s *corev1.Secret) error {
		if string(s.Data["password"]) != password || string(s.Data["other"]) != overridden {
			return fmt.Errorf("it holds %v", s.Data)
		}
		return nil
	})
	if _, travels := there.Annotations[corev1.LastAppliedConfigAnnotation]; travels || there.Annotations["stays"] != "true" {
		t.Errorf("what kubectl applied to the control plane goes to members: %v", there.Annotations)
	}
	work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("member1"), Name: workv1alpha1.WorkName("Secret", ns, "canary")}}
	fleettest.ExpectEventually(t, fleet.Hub, work, func(w *workv1alpha1.Work) error {
		return fleettest.ConditionTrue(w.Status.Conditions, workv1alpha1.WorkApplied)
	})

	data := filepath.Join(fleet.Dir, "hub")
	for _, found := range filesWith(t, filepath.Join(data, "etcd"), password, encode(password), overridden, encode(overridden), applied) {
		t.Error(found)
	}
	if err := storedWith(t, data, "k8s:enc:secretbox:v1:"); err != nil {
		t.Error(err)
	}
}

// expectStored waits until everything is stored with the provider and key.
func expectStored(t *testing.T, dataDir, start string) {
	t.Helper()
	deadline := time.After(fleettest.Patience)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := storedWith(t, dataDir, start)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(err)
		}
	}
}

// TestEncryptionChangesWhileNothingIsLost follows one data directory from no encryption over the built-in key and a rotation
// of it to an encryption configuration of the operator's own. It takes 75 s beside other tests, for one start of a control plane after each change.
func TestEncryptionChangesWhileNothingIsLost(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t, "--plain-secrets")
	const password = "canary-through-all-changes-4417"
	manifest := []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"default"},"stringData":{"password":"` + password + `"}}`)
	execution := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha1.ExecutionNamespace("canary")}}
	work := &workv1alpha1.Work{
		ObjectMeta: metav1.ObjectMeta{Namespace: execution.Name, Name: "canary"},
		Spec: workv1alpha1.WorkSpec{Workload: workv1alpha1.WorkloadTemplate{
			Manifests: []workv1alpha1.Manifest{{RawExtension: runtime.RawExtension{Raw: manifest}}},
		}},
	}
	secret := fleettest.Secret("default", "canary", map[string]string{"password": password})
	override := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "canary"},
		Spec: policyv1alpha1.OverrideSpec{OverrideRules: []policyv1alpha1.RuleWithCluster{{
			Overriders: policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"a": "b"}}}},
		}}},
	}
	fleettest.Create(t, hub.Cluster, execution, secret, work, override, fleettest.Policy("default", "canary", fleettest.Everywhere(), secret))
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "canary-secret"}}
	fleettest.ExpectEventually(t, hub.Cluster, binding, fleettest.Exists)
	if err := storedWith(t, hub.Dir, "k8s:enc:"); err == nil {
		t.Fatal("this test begins with objects that are not encrypted")
	}
	readable := func() {
		t.Helper()
		fleettest.ExpectEventually(t, hub.Cluster, fleettest.Secret("default", "canary", nil), func(s *corev1.Secret) error {
			if string(s.Data["password"]) != password {
				return fmt.Errorf("it holds %v", s.Data)
			}
			return nil
		})
		fleettest.ExpectEventually(t, hub.Cluster, work, func(w *workv1alpha1.Work) error {
			if !bytes.Contains(w.Spec.Workload.Manifests[0].Raw, []byte(password)) {
				return fmt.Errorf("it holds %s", w.Spec.Workload.Manifests[0].Raw)
			}
			return nil
		})
		fleettest.ExpectEventually(t, hub.Cluster, binding, fleettest.Exists)
	}

	// A server that encrypts rewrites what it finds.
	hub.Kill()
	hub.Start(t, "--plain-secrets=false")
	expectStored(t, hub.Dir, "k8s:enc:secretbox:v1:generated:")
	readable()

	// The key rotates while the server runs.
	result := fleettest.Flagship(t, "encryption", "rotate", "--data-dir", hub.Dir)
	if result.Code != 0 || !strings.Contains(result.Stdout, "works.work.karmada.io: 1 stored") {
		t.Fatalf("rotating ended with %d: %s%s", result.Code, result.Stdout, result.Stderr)
	}
	keys, err := os.ReadFile(filepath.Join(hub.Dir, "pki", "secret-encryption.key"))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(keys))
	if len(fields) != 2 || fields[0] == "generated" {
		t.Fatalf("after a rotation there are %d words in the key file, want one key with a name", len(fields))
	}
	if err := storedWith(t, hub.Dir, "k8s:enc:secretbox:v1:"+fields[0]+":"); err != nil {
		t.Error(err)
	}
	readable()

	// The operator takes over, beginning with the file that reads what is stored.
	builtIn, err := os.ReadFile(filepath.Join(hub.Dir, "encryption.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "encryption.yaml")
	first := "providers:\n  - aesgcm:\n      keys:\n      - name: mine\n        secret: " + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef")) + "\n"
	if err := os.WriteFile(own, []byte(strings.Replace(string(builtIn), "providers:\n", first, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	hub.Kill()
	hub.Start(t, "--encryption-provider-config", own)
	readable()
	if result := fleettest.Flagship(t, "encryption", "rewrite", "--kubeconfig", hub.Kubeconfig); result.Code != 0 {
		t.Fatalf("rewriting ended with %d: %s%s", result.Code, result.Stdout, result.Stderr)
	}
	if err := storedWith(t, hub.Dir, "k8s:enc:aesgcm:v1:mine:"); err != nil {
		t.Error(err)
	}
	fleettest.ExpectRefusal(t, "does not encrypt with a key of its own", "encryption", "rotate", "--data-dir", hub.Dir)
}
