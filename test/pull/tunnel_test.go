package pull_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const clustersPath = "/apis/cluster.karmada.io/v1alpha1/clusters/"

// isReachedThroughItsTunnel: a member that only dials out answers all that kubectl sends to it, as the user, and to that user only.
func isReachedThroughItsTunnel(t *testing.T, hub, member *fleettest.Part) {
	proxy := rbacv1.PolicyRule{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, ResourceNames: []string{"far", "*"}, Verbs: []string{"*"}}
	for _, user := range []string{"reader", "outsider"} {
		hub.ClusterRights(t, user, proxy)
	}
	member.ClusterRights(t, "reader", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"pods", "pods/log", "pods/exec", "pods/attach", "pods/portforward"}, Verbs: []string{"*"},
	})
	as := func(user, cluster string) *rest.Config {
		config := rest.CopyConfig(hub.As(t, rest.ImpersonationConfig{UserName: user}).Config)
		config.Host += clustersPath + cluster + "/proxy"
		return config
	}
	config := as("reader", "far")
	kube := kubernetes.NewForConfigOrDie(config)
	var pods *corev1.PodList
	// The Works with the users that may be impersonated, and the tunnel, take a moment.
	fleettest.Eventually(t, "the pods are listed through the tunnel", func() bool {
		var err error
		pods, err = kube.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		return err == nil && len(pods.Items) == 2
	})
	pod := &pods.Items[0]

	t.Run("LogsAndWatches", func(t *testing.T) {
		stream, err := kube.CoreV1().Pods("shop").GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = stream.Close() }()
		if text, err := io.ReadAll(stream); err != nil || !strings.Contains(string(text), "this container is simulated") {
			t.Errorf("the log is %q, %v", text, err)
		}
		watch, err := kube.CoreV1().Pods("shop").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		if event := <-watch.ResultChan(); event.Object.(*corev1.Pod).Labels["app"] != "web" {
			t.Errorf("a watch has %+v", event)
		}
	})
	t.Run("ExecAndAttach", func(t *testing.T) {
		for name, run := range map[string]func() (string, error){
			"SPDY":      func() (string, error) { return execIn(t.Context(), config, pod, false) },
			"WebSocket": func() (string, error) { return execIn(t.Context(), config, pod, true) },
		} {
			if out, err := run(); err != nil || out != "some input" {
				t.Errorf("%s: cat gave %q, %v", name, out, err)
			}
		}
		url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace("shop").Name(pod.Name).SubResource("attach").
			VersionedParams(&corev1.PodAttachOptions{Stdin: true, Stdout: true}, scheme.ParameterCodec).URL()
		executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("ends"), Stdout: &out})
		if err != nil || !strings.Contains(out.String(), "started with image") {
			t.Errorf("attach gave %q, %v", out.String(), err)
		}
	})
	t.Run("PortForward", func(t *testing.T) {
		if page := forwarded(t, config, pod); !strings.Contains(page, "cluster: far\n") || !strings.Contains(page, "pod: "+pod.Name+"\n") {
			t.Errorf("the page is %q", page)
		}
	})
	t.Run("WithAllOthers", func(t *testing.T) {
		pods, err := kubernetes.NewForConfigOrDie(as("reader", "*")).CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil || len(pods.Items) != 2 || pods.Items[0].Annotations[clusterv1alpha1.CachedFromClusterAnnotation] != "far" {
			t.Errorf("%+v, %v", pods, err)
		}
	})
	t.Run("NotForOthers", func(t *testing.T) {
		for user, reason := range map[string]string{
			"outsider": `User "outsider" cannot get resource "pods/log"`, "stranger": `cannot get resource "clusters/proxy"`,
		} {
			// Until the member permits to impersonate the user it refuses that.
			fleettest.Eventually(t, user+" is refused for "+reason, func() bool {
				_, err := kubernetes.NewForConfigOrDie(as(user, "far")).CoreV1().Pods("shop").GetLogs(pod.Name, &corev1.PodLogOptions{}).Stream(t.Context())
				if err == nil {
					t.Fatalf("%s reads the log", user)
				}
				return apierrors.IsForbidden(err) && strings.Contains(err.Error(), reason)
			})
		}
	})
}

// tunnelIsItsOwn: a stolen credential opens no tunnel of another cluster, and without an agent the error of the proxy has what to do.
func tunnelIsItsOwn(t *testing.T, hub *fleettest.Part, agent *fleettest.Agent) {
	fleettest.Create(t, hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "silent"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}})
	thief := kubernetes.NewForConfigOrDie(agent.Config).RESTClient()
	for path, refused := range map[string]func(error) bool{
		"silent/tunnel": apierrors.IsForbidden, "absent/tunnel": apierrors.IsForbidden, "far/tunnel": apierrors.IsBadRequest, // it is no upgrade
	} {
		if err := thief.Post().AbsPath(clustersPath + path).Do(t.Context()).Error(); !refused(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := thief.Get().AbsPath(clustersPath + "far/proxy/api").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("the agent uses the proxy into its member: %v", err)
	}
	hub.ClusterRights(t, "operator", rbacv1.PolicyRule{APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}})
	operator := kubernetes.NewForConfigOrDie(hub.As(t, rest.ImpersonationConfig{UserName: "operator"}).Config).RESTClient()
	var err error
	fleettest.Eventually(t, "a user with all rights to clusters gets the reason why there is no way into the member", func() bool {
		err = operator.Get().AbsPath(clustersPath + "silent/proxy/api").Do(t.Context()).Error()
		return apierrors.IsServiceUnavailable(err)
	})
	if !strings.Contains(err.Error(), "its agent has no tunnel to this server: check that the agent runs") {
		t.Errorf("without an agent: %v", err)
	}
	if err := operator.Post().AbsPath(clustersPath + "silent/tunnel").Do(t.Context()).Error(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "only the agent of a cluster opens its tunnel") {
		t.Errorf("and opens its tunnel: %v", err)
	}
	if err := hub.Delete(t.Context(), &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// execIn copies some input in a pod.
func execIn(ctx context.Context, config *rest.Config, pod *corev1.Pod, socket bool) (string, error) {
	url := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Get().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if socket {
		executor, err = remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
	}
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("some input"), Stdout: &out})
	return out.String(), err
}

// forwarded is the page at port 8080 of a pod.
func forwarded(t *testing.T, config *rest.Config, pod *corev1.Pod) string {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url),
		[]string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	defer func() { close(stop); <-ended }()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("forwarding a port: %v", err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
