package services_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	searchv1alpha1 "github.com/flagship-k8s/flagship/api/search/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// registry selects kinds of v1 in a namespace of all clusters.
func registry(namespace string, kinds ...string) *searchv1alpha1.ResourceRegistry {
	r := &searchv1alpha1.ResourceRegistry{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: searchv1alpha1.ResourceRegistrySpec{TargetCluster: policyv1alpha1.ClusterAffinity{}}}
	for _, kind := range kinds {
		r.Spec.ResourceSelectors = append(r.Spec.ResourceSelectors, searchv1alpha1.ResourceSelector{APIVersion: "v1", Kind: kind, Namespace: namespace})
	}
	return r
}

// below is a configuration of a client whose API server is a path of the control plane.
func below(config *rest.Config, path string) *rest.Config {
	own := rest.CopyConfig(config)
	own.Host += path
	return own
}

// TestSearch: control plane and members, of both modes, as one API server, with the rights that the user has in each member.
func TestSearch(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	clusters := []string{"member1", "member2", "member3"}
	web := fleettest.Deployment(ns, "web", 1)
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", fleettest.To(clusters...), web), registry(ns, "Pod", "ConfigMap"))
	for _, name := range clusters {
		fleettest.ExpectEventually(t, fleet.Member(name), fleettest.Deployment(ns, "web", 1), fleettest.Available)
	}
	search := func(resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{searchv1alpha1.GroupName}, Resources: resources, Verbs: []string{"*"}}
	}
	proxy := rbacv1.PolicyRule{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, Verbs: []string{"*"}}
	reader, outsider := "reader-"+ns, "outsider-"+ns
	fleet.Hub.ClusterRights(t, reader, search("proxying/proxy", "search/api"), proxy)
	fleet.Hub.ClusterRights(t, outsider, search("proxying/proxy", "search/api"), proxy)
	for _, name := range clusters {
		fleet.Member(name).ClusterRights(t, reader, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"pods", "pods/log", "pods/exec", "configmaps", "events"}, Verbs: []string{"*"},
		})
	}
	as := func(user, path string) *rest.Config {
		return below(fleet.Hub.As(t, rest.ImpersonationConfig{UserName: user}).Config, path)
	}
	config := as(reader, searchv1alpha1.ProxyingPath)
	all := kubernetes.NewForConfigOrDie(config)
	var pods *corev1.PodList
	// The Works with the users that may be impersonated take a moment.
	fleettest.Eventually(t, "the pods of all members are listed", func() bool {
		var err error
		pods, err = all.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		return err == nil && slices.Equal(originsOf(pods), clusters)
	})

	t.Run("Kubectl", func(t *testing.T) { kubectl(t, fleet, ns, clusters) })
	t.Run("Pages", func(t *testing.T) {
		var found []string
		for options := (metav1.ListOptions{Limit: 1}); ; {
			page, err := all.CoreV1().Pods(ns).List(t.Context(), options)
			if err != nil || len(page.Items) > 1 {
				t.Fatalf("%d pods, %v", len(page.Items), err)
			}
			found = append(found, originsOf(page)...)
			if options.Continue = page.Continue; options.Continue == "" {
				break
			}
		}
		if !slices.Equal(found, clusters) {
			t.Errorf("the pages have pods of %v", found)
		}
	})
	t.Run("OneObject", func(t *testing.T) { oneObject(t, fleet, all, ns) })
	t.Run("LogsAndExec", func(t *testing.T) {
		for i := range pods.Items {
			pod := &pods.Items[i]
			stream, err := all.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(stream)
			_ = stream.Close()
			if err != nil || !strings.Contains(string(text), "this container is simulated") {
				t.Errorf("the log of %s is %q, %v", pod.Name, text, err)
			}
			if out, err := echo(t.Context(), config, pod); err != nil || out != "hello\n" {
				t.Errorf("exec in %s: %q, %v", pod.Name, out, err)
			}
		}
	})
	t.Run("SearchCache", func(t *testing.T) {
		list, err := kubernetes.NewForConfigOrDie(as(reader, searchv1alpha1.SearchCachePath)).CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil || !slices.Equal(originsOf(list), clusters) || list.Items[0].ManagedFields != nil {
			t.Errorf("pods of %v, %v", originsOf(list), err)
		}
	})
	t.Run("Rights", func(t *testing.T) {
		for user, reason := range map[string]string{
			outsider: `User "` + outsider + `" cannot list resource "pods"`, "stranger-" + ns: `cannot get resource "proxying/proxy"`,
		} {
			// Until the members permit to impersonate the user they refuse that.
			fleettest.Eventually(t, user+" is refused for "+reason, func() bool {
				_, err := kubernetes.NewForConfigOrDie(as(user, searchv1alpha1.ProxyingPath)).CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
				if err == nil {
					t.Fatalf("%s lists pods", user)
				}
				return apierrors.IsForbidden(err) && strings.Contains(err.Error(), reason)
			})
		}
		// The user may read no Secrets on the control plane, which no registry selects.
		_, err := all.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("Secrets of the control plane: %v", err)
		}
		// A right in one member is one in no other.
		fleet.Member("member2").ClusterRights(t, outsider, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
		fleettest.Eventually(t, "the pods of the one member are listed", func() bool {
			list, err := kubernetes.NewForConfigOrDie(as(outsider, searchv1alpha1.ProxyingPath)).CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
			return err == nil && slices.Equal(originsOf(list), []string{"member2"})
		})
		if _, err := all.CoreV1().ConfigMaps(ns).Create(t.Context(), fleettest.ConfigMap(ns, "new", nil), metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("creating an object in no member in particular: %v", err)
		}
	})
}

