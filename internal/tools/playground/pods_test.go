package playground_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// pollEvery is how often a state is read that no watch shows.
const pollEvery = 50 * time.Millisecond

// runningPod makes a Deployment of one replica in a member and returns its pod.
func runningPod(t *testing.T, member *fleettest.Cluster, ns string) *corev1.Pod {
	t.Helper()
	web := fleettest.Deployment(ns, "web", 1)
	fleettest.Create(t, member, web)
	fleettest.ExpectEventually(t, member, web, fleettest.Available)
	return podOf(t, member, ns)
}

func podOf(t *testing.T, member *fleettest.Cluster, ns string) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := member.List(t.Context(), &pods, client.InNamespace(ns)); err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods, %v; want 1", len(pods.Items), err)
	}
	return &pods.Items[0]
}

func TestAnImageThatCannotBePulled(t *testing.T) {
	member := shared.Start(t).Member("member1")
	for name, image := range map[string]string{"Registry": "registry.invalid/web:1.2", "Named": failingImage} {
		t.Run(name, func(t *testing.T) { failsToPull(t, member, image) })
	}
}

func failsToPull(t *testing.T, member *fleettest.Cluster, image string) {
	ns := memberNamespace(t, member)
	web := fleettest.Deployment(ns, "web", 1)
	web.Spec.Template.Spec.Containers[0].Image = image
	fleettest.Create(t, member, web)
	fleettest.ExpectListed(t, member, &corev1.PodList{}, ns, func(pods *corev1.PodList) error {
		for _, pod := range pods.Items {
			for _, s := range pod.Status.ContainerStatuses {
				if s.State.Waiting != nil && s.State.Waiting.Reason == "ImagePullBackOff" && !s.Ready {
					return nil
				}
			}
		}
		return errors.New("no pod has ImagePullBackOff")
	})
	fleettest.Update(t, member, web, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx" })
	fleettest.ExpectEventually(t, member, web, fleettest.Available)
}

// throughHub is a configuration that reaches a member through the control plane's proxy.
func throughHub(hub *fleettest.Cluster, member string) *rest.Config {
	config := rest.CopyConfig(hub.Config)
	config.Host += "/apis/cluster.karmada.io/v1alpha1/clusters/" + member + "/proxy"
	return config
}

// execIn runs a command in a pod over SPDY, or over a WebSocket.
func execIn(ctx context.Context, config *rest.Config, pod *corev1.Pod, socket bool, in io.Reader, command ...string) (out, errOut string, err error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", "", err
	}
	url := kube.CoreV1().RESTClient().Get().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: command, Stdin: in != nil, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, url)
	if socket {
		executor, err = remotecommand.NewWebSocketExecutor(config, http.MethodGet, url.String())
	}
	if err != nil {
		return "", "", err
	}
	var stdout, stderr bytes.Buffer
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: &stdout, Stderr: &stderr})
	return stdout.String(), stderr.String(), err
}

func logOf(ctx context.Context, config *rest.Config, pod *corev1.Pod, o corev1.PodLogOptions) (string, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	stream, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &o).Stream(ctx) // its errors have the server's message
	if err != nil {
		return "", err
	}
	defer func() { _ = stream.Close() }()
	text, err := io.ReadAll(stream)
	return string(text), err
}

