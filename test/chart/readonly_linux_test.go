package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/kube"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// containerVar names the environment variable with which this program becomes a container instead of a test: its containerOf as JSON.
const containerVar = "FLAGSHIP_TEST_CONTAINER"

// containerOf is what a process finds as a container does: a root file system that it cannot write, with volumes.
type containerOf struct {
	Root    string
	Program string
	Args    []string
	Env     []string
	User    int
	Volumes []volumeOf
}

// volumeOf is a file or a directory at a path of the container.
type volumeOf struct {
	From, To string
	Writable bool
}

// TestMain runs the tests, or a container.
func TestMain(m *testing.M) {
	text := os.Getenv(containerVar)
	if text == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, enter(text))
	os.Exit(1)
}

// enter becomes the program in its container. The process has a mount namespace of its own.
func enter(text string) error {
	var c containerOf
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	if err := bind(c.Root, c.Root); err != nil {
		return err
	}
	for _, v := range append(c.Volumes, volumeOf{"/proc", "/proc", true}, volumeOf{"/dev/null", "/dev/null", true}) {
		if err := mountVolume(c.Root, v); err != nil {
			return fmt.Errorf("mounting %s: %w", v.To, err)
		}
	}
	if err := readOnly(c.Root); err != nil {
		return err
	}
	if err := errors.Join(syscall.Chroot(c.Root), os.Chdir("/")); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(c.User), syscall.Setuid(c.User)); err != nil {
		return err
	}
	const noNewPrivileges = 38
	if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, noNewPrivileges, 1, 0); errno != 0 {
		return errno
	}
	for _, dir := range []string{"/", "/tmp", "/etc"} {
		if err := os.WriteFile(filepath.Join(dir, "probe"), nil, 0o600); !errors.Is(err, syscall.EROFS) && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("writing to %s: %v, want a read-only file system", dir, err)
		}
	}
	return syscall.Exec(c.Program, append([]string{c.Program}, c.Args...), c.Env)
}

func bind(from, to string) error {
	return syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, "")
}

