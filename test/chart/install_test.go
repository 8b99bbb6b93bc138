package chart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long a process may take to be ready: far more than it needs, on a machine far busier.
const patience = 4 * time.Minute

// cluster is a member of a playground that left its control plane, so that nothing but the chart writes to it.
type cluster struct {
	kubeconfig string
	config     *rest.Config
	kube       kubernetes.Interface
	dynamic    dynamic.Interface
	// kinds are what can be listed, but Events and metrics.
	kinds []kindOf
}

type kindOf struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
}

// startCluster starts a playground with further flags of flagship up.
func startCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	dir := t.TempDir()
	run(t, exec.CommandContext(t.Context(), binary(t), append([]string{"up", "--members", "1", "--data-dir", dir}, flags...)...), "Flagship is ready")
	unjoin := exec.CommandContext(t.Context(), binary(t), "unjoin", "member1", "--delete-objects", "--kubeconfig", filepath.Join(dir, "hub.kubeconfig"))
	if output, err := unjoin.CombinedOutput(); err != nil { // a cluster is a member of one control plane
		t.Fatalf("%v: %s", err, output)
	}
	c := &cluster{kubeconfig: filepath.Join(dir, "member1.kubeconfig")}
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.config.QPS, c.config.WarningHandlerWithContext = -1, rest.NoWarnings{} // that a kind which is listed is deprecated
	c.kube, c.dynamic = kubernetes.NewForConfigOrDie(c.config), dynamic.NewForConfigOrDie(c.config)
	eventually(t, "what the playground's control plane made is gone", func(ctx context.Context) error {
		_, err := c.kube.CoreV1().Namespaces().Get(ctx, "karmada-cluster", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("the namespace karmada-cluster is there"))
	})
	return c
}

// eventually calls check until it returns nil.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	last := errors.New("never checked")
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err != nil && ctx.Err() == nil { // the end of the patience is not the reason
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %v", what, err, last)
	}
}

