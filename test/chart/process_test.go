package chart

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// files are the content of a volume, by name.
type files map[string][]byte

// processes are the containers of a pod as processes of this machine. What is mounted in a container is a directory here, and arguments,
// variables and settings name that.
type processes struct {
	pod corev1.PodSpec
	// dirs are the volumes, by name.
	dirs map[string]string
}

// newProcesses gives each volume of a pod a directory: with the settings of its ConfigMap, with the content of a Secret by its name, or empty.
func newProcesses(t *testing.T, pod corev1.PodSpec, config string, secrets map[string]files) *processes {
	t.Helper()
	p := &processes{pod: pod, dirs: map[string]string{"data": t.TempDir()}} // of the template for claims
	for _, volume := range pod.Volumes {
		dir := t.TempDir()
		p.dirs[volume.Name] = dir
		if volume.Secret == nil {
			continue
		}
		content, known := secrets[volume.Secret.SecretName]
		if !known {
			t.Fatalf("the pod mounts the Secret %s, which the test lacks", volume.Secret.SecretName)
		}
		for name, text := range content {
			writeFile(t, filepath.Join(dir, name), text)
		}
	}
	container := pod.Containers[0]
	for _, mount := range container.VolumeMounts {
		if mount.Name == "config" {
			writeFile(t, filepath.Join(p.dirs[mount.Name], mount.SubPath), []byte(p.here(container).Replace(config)))
		}
	}
	return p
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// here replaces the paths of a container by those of this machine.
func (p *processes) here(container corev1.Container) *strings.Replacer {
	mounts := slices.SortedFunc(slices.Values(container.VolumeMounts), func(a, b corev1.VolumeMount) int { return cmp.Compare(len(b.MountPath), len(a.MountPath)) })
	var pairs []string
	for _, mount := range mounts {
		pairs = append(pairs, mount.MountPath, filepath.Join(p.dirs[mount.Name], mount.SubPath))
	}
	return strings.NewReplacer(pairs...)
}

// command is the entry point of a container, with its arguments and its environment, and further variables.
func (p *processes) command(t *testing.T, container corev1.Container, env ...string) *exec.Cmd {
	t.Helper()
	here := p.here(container)
	words := append(slices.Clone(container.Command), container.Args...)
	if len(container.Command) == 0 { // the image has it
		image, _, _ := strings.Cut(filepath.Base(container.Image), ":")
		words = append([]string{filepath.Join(filepath.Dir(binary(t)), image)}, container.Args...)
	}
	for n, word := range words {
		words[n] = here.Replace(word)
	}
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, variable := range container.Env {
		value := here.Replace(variable.Value)
		if from := variable.ValueFrom; from != nil {
			if from.FieldRef == nil || from.FieldRef.FieldPath != "status.podIP" {
				t.Fatalf("the variable %s is from %v, which the test lacks", variable.Name, from)
			}
			value = "127.0.0.1"
		}
		command.Env = append(command.Env, variable.Name+"="+value)
	}
	command.Env = append(command.Env, env...)
	return command
}

// initialize runs the init containers, one after another.
func (p *processes) initialize(t *testing.T) {
	t.Helper()
	for _, container := range p.pod.InitContainers {
		if output, err := p.command(t, container).CombinedOutput(); err != nil {
			t.Fatalf("the init container %s: %v: %s", container.Name, err, output)
		}
	}
}

// serve runs the server, and returns its address when it is ready. In the pod, it has an address and its port for itself.
func (p *processes) serve(t *testing.T) (address string) {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	run(t, p.command(t, p.pod.Containers[0], "FLAGSHIP_BIND_ADDRESS=127.0.0.1", "FLAGSHIP_PORT="+port), "Flagship is ready")
	return net.JoinHostPort("127.0.0.1", port)
}

// expectProbes sends the requests of the probes of a container, without a credential, as a kubelet does.
func expectProbes(t *testing.T, container corev1.Container, address string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // as a kubelet
	for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
		if probe == nil {
			continue
		}
		if !slices.ContainsFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal }) {
			t.Errorf("the %s probe is sent to the port %s, and the container has %v", name, &probe.HTTPGet.Port, container.Ports)
		}
		url := fmt.Sprintf("%s://%s%s", strings.ToLower(cmp.Or(string(probe.HTTPGet.Scheme), "http")), address, probe.HTTPGet.Path)
		eventually(t, "the "+name+" probe "+url+" is answered", func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			answer, err := client.Do(request)
			if err != nil {
				return err
			}
			if answer.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %s", answer.Status)
			}
			return cmp.Or(answer.Body.Close(), err)
		})
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
