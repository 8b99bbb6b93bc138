package apiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/etcd"
)

// Environment of a test binary that is to run a server instead of tests.
const (
	childDir  = "APISERVER_TEST_CHILD_DIR"
	childPort = "APISERVER_TEST_CHILD_PORT"
	childRole = "APISERVER_TEST_CHILD_ROLE"
	childEtcd = "APISERVER_TEST_CHILD_ETCD" // JSON of an apiserver.ExternalEtcd; the child is a hub then
)

// runChild serves from dir until its input ends, having written DIR/kubeconfig.
func runChild(dir string) int {
	quiet()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	var port int
	_, _ = fmt.Sscan(os.Getenv(childPort), &port)
	config := apiserver.Config{Role: apiserver.Member, DataDir: dir, Port: port, NoFsync: true}
	if role := os.Getenv(childRole); role != "" {
		config.Role = apiserver.Role(role)
	}
	if external := os.Getenv(childEtcd); external != "" {
		config.Role, config.ExternalEtcd = apiserver.Hub, &etcd.External{}
		if err := json.Unmarshal([]byte(external), config.ExternalEtcd); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	server, err := apiserver.Start(ctx, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := server.WriteKubeconfig(filepath.Join(dir, "kubeconfig")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	if err := server.Stop(end); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a server in another process.
type child struct {
	command *exec.Cmd
	stderr  *bytes.Buffer
	ready   chan struct{}
}

// startChild starts one and waits until it is ready; it ends with the test.
func startChild(t *testing.T, dir string, environment ...string) *child {
	t.Helper()
	c := launchChild(t, dir, environment...)
	select {
	case <-c.ready:
	case <-time.After(3 * time.Minute):
		t.Fatalf("child not ready: %s", c.stderr)
	}
	return c
}

// launchChild starts one; it ends with the test.
func launchChild(t *testing.T, dir string, environment ...string) *child {
	t.Helper()
	c := &child{command: exec.Command(os.Args[0]), stderr: &bytes.Buffer{}, ready: make(chan struct{})}
	c.command.Env = append(append(os.Environ(), childDir+"="+dir), environment...)
	c.command.Stderr = c.stderr
	c.command.Stdout = onLine(func() { close(c.ready) })
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.command.Process.Kill()
		_ = c.command.Wait()
	})
	return c
}

// onLine calls a function when the first line is written to it.
type onLine func()

func (f onLine) Write(data []byte) (int, error) {
	if bytes.Contains(data, []byte("ready\n")) {
		f()
	}
	return len(data), nil
}

func (c *child) client(t *testing.T, dir string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(config)
}

// TestRestart ends a server in an orderly and in a brutal way; what it has acknowledged must be there
// again both times.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	var authority []byte
	running := startChild(t, dir)
	var kept []types.UID
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		created, err := running.client(t, dir).CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("before-%d", end)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, created.UID)
		if err := running.command.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		if err := running.command.Wait(); err != nil && end == syscall.SIGTERM {
			t.Errorf("stop: %v: %s", err, running.stderr)
		}
		if authority, err = os.ReadFile(filepath.Join(dir, "pki", "ca.crt")); err != nil {
			t.Fatal(err)
		}

		running = startChild(t, dir)
		found, err := running.client(t, dir).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, uid := range kept {
			if !slices.ContainsFunc(found.Items, func(m corev1.ConfigMap) bool { return m.UID == uid }) {
				t.Errorf("after %v an object is lost", end)
			}
		}
		if again, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt")); err != nil || !bytes.Equal(again, authority) {
			t.Errorf("after %v the authority is another: %v", end, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		reason string
		dir    string
		port   int
		want   string
	}{
		"PortInUse": {
			reason: "the user has to choose another",
			dir:    t.TempDir(), port: hub.Port(), want: fmt.Sprintf("listening on 127.0.0.1:%d: bind: address already in use", hub.Port()),
		},
		"DirectoryInUse": {
			reason: "two servers on one etcd directory would destroy it",
			dir:    hubDir, want: fmt.Sprintf("data directory %s is in use by process %d", hubDir, os.Getpid()),
		},
		"NotADirectory": {
			reason: "nothing can be stored there",
			dir:    filepath.Join(file, "data"), want: "making data directory " + filepath.Join(file, "data") + ": not a directory",
		},
		"ReadOnly": {
			reason: "nothing can be stored there either; /proc refuses even root",
			dir:    "/proc/self", want: "data directory /proc/self is not writable:",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			command := exec.Command(os.Args[0])
			command.Env = append(os.Environ(), childDir+"="+test.dir, fmt.Sprintf("%s=%d", childPort, test.port))
			output, err := command.CombinedOutput()
			if err == nil {
				t.Fatalf("%s: it started", test.reason)
			}
			if lines := strings.Split(strings.TrimSpace(string(output)), "\n"); len(lines) != 1 || !strings.Contains(lines[0], test.want) {
				t.Errorf("%s: got %q, want one line with %q", test.reason, output, test.want)
			}
		})
	}
}
