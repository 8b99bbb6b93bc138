package chart

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is how long a process may take to be ready: far more than it needs, on a machine far busier.
const patience = 4 * time.Minute

// TestProbesAreAnswered runs the entry point of the image with the settings of the chart, and sends the requests of the probes, without a
// credential, as a kubelet does.
func TestProbesAreAnswered(t *testing.T) {
	objects, err := render(t, installations()["Single"])
	if err != nil {
		t.Fatal(err)
	}
	pod, config := podOf(t, objects)
	dir, container := t.TempDir(), pod.Containers[0]
	file := filepath.Join(dir, "server.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	server := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary(t)), "flagship-server"), container.Args[0], "--config", file)
	// What differs in the pod: its volume, its address, and that it has the port for itself.
	server.Env = append(os.Environ(), "FLAGSHIP_DATA_DIR="+dir, "FLAGSHIP_BIND_ADDRESS=127.0.0.1", "FLAGSHIP_ADVERTISE_ADDRESS=127.0.0.1", "FLAGSHIP_PORT="+strconv.Itoa(port))
	run(t, server, "Flagship is ready")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as a kubelet
	for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
		url := fmt.Sprintf("%s://127.0.0.1:%d%s", strings.ToLower(string(probe.HTTPGet.Scheme)), port, probe.HTTPGet.Path)
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return false, err
			}
			answer, err := client.Do(request)
			if err != nil {
				return false, nil
			}
			return answer.StatusCode == http.StatusOK, answer.Body.Close()
		})
		if err != nil {
			t.Errorf("the %s probe %s: %v", name, url, err)
		}
	}
	if container.Ports[0].ContainerPort != 6443 || !strings.Contains(config, "port: 6443") {
		t.Errorf("the container has the port %d, its settings are\n%s", container.Ports[0].ContainerPort, config)
	}
}

// TestAPIServerAcceptsTheObjects applies each installation to a member, where a field that does not exist is an error.
func TestAPIServerAcceptsTheObjects(t *testing.T) {
	dir := t.TempDir()
	run(t, exec.CommandContext(t.Context(), binary(t), "up", "--members", "1", "--bare", "--data-dir", dir), "Flagship is ready")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "member1.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for name, i := range installations() {
		t.Run(name, func(t *testing.T) {
			newNamespace(t, kubernetes.NewForConfigOrDie(config), i.namespace)
			objects, err := render(t, i)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, config, i, objects)
		})
	}
}

// apply applies the objects of an installation, as Helm does.
func apply(t *testing.T, config *rest.Config, i installation, objects []*unstructured.Unstructured) {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for _, object := range objects {
		if object.GetAPIVersion() == monitoring {
			continue // the member has no Prometheus operator
		}
		gvk := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			t.Fatal(err)
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == "namespace" {
			resource = client.Resource(mapping.Resource).Namespace(i.namespace)
		}
		content, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		options := metav1.PatchOptions{FieldManager: "helm", FieldValidation: metav1.FieldValidationStrict, Force: new(true)}
		if _, err := resource.Patch(t.Context(), object.GetName(), types.ApplyPatchType, content, options); err != nil {
			t.Errorf("%s %s: %v", gvk.Kind, object.GetName(), err)
		}
	}
}

func newNamespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); err == nil {
		return
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// run starts a process, waits until it prints a line, and ends it with the test.
func run(t *testing.T, command *exec.Cmd, line string) {
	t.Helper()
	ready, ended := start(t, command, line)
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("it ended: %s", command.Stderr)
	case <-time.After(patience):
		t.Fatal("it is not ready")
	}
}

// start starts a process, and ends it with the test. Ready is closed when it prints a line, and ended when it ends.
func start(t *testing.T, command *exec.Cmd, line string) (ready, ended <-chan struct{}) {
	t.Helper()
	var faults bytes.Buffer
	command.Stderr = &faults
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	printed, waited := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(waited)
		found := false
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if !found && strings.Contains(lines.Text(), line) {
				found = true
				close(printed)
			}
		}
		_ = command.Wait() // it ends by a signal
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-waited
		if t.Failed() {
			t.Logf("%s:\n%s", command.Args, &faults)
		}
	})
	return printed, waited
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
