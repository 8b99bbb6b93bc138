package redact_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/tools/cli/support/redact"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"plain text stays: 3 of 5 clusters fit":                                  "plain text stays: 3 of 5 clusters fit",
		"Authorization: Bearer abc.def-ghi":                                      "Authorization: Bearer <removed>",
		"token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln ends":                   "token <removed> ends",
		"register with abcdef.0123456789abcdef now":                              "register with <removed> now",
		"https://user:seed@example.com/path":                                     "https://<removed>@example.com/path",
		"password=seed, user=me":                                                 "password=<removed>, user=me",
		`{"dbPassword":"seed","user":"me"}`:                                      `{"dbPassword":<removed>,"user":"me"}`,
		"-----BEGIN EC PRIVATE KEY-----\nc2VlZA==\n-----END EC PRIVATE KEY-----": "<removed>",
		"-----BEGIN PRIVATE KEY-----\nc2VlZA==":                                  "<removed>",
		`spec.x: Invalid value: "seed \" more": must be lower case`:              "spec.x: Invalid value: <removed>: must be lower case",
		"spec.x: Unsupported value: seed: supported values: a":                   "spec.x: Unsupported value: <removed>: supported values: a",
		"AGE-SECRET-KEY-1QQPQQ":                                                  "<removed>",
		"secretRef:\n  name: m1":                                                 "secretRef:\n  name: m1",
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	got := redact.Flags([]string{
		"/usr/bin/flagship", "server", "--port=6443", "--bind-address", "10.0.0.1", "--profiling", "--history-limit", "10", "--storage-quota=8Gi",
		"--undelete-period=24h", "--etcd-servers=https://u:seed@etcd:2379", "--token", "seed", "--plain=true", "--pin=12345678901234", "seed",
	})
	want := []string{
		"/usr/bin/flagship", "server", "--port=6443", "--bind-address", "10.0.0.1", "--profiling", "--history-limit", "10", "--storage-quota=8Gi",
		"--undelete-period=24h", "--etcd-servers=<removed>", "--token", "<removed>", "--plain=true", "--pin=<removed>", "<removed>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// Each object has the word seed wherever a secret may be, and the word kept where something is of use.
const objects = `
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: kept, annotations: {kubectl.kubernetes.io/last-applied-configuration: seed, example.com/x: seed, flagship.io/apply-as: kept}, managedFields: [{manager: seed}]}
spec: {apiEndpoint: "https://seed:seed@kept", proxyURL: "http://seed@kept", proxyHeader: {Authorization: seed}, secretRef: {name: kept}, later: seed}
status: {conditions: [{type: Ready, message: "kept Bearer seedseedseed"}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: kept, annotations: {kubectl.kubernetes.io/last-applied-configuration: seed}}
spec: {placement: {clusterAffinity: {clusterNames: [kept]}}, later: seed}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: kept}
spec:
  overrideRules:
  - targetCluster: {clusterNames: [kept]}
    overriders: {plaintext: [{path: /kept, operator: replace, value: seed}], argsOverrider: [{containerName: kept, operator: add, value: [seed]}], annotationsOverrider: [{value: {seed2: seed}}]}
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: kept, namespace: kept}
spec: {resource: {kind: kept, name: kept}, gracefulEvictionTasks: [{fromCluster: kept, preservedLabelState: {a: seed}}], later: seed}
status: {aggregatedStatus: [{clusterName: kept, health: Healthy, status: {password: seed, other: seed}}], conditions: [{message: 'x: Invalid value: "seed": kept'}]}
---
apiVersion: work.karmada.io/v1alpha1
kind: Work
metadata: {name: kept, namespace: karmada-es-m1, annotations: {policy.karmada.io/applied-overrides: 'x seed x', flagship.io/unknown: seed}}
spec:
  workload:
    manifests:
    - {apiVersion: v1, kind: Secret, metadata: {name: kept}, data: {a: seed}, stringData: {b: seed}}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {name: kept, annotations: {kubectl.kubernetes.io/last-applied-configuration: seed}}
      spec: {template: {spec: {containers: [{name: seed, args: ["--x=seed"], command: [seed], env: [{name: seed, value: seed}]}]}}}
    - {apiVersion: example.com/v1, kind: Database, metadata: {name: kept}, spec: {image: seed, replicas: 4711, auth: {value: seed}, list: [seed]}, status: {x: seed}}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {kubeconfig: seed}}
status: {manifestStatuses: [{identifier: {name: kept}, health: Healthy, status: {password: seed}}]}
---
apiVersion: v1
kind: Event
metadata: {name: kept, namespace: kept}
reason: kept
message: "kept password=seed"
later: seed
---
apiVersion: example.com/v1
kind: Other
metadata: {name: kept}
spec: {image: seed, x: [seed, {y: seed}]}
`

func TestObjectsHaveNoSeeds(t *testing.T) {
	for _, manifests := range []bool{false, true} {
		for text := range strings.SplitSeq(objects, "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				t.Fatal(err)
			}
			before := object.DeepCopy()
			out, err := yaml.Marshal(redact.Object(object, manifests))
			if err != nil {
				t.Fatal(err)
			}
			for _, seed := range []string{"seed:", "seed\n", "seedseed", "4711", "seed "} {
				if strings.Contains(strings.ReplaceAll(string(out), "seed2:", ""), seed) {
					t.Errorf("%s has a seed:\n%s", object.GetKind(), out)
				}
			}
			if !strings.Contains(string(out), "kept") || strings.Contains(string(out), "managedFields") {
				t.Errorf("%s became\n%s", object.GetKind(), out)
			}
			if a, b := before.Object, object.Object; !equal(t, a, b) {
				t.Errorf("%s was changed", object.GetKind())
			}
		}
	}
}

func equal(t *testing.T, a, b any) bool {
	t.Helper()
	one, err := yaml.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	other, err := yaml.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(one) == string(other)
}

// Manifests are of use only with their shape.
func TestManifestsHaveTheirShape(t *testing.T) {
	work := &unstructured.Unstructured{}
	const text = `
apiVersion: work.karmada.io/v1alpha1
kind: Work
spec: {workload: {manifests: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, template: {spec: {containers: [{image: "nginx:1", env: [{name: A, value: seed}]}]}}}},
  {apiVersion: v1, kind: Secret, metadata: {name: top}, data: {image: Y2FuYXJ5, port: Y2FuYXJ5}}]}}`
	if err := yaml.Unmarshal([]byte(text), &work.Object); err != nil {
		t.Fatal(err)
	}
	with, err := yaml.Marshal(redact.Object(work, true))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"replicas: 3", "image: nginx:1", "value: <4 bytes>"} {
		if !strings.Contains(string(with), want) {
			t.Errorf("%q is missing in\n%s", want, with)
		}
	}
	if strings.Contains(string(with), "Y2FuYXJ5") {
		t.Errorf("values of a Secret whose keys are names of fields are in\n%s", with)
	}
	without, err := yaml.Marshal(redact.Object(work, false))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(without), "nginx") {
		t.Errorf("manifests are in\n%s", without)
	}
}