// define creates the definitions of the Prometheus operator, and waits until they are served.
func (c *cluster) define(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/monitoring.coreos.com_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definitions := c.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, file := range files {
		if _, err := definitions.Create(t.Context(), definitionIn(t, file), metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	eventually(t, "the kinds of the Prometheus operator are served", func(context.Context) error {
		served, err := c.kube.Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		if err == nil && len(served.APIResources) < len(files) {
			err = fmt.Errorf("it has %d kinds", len(served.APIResources))
		}
		return err
	})
	c.discover(t)
}

// discover reads which kinds there are.
func (c *cluster) discover(t *testing.T) {
	t.Helper()
	lists, err := discovery.ServerPreferredResources(c.kube.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	c.kinds = nil
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && r.Kind != "Event" && version.Group != "metrics.k8s.io" {
				c.kinds = append(c.kinds, kindOf{version.WithResource(r.Name), r.Kind, r.Namespaced})
			}
		}
	}
}

// everything lists the objects of a namespace, and those that are in none, by kind and name.
func (c *cluster) everything(ctx context.Context, namespace string) (map[string]bool, error) {
	found := map[string]bool{}
	for _, kind := range c.kinds {
		var client dynamic.ResourceInterface = c.dynamic.Resource(kind.GroupVersionResource)
		if kind.namespaced {
			client = c.dynamic.Resource(kind.GroupVersionResource).Namespace(namespace)
		}
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for _, object := range list.Items {
			name := object.GetName()
			if claim, found, _ := unstructured.NestedStringMap(object.Object, "spec", "claimRef"); found {
				name = "of " + claim["namespace"] + "/" + claim["name"] // the name of a volume is random
			}
			found[kind.kind+" "+name] = true
		}
	}
	return found, nil
}

// get returns the object of a cluster that is rendered.
func (c *cluster) get(ctx context.Context, namespace string, rendered *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	gvk := rendered.GroupVersionKind()
	for _, kind := range c.kinds {
		if kind.Group != gvk.Group || kind.kind != gvk.Kind {
			continue
		}
		resource := kind.GroupVersionResource
		resource.Version = gvk.Version
		if kind.namespaced {
			return c.dynamic.Resource(resource).Namespace(namespace).Get(ctx, rendered.GetName(), metav1.GetOptions{})
		}
		return c.dynamic.Resource(resource).Get(ctx, rendered.GetName(), metav1.GetOptions{})
	}
	return nil, fmt.Errorf("the kind %s is not served", gvk)
}

// prepare makes what an installation needs before: its namespace, where pods have no privileges, and the Secrets that it names.
func (c *cluster) prepare(t *testing.T, namespace string) {
	t.Helper()
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	_, err := c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: restricted}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etcd-client", "keys", "metrics", "files", "bootstrap", "registry"} {
		if _, err := c.kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// settled lists everything when a namespace has what every namespace gets.
func (c *cluster) settled(t *testing.T, namespace string) (all map[string]bool) {
	t.Helper()
	eventually(t, "the namespace has what every namespace has", func(ctx context.Context) (err error) {
		all, err = c.everything(ctx, namespace)
		if err == nil && (!all["ServiceAccount default"] || !all["ConfigMap kube-root-ca.crt"]) {
			err = fmt.Errorf("it has %v", slices.Sorted(maps.Keys(all)))
		}
		return err
	})
	return all
}

// TestInstall installs the chart with Helm in a cluster that runs pods, upgrades it, rolls it back and uninstalls it. Helm waits until pods are
// ready, and the API server refuses fields that do not exist, and pods with privileges.
func TestInstall(t *testing.T) {
	c := startCluster(t)
	c.define(t)
	label := []byte(`{"metadata":{"labels":{"disk":"fast"}}}`)
	if _, err := c.kube.CoreV1().Nodes().Patch(t.Context(), firstNode(t, c), types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		part   string
		claims int
	}{"Single": {"server", 1}, "Three": {"server", 3}, "Agent": {"agent", 0}} {
		t.Run(name, func(t *testing.T) {
			i := installations()[name]
			h := helm{c.kubeconfig, i.namespace, kube.StatusWatcherStrategy}
			c.prepare(t, i.namespace)
			before := c.settled(t, i.namespace)
			h.install(t, i.values)
			installed := c.expectInstalled(t, i)
			kept := c.kept(t, i.namespace)

			changed := installations()[name]
			changed.values = withConfig(changed.values, tc.part, "brakeShare", 0.4)
			h.upgrade(t, changed.values)
			upgraded := c.expectInstalled(t, changed)
			expectOthers(t, installed, upgraded)
			h.rollback(t, 1)
			expectOthers(t, upgraded, c.expectInstalled(t, i))
			c.expectKept(t, i.namespace, kept)
			h.uninstall(t)
			for n := range tc.claims {
				claim := fmt.Sprintf("data-flagship-%d", n)
				before["PersistentVolumeClaim "+claim], before["PersistentVolume of "+i.namespace+"/"+claim] = true, true
			}
			c.expectLeft(t, i.namespace, before)
			if tc.claims > 0 {
				h.install(t, i.values) // it takes the volumes again
				c.expectInstalled(t, i)
				c.expectKept(t, i.namespace, kept)
			}
		})
	}
}

// TestInstallWithoutNodes installs what TestInstall does not, in a cluster without nodes. Helm waits for nothing there.
func TestInstallWithoutNodes(t *testing.T) {
	c := startCluster(t, "--bare")
	c.define(t)
	for _, name := range []string{"Files", "PlainEtcd", "LeanAgent"} {
		t.Run(name, func(t *testing.T) {
			i := installations()[name]
			c.prepare(t, i.namespace)
			helm{c.kubeconfig, i.namespace, kube.HookOnlyStrategy}.install(t, i.values)
			c.expectObjects(t, i)
		})
	}
}

func firstNode(t *testing.T, c *cluster) string {
	t.Helper()
	nodes, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) < 2 {
		t.Fatalf("the cluster has %d nodes: %v", len(nodes.Items), err)
	}
	return nodes.Items[0].Name
}