func readOnly(path string) error {
	return syscall.Mount("", path, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func mountVolume(root string, v volumeOf) error {
	info, err := os.Stat(v.From)
	if err != nil {
		return err
	}
	to := filepath.Join(root, v.To)
	dir := to
	if !info.IsDir() {
		dir = filepath.Dir(to)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !info.IsDir() {
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
	}
	if err := bind(v.From, to); err != nil || v.Writable {
		return err
	}
	return readOnly(to)
}

// contain returns the command of a pod's container, with its arguments, user and volumes. Volumes are the files and directories by name of the
// volume; one without a name here is an empty directory, which is writable. Further ones have a path as their name.
func contain(t *testing.T, pod corev1.PodSpec, volumes map[string]string, program string, env ...string) *exec.Cmd {
	t.Helper()
	container, root := pod.Containers[0], t.TempDir()
	if !*container.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the root file system of the chart is writable")
	}
	c := containerOf{Root: root, Program: "/ko-app/" + program, Args: container.Args, Env: env, User: int(*pod.SecurityContext.RunAsUser)}
	c.Volumes = append(c.Volumes, volumeOf{filepath.Join(filepath.Dir(binary(t)), program), c.Program, false})
	for _, dir := range []string{root, filepath.Join(root, "tmp"), filepath.Join(root, "etc")} { // a missing right is not what keeps it from writing
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	for _, mount := range container.VolumeMounts {
		from, known := volumes[mount.Name]
		if !known {
			from = t.TempDir()
			if err := os.Chown(from, c.User, c.User); err != nil {
				t.Fatal(err)
			}
			volumes[mount.Name] = from
		}
		c.Volumes = append(c.Volumes, volumeOf{from, mount.MountPath, !mount.ReadOnly})
	}
	for name, from := range volumes {
		if filepath.IsAbs(name) {
			c.Volumes = append(c.Volumes, volumeOf{from, name, false})
		}
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = []string{containerVar + "=" + string(text)}
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return command
}

// file writes a file that every user may read.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestReadOnlyRootFileSystem runs the server and an agent as the chart does: as its user, with its arguments and settings, and with nothing
// that can be written but its volumes. The agent is as in a cluster: it has the credential of its service account only.
func TestReadOnlyRootFileSystem(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root: run the binary of the test with sudo")
	}
	objects, err := render(t, installation{"fleet", values{"server": values{"config": values{"enableBootstrapTokenAuth": true}}}, ""})
	if err != nil {
		t.Fatal(err)
	}
	pod, config := podOf(t, objects)
	volumes := map[string]string{"config": file(t, "server.yaml", config)}
	run(t, contain(t, pod, volumes, "flagship-server", "FLAGSHIP_BIND_ADDRESS=127.0.0.1", "FLAGSHIP_ADVERTISE_ADDRESS=127.0.0.1",
		"FLAGSHIP_PORT="+strconv.Itoa(freePort(t))), "Flagship is ready")
	kubeconfig := filepath.Join(volumes["data"], "hub.kubeconfig")
	hub, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}

	bootstrap := t.TempDir()
	token := exec.CommandContext(t.Context(), binary(t), "token", "create", "far", "--kubeconfig", kubeconfig, "--file", filepath.Join(bootstrap, "kubeconfig"))
	if output, err := token.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if err := errors.Join(os.Chmod(bootstrap, 0o755), os.Chmod(filepath.Join(bootstrap, "kubeconfig"), 0o644)); err != nil {
		t.Fatal(err)
	}
	agent := installations()["Agent"]
	if objects, err = render(t, agent); err != nil {
		t.Fatal(err)
	}
	pod, config = podOf(t, objects)
	account, host, port := serviceAccount(t, agent, pod.ServiceAccountName)
	volumes = map[string]string{
		"config": file(t, "agent.yaml", config), "bootstrap": bootstrap, "/var/run/secrets/kubernetes.io/serviceaccount": account,
	}
	address := func() string { return "127.0.0.1:" + strconv.Itoa(freePort(t)) }
	health := address()
	running := contain(t, pod, volumes, "flagship-agent", "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port,
		"FLAGSHIP_HEALTH_PROBE_BIND_ADDRESS="+health, "FLAGSHIP_METRICS_BIND_ADDRESS="+address())
	_, ended := start(t, running, "")
	clusters := dynamic.NewForConfigOrDie(hub).Resource(schema.GroupVersionResource{Group: "cluster.karmada.io", Version: "v1alpha1", Resource: "clusters"})
	var last error
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		select {
		case <-ended:
			return false, errors.New("the agent ended")
		default:
		}
		var far *unstructured.Unstructured
		if far, last = clusters.Get(ctx, "far", metav1.GetOptions{}); last != nil {
			return false, nil
		}
		conditions, _, _ := unstructured.NestedSlice(far.Object, "status", "conditions")
		last = fmt.Errorf("its conditions are %v", conditions)
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Ready" && c["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatalf("the cluster of the agent is not ready: %v: %v", err, last)
	}
	expectProbes(t, pod.Containers[0], health)
}

// serviceAccount installs the chart in a cluster, and returns what a pod of it has to reach its API server: a directory, and the address.
func serviceAccount(t *testing.T, i installation, name string) (dir, host, port string) {
	t.Helper()
	c := startCluster(t, "--bare")
	c.prepare(t, i.namespace)
	helm{c.kubeconfig, i.namespace, kube.HookOnlyStrategy}.install(t, i.values)
	seconds := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := c.kube.CoreV1().ServiceAccounts(i.namespace).CreateToken(t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	authority := c.config.CAData
	if len(authority) == 0 {
		if authority, err = os.ReadFile(c.config.CAFile); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string][]byte{"token": []byte(token.Status.Token), "ca.crt": authority, "namespace": []byte(i.namespace)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	return dir, at.Hostname(), at.Port()
}
