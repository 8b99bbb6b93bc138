package chart

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../charts/flagship"

type values = map[string]any

// installation is one way to install the chart.
type installation struct {
	namespace string
	values    values
	// kinds are those of the objects, in alphabetical order.
	kinds string
}

func installations() map[string]installation {
	return map[string]installation{
		"Single": {"fleet", values{}, "ConfigMap NetworkPolicy Service Service ServiceAccount StatefulSet"},
		"Three": {"three", values{"server": values{
			"replicas": 3, "etcd": values{"servers": []any{"https://etcd-0:2379", "https://etcd-1:2379"}, "secret": "etcd-client"},
			"pki": values{"secret": "keys"}, "persistence": values{"size": "1Gi", "storageClassName": "simulated"},
			"config":        values{"brakeShare": 0.3, "tlsSan": []any{"fleet.example.com"}, "enableBootstrapTokenAuth": true},
			"networkPolicy": values{"from": []any{values{"namespaceSelector": values{}}}}, "serviceMonitor": values{"enabled": true, "tokenSecret": "metrics"},
			"prometheusRule": values{"enabled": true, "labels": values{"release": "prometheus"}}, "dashboard": values{"enabled": true},
			"env": []any{values{"name": "FLAGSHIP_HISTORY_LIMIT", "value": "5"}}, "nodeSelector": values{"disk": "fast"}, "tolerations": []any{values{"operator": "Exists"}},
			"service": values{"type": "NodePort", "annotations": values{"a": "b"}},
		}, "imagePullSecrets": []any{values{"name": "registry"}}},
			"ConfigMap ConfigMap NetworkPolicy PodDisruptionBudget PrometheusRule Service Service ServiceAccount ServiceMonitor StatefulSet"},
		// A setting names a file, of a Secret.
		"Files": {"files", values{"server": values{
			"config":        values{"encryptionProviderConfig": "/etc/flagship/files/encryption.yaml", "encryptionProviderConfigAutomaticReload": true},
			"files":         values{"secret": "files"},
			"networkPolicy": values{"enabled": false}, "dashboard": values{"enabled": true, "label": "board", "labelValue": "true"},
			"service":   values{"type": "LoadBalancer", "port": 6443},
			"resources": values{"limits": values{"memory": "4Gi", "cpu": 2}},
			"image":     values{"repository": "registry.example.com/flagship-server", "tag": "1.2.3", "pullPolicy": "Always"},
		}}, "ConfigMap ConfigMap Service Service ServiceAccount StatefulSet"},
		// An etcd without certificates.
		"PlainEtcd": {"plain", values{"server": values{
			"replicas": 2, "etcd": values{"servers": []any{"http://etcd-0:2379"}}, "pki": values{"secret": "keys"},
		}}, "ConfigMap NetworkPolicy PodDisruptionBudget Service Service ServiceAccount StatefulSet"},
		"Agent": {"karmada-cluster", values{"server": values{"enabled": false}, "agent": values{
			"enabled": true, "cluster": "far", "bootstrapSecret": "bootstrap", "config": values{"metricsBindAddress": ":8080"},
		}}, "ClusterRole ClusterRoleBinding ConfigMap Deployment NetworkPolicy Secret ServiceAccount"},
		"LeanAgent": {"karmada-cluster", values{"server": values{"enabled": false}, "agent": values{
			"enabled": true, "cluster": "near", "bootstrapSecret": "bootstrap", "replicas": 1, "networkPolicy": values{"enabled": false},
			"nodeSelector": values{"disk": "fast"}, "tolerations": []any{values{"operator": "Exists"}},
			"rules": []any{values{"apiGroups": []any{"apps"}, "resources": []any{"deployments"}, "verbs": []any{"get", "list", "watch", "create", "patch", "delete"}}},
		}, "imagePullSecrets": []any{values{"name": "registry"}}}, "ClusterRole ClusterRoleBinding ConfigMap Deployment Role RoleBinding Secret ServiceAccount"},
	}
}

// render returns the objects of an installation.
func render(t *testing.T, i installation) ([]*unstructured.Unstructured, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return renderChart(t, chart, i)
}