// originsOf are the clusters of pods, in their order.
func originsOf(list *corev1.PodList) (found []string) {
	for i := range list.Items {
		found = append(found, list.Items[i].Annotations[clusterv1alpha1.CachedFromClusterAnnotation])
	}
	return found
}

// echo runs a command in a pod.
func echo(ctx context.Context, config *rest.Config, pod *corev1.Pod) (string, error) {
	url := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"echo", "hello"}, Stdout: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out})
	return out.String(), err
}

// oneObject reads and changes objects by name.
func oneObject(t *testing.T, fleet *fleettest.Fleet, all *kubernetes.Clientset, ns string) {
	t.Helper()
	fleettest.Create(t, fleet.Member("member3"), fleettest.ConfigMap(ns, "only", map[string]string{"n": "1"}))
	only, err := all.CoreV1().ConfigMaps(ns).Get(t.Context(), "only", metav1.GetOptions{})
	if err != nil || only.Annotations[clusterv1alpha1.CachedFromClusterAnnotation] != "member3" {
		t.Fatalf("got %+v, %v", only, err)
	}
	only.Data["n"] = "2"
	written, err := all.CoreV1().ConfigMaps(ns).Update(t.Context(), only, metav1.UpdateOptions{})
	if err != nil || written.Data["n"] != "2" || written.ResourceVersion == only.ResourceVersion {
		t.Fatalf("updated is %+v, %v", written, err)
	}
	if _, err := all.CoreV1().ConfigMaps(ns).Update(t.Context(), only, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	if _, err := all.CoreV1().ConfigMaps(ns).Patch(t.Context(), "only", types.MergePatchType, []byte(`{"data":{"n":"3"}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a patch: %v", err)
	}
	found := fleettest.ExpectEventually(t, fleet.Member("member3"), fleettest.ConfigMap(ns, "only", nil), fleettest.Exists)
	if _, marked := found.Annotations[clusterv1alpha1.CachedFromClusterAnnotation]; marked || found.Data["n"] != "3" {
		t.Errorf("the member has %+v", found)
	}
	fleettest.Create(t, fleet.Member("member1"), fleettest.ConfigMap(ns, "only", nil))
	if _, err := all.CoreV1().ConfigMaps(ns).Get(t.Context(), "only", metav1.GetOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "member1, member3") {
		t.Errorf("an object of two members: %v", err)
	}
	if err := all.CoreV1().ConfigMaps(ns).Delete(t.Context(), "only", metav1.DeleteOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("deleting one of two: %v", err)
	}
	fleettest.Delete(t, fleet.Member("member1"), fleettest.ConfigMap(ns, "only", nil))
	if err := all.CoreV1().ConfigMaps(ns).Delete(t.Context(), "only", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	fleettest.ExpectGone(t, fleet.Member("member3"), fleettest.ConfigMap(ns, "only", nil))
}

// kubectl runs the real one with a kubeconfig whose server is the search API.
func kubectl(t *testing.T, fleet *fleettest.Fleet, ns string, clusters []string) {
	t.Helper()
	binary, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("there is no kubectl on this machine")
	}
	config, err := clientcmd.LoadFromFile(fleet.Hub.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server += searchv1alpha1.ProxyingPath
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, append([]string{"-n", ns, "--cache-dir", t.TempDir()}, args...)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	lines := strings.Split(strings.TrimSpace(run("get", "pods", "-l", "app=web")), "\n")
	var columns []string
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 1 {
			columns = append(columns, fields[1])
		}
	}
	if want := append([]string{"CLUSTER"}, clusters...); !slices.Equal(columns, want) {
		t.Errorf("kubectl get printed\n%s", strings.Join(lines, "\n"))
	}
	pod := strings.Fields(lines[len(lines)-1])[0]
	if out := run("describe", "pod", pod); !strings.Contains(out, clusterv1alpha1.CachedFromClusterAnnotation+": member3") {
		t.Errorf("kubectl describe printed\n%s", out)
	}
	if out := run("logs", pod); !strings.Contains(out, "this container is simulated") {
		t.Errorf("kubectl logs printed\n%s", out)
	}
	if out := run("exec", pod, "--", "echo", "hello"); out != "hello\n" {
		t.Errorf("kubectl exec printed\n%s", out)
	}
	if out := run("get", "deployments"); !strings.Contains(out, "web") || strings.Contains(out, "CLUSTER") {
		t.Errorf("a kind that no registry selects is not that of the control plane:\n%s", out)
	}
	if out := run("get", "--raw", searchv1alpha1.ProxyingPath+"/api/v1/namespaces/"+ns+"/pods?limit=1"); !strings.Contains(out, `"continue"`) {
		t.Errorf("kubectl get --raw printed\n%s", out)
	}
	t.Run("Watch", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, "get", "configmaps", "-w", "-n", ns, "--cache-dir", t.TempDir())
		cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { cancel(); _ = cmd.Wait() }()
		for i, name := range clusters { // of each member, in Pull mode, too
			fleettest.Create(t, fleet.Member(name), fleettest.ConfigMap(ns, fmt.Sprintf("watched-%d", i), nil))
		}
		text, seen := make([]byte, 4096), ""
		for {
			n, err := out.Read(text)
			seen += string(text[:n])
			missing := slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return !strings.Contains(seen, fmt.Sprintf("watched-%d", i)) })
			if !missing {
				break
			}
			if err != nil {
				t.Fatalf("kubectl get -w ended with %v after\n%s", err, seen)
			}
		}
	})
}

// TestSearchInformer: an informer over all members has every change, and no other, over a restart of the control plane and the absence of a
// member. It may list again. It takes 40 s beside other tests, for a fleet of its own that starts again.
func TestSearchInformer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a fleet of its own")
	}
	fleet := fleettest.Start(t, fleettest.Options{Members: 2, Bare: true, Args: []string{"--pull", "member2"}})
	ns := fleet.Namespace(t)
	fleettest.Create(t, fleet.Hub, registry(ns, "ConfigMap"))
	const reader = "search-informer"
	fleet.Hub.ClusterRights(t, reader,
		rbacv1.PolicyRule{APIGroups: []string{searchv1alpha1.GroupName}, Resources: []string{"proxying/proxy"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, Verbs: []string{"get"}})
	for _, member := range fleet.Members {
		member.ClusterRights(t, reader, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}})
		fleettest.ExpectEventually(t, member, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
		fleettest.Create(t, member, fleettest.ConfigMap(ns, "first-"+member.Name, nil))
	}
	config := below(fleet.Hub.As(t, rest.ImpersonationConfig{UserName: reader}).Config, searchv1alpha1.ProxyingPath)
	lists := &counted{}
	config.Wrap(lists.wrap)
	clients := kubernetes.NewForConfigOrDie(config)
	var err error
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the first list: %v", err)
		}
	})
	fleettest.Eventually(t, "both members are read", func() bool {
		var list *corev1.ConfigMapList
		list, err = clients.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
		return err == nil && len(list.Items) == 2
	})
	seen := &handler{present: map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, informers.WithNamespace(ns))
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(seen); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	expect := func(names ...string) {
		t.Helper()
		fleettest.Eventually(t, fmt.Sprintf("the informer has %v", names), func() bool { return seen.has(names...) })
	}
	expect("first-member1", "first-member2")
	before := lists.count()

	fleet.Stop(t)
	fleet.Restart(t)
	for _, member := range fleet.Members {
		fleettest.Create(t, member, fleettest.ConfigMap(ns, "second-"+member.Name, nil))
	}
	expect("second-member1", "second-member2")
	t.Logf("the informer listed %d times more after the control plane restarted", lists.count()-before)

	fleet.StopMember(t, "member1")
	fleettest.Create(t, fleet.Member("member2"), fleettest.ConfigMap(ns, "third-member2", nil))
	expect("third-member2")
	fleet.StartMember(t, "member1")
	fleettest.Create(t, fleet.Member("member1"), fleettest.ConfigMap(ns, "third-member1", nil))
	fleettest.Delete(t, fleet.Member("member1"), fleettest.ConfigMap(ns, "first-member1", nil))
	expect("third-member1")
	fleettest.Eventually(t, "the informer has the deletion", func() bool { return !seen.has("first-member1") })
	if deleted := seen.deletions(); !slices.Equal(deleted, []string{"first-member1"}) {
		t.Errorf("deleted were %v, want only what was deleted", deleted)
	}
}

// counted counts the lists that a client requests.
type counted struct {
	mu    sync.Mutex
	lists int
}

func (c *counted) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" {
			c.mu.Lock()
			c.lists++
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

func (c *counted) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// handler keeps what an informer reports.
type handler struct {
	mu      sync.Mutex
	present map[string]bool
	deleted []string
}

var _ cache.ResourceEventHandler = &handler{}

func (h *handler) OnAdd(obj any, _ bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.present[obj.(*corev1.ConfigMap).Name] = true
}

func (h *handler) OnUpdate(_, obj any) { h.OnAdd(obj, false) }

func (h *handler) OnDelete(obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	name := obj.(*corev1.ConfigMap).Name
	delete(h.present, name)
	h.deleted = append(h.deleted, name)
}

func (h *handler) has(names ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(names, func(name string) bool { return !h.present[name] })
}

func (h *handler) deletions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.deleted)
}