// withConfig returns values with another field of the configuration of a part.
func withConfig(v values, part, field string, value any) values {
	v = maps.Clone(v)
	settings, _ := v[part].(values)
	config, _ := settings["config"].(values)
	settings, config = maps.Clone(settings), maps.Clone(config)
	if settings == nil {
		settings = values{}
	}
	if config == nil {
		config = values{}
	}
	config[field] = value
	settings["config"], v[part] = config, settings
	return v
}

// expectObjects expects each object that is rendered, as it is rendered.
func (c *cluster) expectObjects(t *testing.T, i installation) []*unstructured.Unstructured {
	t.Helper()
	objects, err := render(t, i)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		actual, err := c.get(t.Context(), i.namespace, object)
		if err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			continue
		}
		if at := difference(object.Object, actual.Object); at != "" {
			t.Errorf("%s %s is not as it is rendered: %s", object.GetKind(), object.GetName(), at)
		}
	}
	return objects
}

// expectOthers expects that no pod stayed: settings are read when a process starts.
func expectOthers(t *testing.T, before, after map[types.UID]bool) {
	t.Helper()
	for uid := range before {
		if after[uid] {
			t.Errorf("a pod was not replaced when the settings changed: %v, then %v", before, after)
			return
		}
	}
}

// expectInstalled expects the objects, and pods that are ready, and are where they are to be. It returns the pods.
func (c *cluster) expectInstalled(t *testing.T, i installation) map[types.UID]bool {
	t.Helper()
	objects := c.expectObjects(t, i)
	template, replicas := findKind(objects, "StatefulSet"), int64(0)
	if template == nil {
		template = findKind(objects, "Deployment")
	}
	want, _ := podOf(t, objects)
	if count, found, _ := unstructured.NestedFloat64(template.Object, "spec", "replicas"); found {
		replicas = int64(count)
	}
	selector := "app.kubernetes.io/instance=" + releaseName
	var pods *corev1.PodList
	eventually(t, "the pods that were replaced are gone", func(ctx context.Context) (err error) {
		pods, err = c.kube.CoreV1().Pods(i.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil && int64(len(pods.Items)) != replicas {
			err = fmt.Errorf("there are %d pods, want %d", len(pods.Items), replicas)
		}
		return err
	})
	found := map[types.UID]bool{}
	for _, pod := range pods.Items {
		found[pod.UID] = true
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
		if !ready {
			t.Errorf("the pod %s has the conditions %v", pod.Name, pod.Status.Conditions)
		}
		if want.NodeSelector != nil && pod.Spec.NodeName != firstNode(t, c) {
			t.Errorf("the pod %s is on %s, which lacks %v", pod.Name, pod.Spec.NodeName, want.NodeSelector)
		}
	}
	c.expectClaims(t, i.namespace, selector, template)
	return found
}

// expectClaims expects a bound claim for each server, with the size and the class of the template.
func (c *cluster) expectClaims(t *testing.T, namespace, selector string, set *unstructured.Unstructured) {
	t.Helper()
	templates, _, _ := unstructured.NestedSlice(set.Object, "spec", "volumeClaimTemplates")
	replicas, _, _ := unstructured.NestedFloat64(set.Object, "spec", "replicas")
	claims, err := c.kube.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	if len(claims.Items) != len(templates)*int(replicas) {
		t.Errorf("there are %d claims for %v servers", len(claims.Items), replicas)
	}
	for _, claim := range claims.Items {
		size, _, _ := unstructured.NestedString(templates[0].(map[string]any), "spec", "resources", "requests", "storage")
		if actual := claim.Spec.Resources.Requests[corev1.ResourceStorage]; claim.Status.Phase != corev1.ClaimBound || actual.String() != size {
			t.Errorf("the claim %s is %s and has %s, want %s", claim.Name, claim.Status.Phase, actual.String(), size)
		}
	}
}

// kept are the objects whose identity must not change, because they hold state: claims, and the Secret of an agent. As an agent does, kept
// stores a credential there.
func (c *cluster) kept(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	secret, err := c.kube.CoreV1().Secrets(namespace).Get(t.Context(), agentSecret, metav1.GetOptions{})
	if err == nil {
		secret.Data = map[string][]byte{"kubeconfig": []byte("credential")}
		_, err = c.kube.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{FieldManager: "flagship-agent"})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return c.identities(t, namespace)
}

// agentSecret is where the agent of the cluster far keeps its credential.
const agentSecret = "flagship-agent-far"

func (c *cluster) identities(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	found := map[string]types.UID{}
	claims, err := c.kube.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims.Items {
		found[claim.Name] = claim.UID
	}
	secret, err := c.kube.CoreV1().Secrets(namespace).Get(t.Context(), agentSecret, metav1.GetOptions{})
	if err == nil && string(secret.Data["kubeconfig"]) == "credential" {
		found[secret.Name] = secret.UID
	}
	return found
}

func (c *cluster) expectKept(t *testing.T, namespace string, before map[string]types.UID) {
	t.Helper()
	if after := c.identities(t, namespace); len(before) == 0 || !maps.Equal(before, after) {
		t.Errorf("the state was in %v, and is in %v", before, after)
	}
}

// expectLeft expects some objects, and nothing else.
func (c *cluster) expectLeft(t *testing.T, namespace string, want map[string]bool) {
	t.Helper()
	eventually(t, "nothing of the chart is left", func(ctx context.Context) error {
		now, err := c.everything(ctx, namespace)
		if err != nil {
			return err
		}
		var faults []error
		for key := range want {
			if !now[key] {
				faults = append(faults, fmt.Errorf("%s is gone", key))
			}
		}
		for key := range now {
			if !want[key] {
				faults = append(faults, fmt.Errorf("%s is left", key))
			}
		}
		return errors.Join(faults...)
	})
}

// difference returns where an object lacks what it is to have, or has something else there; empty if nowhere. Further fields are of no account,
// since API servers set defaults.
func difference(want, actual any) string {
	switch want := want.(type) {
	case map[string]any:
		fields, _ := actual.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if at := difference(want[key], fields[key]); at != "" {
				return "." + key + at
			}
		}
		return ""
	case []any:
		items, _ := actual.([]any)
		if len(items) != len(want) {
			return fmt.Sprintf(": %v, want %v", actual, want)
		}
		for n := range want {
			if at := difference(want[n], items[n]); at != "" {
				return fmt.Sprintf("[%d]%s", n, at)
			}
		}
		return ""
	default:
		// Numbers are integers in the one, and not in the other.
		if actual == nil || fmt.Sprint(want) != fmt.Sprint(actual) {
			return fmt.Sprintf(": %v, want %v", actual, want)
		}
		return ""
	}
}

func TestDifference(t *testing.T) {
	want := values{"a": values{"b": []any{1.0, "x"}}, "empty": []any{}, "none": values{}}
	for name, tc := range map[string]struct {
		actual values
		want   string
	}{
		"Equal":   {values{"a": values{"b": []any{int64(1), "x"}, "default": true}}, ""},
		"Other":   {values{"a": values{"b": []any{int64(2), "x"}}}, ".a.b[0]"},
		"Short":   {values{"a": values{"b": []any{int64(1)}}}, ".a.b"},
		"Absent":  {values{}, ".a.b"},
		"Further": {values{"a": values{"b": []any{int64(1), "x", "y"}}}, ".a.b"},
	} {
		t.Run(name, func(t *testing.T) {
			if at := difference(want, tc.actual); !strings.HasPrefix(at, tc.want) || (at == "") != (tc.want == "") {
				t.Errorf("got %q, want %q", at, tc.want)
			}
		})
	}
}