func renderChart(t *testing.T, chart *v2.Chart, i installation) ([]*unstructured.Unstructured, error) {
	t.Helper()
	options := common.ReleaseOptions{Name: releaseName, Namespace: i.namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, i.values, options, common.DefaultCapabilities.Copy())
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(t.Context(), chart, all)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range strings.Split(files[name], "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict([]byte(document+"\n"), &object.Object); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// TestLint: helm lint finds nothing.
func TestLint(t *testing.T) {
	for name, i := range installations() {
		t.Run(name, func(t *testing.T) {
			linter := lint.RunAll(chartDir, i.values, i.namespace)
			for _, message := range linter.Messages {
				if message.Severity > support.InfoSev {
					t.Error(message)
				}
			}
		})
	}
}

// TestSettingsOfPods: an installation has the objects that it is to have, and containers without privileges.
func TestSettingsOfPods(t *testing.T) {
	for name, i := range installations() {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, i)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, object := range objects {
				kinds = append(kinds, object.GetKind())
			}
			if slices.Sort(kinds); strings.Join(kinds, " ") != i.kinds {
				t.Errorf("it has %v, want %s", kinds, i.kinds)
			}
			pod, _ := podOf(t, objects)
			expectBounded(t, pod)
		})
	}
}

// TestPackage: what a release packages with its version installs the images of that version.
func TestPackage(t *testing.T) {
	packaging := action.NewPackage()
	packaging.Version, packaging.AppVersion, packaging.Destination = "1.2.3", "1.2.3", t.TempDir()
	file, err := packaging.Run(chartDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	chart, err := loader.LoadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string]string{"Three": "ghcr.io/flagship-k8s/flagship-server:1.2.3", "Agent": "ghcr.io/flagship-k8s/flagship-agent:1.2.3"} {
		i := installations()[name]
		packaged, err := renderChart(t, chart, i)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects, err := render(t, i)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(packaged) != len(objects) {
			t.Errorf("%s: the package has %d objects, want %d", name, len(packaged), len(objects))
		}
		if pod, _ := podOf(t, packaged); pod.Containers[0].Image != image {
			t.Errorf("%s: the image is %s, want %s", name, pod.Containers[0].Image, image)
		}
		for _, object := range packaged {
			if labels := object.GetLabels(); labels["helm.sh/chart"] != "flagship-1.2.3" || labels["app.kubernetes.io/version"] != "1.2.3" {
				t.Errorf("%s: %s %s has the labels %v", name, object.GetKind(), object.GetName(), labels)
			}
		}
	}
}

func expectBounded(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; !*s.RunAsNonRoot || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.EnableServiceLinks {
		t.Errorf("the pod is %+v", pod)
	}
	mounted := map[string]bool{}
	for _, volume := range pod.Volumes {
		mounted[volume.Name] = true
	}
	for _, c := range pod.Containers {
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() {
			t.Errorf("the container %s has no bound on its memory: %+v", c.Name, c.Resources)
		}
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("the container %s has %+v", c.Name, s)
		}
		for _, mount := range c.VolumeMounts {
			if !mounted[mount.Name] && mount.Name != "data" { // of the template for claims
				t.Errorf("the container %s mounts %s, which does not exist", c.Name, mount.Name)
			}
		}
	}
}