// TestPodsAnswer: a simulated pod says that it is one, whatever the way to it.
func TestPodsAnswer(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Member("member1")
	ns := memberNamespace(t, member)
	pod := runningPod(t, member, ns)

	user, outsider := "podreader-"+ns, "outsider-"+ns
	for _, name := range []string{user, outsider} {
		fleet.Hub.ClusterRights(t, name, rbacv1.PolicyRule{
			APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, ResourceNames: []string{"member1"}, Verbs: []string{"*"},
		})
	}
	member.ClusterRights(t, user, rbacv1.PolicyRule{
		APIGroups: []string{"", v1beta1.GroupName}, Resources: []string{"pods", "pods/log", "pods/exec", "pods/portforward", "pods/attach"}, Verbs: []string{"*"},
	})
	asUser := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: user})
	asOutsider := throughHub(fleet.Hub.As(t, rest.ImpersonationConfig{UserName: outsider}), "member1")

	for name, config := range map[string]*rest.Config{
		"Directly": member.Config, "AsOperatorThroughTheHub": throughHub(fleet.Hub, "member1"), "AsUserThroughTheHub": throughHub(asUser, "member1"),
	} {
		t.Run(name, func(t *testing.T) {
			awaitLog(t, config, pod)
			expectExec(t, config, pod)
			expectForward(t, config, pod)
			expectMetrics(t, config, pod)
		})
	}
	awaitRefusal(t, asOutsider, pod)
	if _, _, err := execIn(t.Context(), asOutsider, pod, false, nil, "true"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("exec without the right to it: %v", err)
	}
}

// awaitLog waits until the member allows this user to read the log, and checks the log.
func awaitLog(t *testing.T, config *rest.Config, pod *corev1.Pod) {
	t.Helper()
	var text string
	err := wait.PollUntilContextTimeout(t.Context(), pollEvery, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		var err error
		text, err = logOf(ctx, config, pod, corev1.PodLogOptions{TailLines: ptr.To[int64](1)})
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if want := "this container is simulated: it runs no command and logs nothing else\n"; err != nil || text != want {
		t.Fatalf("the log is %q, %v; want %q", text, err, want)
	}
	if _, err := logOf(t.Context(), config, pod, corev1.PodLogOptions{Previous: true}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "simulated containers do not restart") {
		t.Errorf("the log of the container before: %v", err)
	}
}

// awaitRefusal waits until the member authenticates the user, and refuses the log, to which the user has no right.
func awaitRefusal(t *testing.T, config *rest.Config, pod *corev1.Pod) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), pollEvery, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		text, err := logOf(ctx, config, pod, corev1.PodLogOptions{})
		if err == nil {
			return false, fmt.Errorf("it read %q", text)
		}
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), `cannot get resource "pods/log"`), nil
	})
	if err != nil {
		t.Errorf("reading a log without the right to it: %v", err)
	}
}

func expectExec(t *testing.T, config *rest.Config, pod *corev1.Pod) {
	t.Helper()
	for name, socket := range map[string]bool{"SPDY": false, "WebSocket": true} {
		if out, _, err := execIn(t.Context(), config, pod, socket, nil, "hostname"); err != nil || out != pod.Name+"\n" {
			t.Errorf("%s: hostname gave %q, %v", name, out, err)
		}
		if out, _, err := execIn(t.Context(), config, pod, socket, strings.NewReader("some input"), "cat"); err != nil || out != "some input" {
			t.Errorf("%s: cat gave %q, %v", name, out, err)
		}
		_, errOut, err := execIn(t.Context(), config, pod, socket, nil, "id")
		exit, ok := errors.AsType[utilexec.CodeExitError](err)
		if !ok || exit.Code != 127 || errOut != "this container is simulated: it runs no command\n" {
			t.Errorf("%s: another command gave %q, %v", name, errOut, err)
		}
	}
}

func expectForward(t *testing.T, config *rest.Config, pod *corev1.Pod) {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Post().
		Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8080"}, stop, ready, io.Discard, io.Discard)
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
	want := fmt.Sprintf("This pod is simulated.\ncluster: member1\nnamespace: %s\npod: %s\nport: 8080\n", pod.Namespace, pod.Name)
	if err != nil || string(page) != want {
		t.Errorf("the page is %q, %v; want %q", page, err, want)
	}
}