// podOf returns the pods of an installation and the content of its ConfigMap.
func podOf(t *testing.T, objects []*unstructured.Unstructured) (pod corev1.PodSpec, config string) {
	t.Helper()
	for _, object := range objects {
		var err error
		switch object.GetKind() {
		case "StatefulSet":
			var set appsv1.StatefulSet
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set)
			pod = set.Spec.Template.Spec
			expectSelected(t, set.Spec.Selector, set.Spec.Template.Labels)
		case "Deployment":
			var set appsv1.Deployment
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &set)
			pod = set.Spec.Template.Spec
			expectSelected(t, set.Spec.Selector, set.Spec.Template.Labels)
		case "ConfigMap":
			data, _, _ := unstructured.NestedStringMap(object.Object, "data")
			for key, text := range data {
				if strings.HasSuffix(key, ".yaml") {
					config = text
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return pod, config
}

func expectSelected(t *testing.T, selector *metav1.LabelSelector, labels map[string]string) {
	t.Helper()
	for key, value := range selector.MatchLabels {
		if labels[key] != value {
			t.Errorf("the selector has %s=%s, and pods %q", key, value, labels[key])
		}
	}
}

// TestObservability: the alerts and the dashboard of the chart are those of deploy/observability, which the tests in test/observability check.
func TestObservability(t *testing.T) {
	read := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	const deploy = "../../deploy/observability"
	for _, name := range []string{"rules.yaml", "dashboard.json"} {
		if read(filepath.Join(deploy, name)) != read(filepath.Join(chartDir, "files", name)) {
			t.Errorf("%s/files/%s is not that of %s: run make generate", chartDir, name, deploy)
		}
	}
	objects, err := render(t, installations()["Three"])
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, object := range objects {
		switch object.GetKind() + "/" + object.GetName() {
		case "PrometheusRule/flagship":
			seen++
			var want any
			if err := yaml.UnmarshalStrict([]byte(read(filepath.Join(deploy, "rules.yaml"))), &want); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(object.Object["spec"], want) {
				t.Errorf("the rules are %v, want %v", object.Object["spec"], want)
			}
			if object.GetLabels()["release"] != "prometheus" {
				t.Errorf("the labels of the rules are %v", object.GetLabels())
			}
		case "ConfigMap/flagship-dashboard":
			seen++
			data, _, _ := unstructured.NestedStringMap(object.Object, "data")
			if want := read(filepath.Join(deploy, "dashboard.json")); len(data) != 1 || data["flagship.json"] != want {
				t.Errorf("the dashboard is %v, want %s", data, want)
			}
			if object.GetLabels()["grafana_dashboard"] != "1" {
				t.Errorf("the labels of the dashboard are %v", object.GetLabels())
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of the two objects are there", seen)
	}
	objects, err = render(t, installation{"fleet", values{"server": values{"dashboard": values{"enabled": true, "label": "board", "labelValue": "true"}}}, ""})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetLabels()["board"] == "true" }) {
		t.Error("no object has the label of server.dashboard.label")
	}
}

// TestValuesAreRefused: values that cannot work, or that do not exist, are errors which name them.
func TestValuesAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		namespace string
		values    values
		want      string
	}{
		"Unknown":      {"fleet", values{"server": values{"replica": 3}}, "replica"},
		"ThreeAlone":   {"fleet", values{"server": values{"replicas": 3}}, "server.etcd.servers"},
		"ThreeKeys":    {"fleet", values{"server": values{"replicas": 3, "etcd": values{"servers": []any{"http://e:2379"}}}}, "server.pki.secret"},
		"OwnField":     {"fleet", values{"server": values{"config": values{"dataDir": "/tmp"}}}, "dataDir"},
		"Monitor":      {"fleet", values{"server": values{"serviceMonitor": values{"enabled": true}}}, "tokenSecret"},
		"RuleLabels":   {"fleet", values{"server": values{"prometheusRule": values{"labels": values{"a": 1}}}}, "prometheusRule"},
		"BoardLabel":   {"fleet", values{"server": values{"dashboard": values{"label": ""}}}, "dashboard"},
		"AgentPlace":   {"fleet", values{"agent": values{"enabled": true, "cluster": "far", "bootstrapSecret": "b"}}, "karmada-cluster"},
		"AgentCluster": {"karmada-cluster", values{"agent": values{"enabled": true, "bootstrapSecret": "b"}}, "agent.cluster"},
		"AgentSecret":  {"karmada-cluster", values{"agent": values{"enabled": true, "cluster": "far"}}, "agent.bootstrapSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, installation{namespace: tc.namespace, values: tc.values}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestSettingsAreThoseOfTheBinaries: the real binaries accept the arguments and the settings of the containers. A variable that is no
// number ends them before they start anything, and is the only fault that they find.
func TestSettingsAreThoseOfTheBinaries(t *testing.T) {
	for name, i := range installations() {
		t.Run(name, func(t *testing.T) {
			objects, err := render(t, i)
			if err != nil {
				t.Fatal(err)
			}
			pod, config := podOf(t, objects)
			container := pod.Containers[0]
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			args := slices.Clone(container.Args)
			at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--config=") })
			if at < 0 || strings.TrimPrefix(args[at], "--config=") != container.VolumeMounts[0].MountPath {
				t.Fatalf("the arguments are %v, the settings at %s", args, container.VolumeMounts[0].MountPath)
			}
			args[at] = "--config=" + file
			command := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary(t)), filepath.Base(strings.Split(container.Image, ":")[0])), args...)
			command.Env = append(os.Environ(), "FLAGSHIP_BRAKE_MINIMUM=none")
			for _, variable := range container.Env {
				command.Env = append(command.Env, variable.Name+"="+variable.Value)
			}
			output, err := command.CombinedOutput()
			if err == nil || !bytes.HasPrefix(output, []byte(`error: FLAGSHIP_BRAKE_MINIMUM: `)) || bytes.Count(output, []byte("\n")) != 1 {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}

func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("FLAGSHIP_BINARY")
	if path == "" {
		t.Fatal("FLAGSHIP_BINARY is not set: make test-chart builds the binaries and sets it")
	}
	return path
}