func expectMetrics(t *testing.T, config *rest.Config, pod *corev1.Pod) {
	t.Helper()
	metrics, err := metricsclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	// They are those of pods that the member has seen, which is after they run.
	fleettest.Eventually(t, "there are metrics of the pod", func() bool {
		list, err := metrics.MetricsV1beta1().PodMetricses(pod.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 1 && list.Items[0].Name == pod.Name && !list.Items[0].Containers[0].Usage.Cpu().IsZero()
	})
}

// TestPodsAnswerThroughTheirProxy: so does a Service, with the page of one of its pods.
func TestPodsAnswerThroughTheirProxy(t *testing.T) {
	member := shared.Start(t).Member("member1")
	ns := memberNamespace(t, member)
	fleettest.Create(t, member, fleettest.Service(ns, "web"))
	pod := runningPod(t, member, ns)
	kube := kubernetes.NewForConfigOrDie(member.Config).CoreV1()
	page, err := kube.Pods(ns).ProxyGet("http", pod.Name, "8080", "/", nil).DoRaw(t.Context())
	if want := fmt.Sprintf("pod: %s\nport: 8080\n", pod.Name); err != nil || !strings.HasSuffix(string(page), want) {
		t.Errorf("the pod answers %q, %v; want %q", page, err, want)
	}
	err = wait.PollUntilContextTimeout(t.Context(), pollEvery, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		page, err = kube.Services(ns).ProxyGet("http", "web", "80", "/", nil).DoRaw(ctx)
		if apierrors.IsServiceUnavailable(err) {
			return false, nil // it has no endpoints yet
		}
		return err == nil, err
	})
	if err != nil || !strings.Contains(string(page), "pod: "+pod.Name+"\n") {
		t.Errorf("the Service answers %q, %v", page, err)
	}
}

// TestLogsAreFollowedToTheEndOfThePod also attaches.
func TestLogsAreFollowedToTheEndOfThePod(t *testing.T) {
	member := shared.Start(t).Member("member1")
	ns := memberNamespace(t, member)
	pod := runningPod(t, member, ns)
	kube := kubernetes.NewForConfigOrDie(member.Config)

	url := kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(ns).Name(pod.Name).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Stdin: true, Stdout: true}, scheme.ParameterCodec).URL()
	executor, err := remotecommand.NewSPDYExecutor(member.Config, http.MethodPost, url)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("ends"), Stdout: &out})
	if err != nil || !strings.Contains(out.String(), "started with image") {
		t.Errorf("attach gave %q, %v", out.String(), err)
	}

	stream, err := kube.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if _, err := io.ReadFull(stream, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	fleettest.Delete(t, member, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}})
	if rest, err := io.ReadAll(stream); err != nil || strings.Count(string(rest), "\n") != 2 {
		t.Errorf("the rest of the log is %q, %v", rest, err)
	}
}

// TestPodsHaveAddressesOfBothFamilies: so have nodes and the EndpointSlices of a Service.
func TestPodsHaveAddressesOfBothFamilies(t *testing.T) {
	member := shared.Start(t).Member("member1")
	ns := memberNamespace(t, member)
	service := fleettest.Service(ns, "web")
	service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	fleettest.Create(t, member, service)
	pod := runningPod(t, member, ns)
	if len(pod.Status.PodIPs) != 2 || len(pod.Status.HostIPs) != 2 || !strings.Contains(pod.Status.PodIPs[1].IP, ":") {
		t.Errorf("the pod has %v on %v", pod.Status.PodIPs, pod.Status.HostIPs)
	}
	var node corev1.Node
	if err := member.Get(t.Context(), client.ObjectKey{Name: pod.Spec.NodeName}, &node); err != nil || len(node.Spec.PodCIDRs) != 2 {
		t.Errorf("the node has %v, %v", node.Spec.PodCIDRs, err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), pollEvery, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		var slices discoveryv1.EndpointSliceList
		if err := member.List(ctx, &slices, client.InNamespace(ns)); err != nil {
			return false, err
		}
		found := map[string]bool{}
		for _, slice := range slices.Items {
			for _, endpoint := range slice.Endpoints {
				found[endpoint.Addresses[0]] = true
			}
		}
		return found[pod.Status.PodIPs[0].IP] && found[pod.Status.PodIPs[1].IP], nil
	})
	if err != nil {
		t.Errorf("waiting for endpoints %v: %v", pod.Status.PodIPs, err)
	}
}
