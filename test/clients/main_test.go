package clients

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// startLimit bounds how long the fleet may take to be ready.
	startLimit = 4 * time.Minute
	// patience is how long a client may wait: far more than it needs, on a machine far busier.
	patience = 3 * time.Minute
)

// dir is the data directory of the fleet that the tests share: a hub and two members.
var dir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	binary := os.Getenv("FLAGSHIP_BINARY")
	if binary == "" {
		fmt.Fprintln(os.Stderr, "FLAGSHIP_BINARY is not set: make test-clients builds the binary and sets it")
		return 1
	}
	var err error
	if dir, err = os.MkdirTemp("", "clients-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stop, err := startFleet(binary)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	log.SetLogger(logr.Discard())
	return m.Run()
}

// startFleet runs the binary until it prints that it is ready.
func startFleet(binary string) (func(), error) {
	fleet := exec.Command(binary, "up", "--members", "2", "--data-dir", dir)
	output, err := os.Create(filepath.Join(dir, "up.log"))
	if err != nil {
		return nil, err
	}
	fleet.Stderr = output
	lines, err := fleet.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := fleet.Start(); err != nil {
		return nil, fmt.Errorf("starting the fleet: %w", err)
	}
	ended := make(chan struct{})
	stop := func() {
		_ = fleet.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	ready := make(chan bool, 1)
	go func() {
		defer close(ended)
		for scanner := bufio.NewScanner(lines); scanner.Scan(); {
			if strings.HasPrefix(scanner.Text(), "Flagship is ready") {
				ready <- true
			}
		}
		_ = fleet.Wait()
		close(ready)
	}()
	select {
	case ok := <-ready:
		if ok {
			return stop, nil
		}
		text, _ := os.ReadFile(output.Name())
		return nil, fmt.Errorf("the fleet ended: %s", text)
	case <-time.After(startLimit):
		stop()
		return nil, errors.New("the fleet was not ready in time")
	}
}

func kubeconfig(cluster string) string { return filepath.Join(dir, cluster+".kubeconfig") }

// restConfig is for "hub", "member1" and "member2".
func restConfig(t *testing.T, cluster string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig(cluster))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config
}

func newClient(t *testing.T, cluster string) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(restConfig(t, cluster), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newNamespace makes a namespace on the hub for this test and deletes it when the test ends.
func newNamespace(t *testing.T) string {
	t.Helper()
	hub := newClient(t, "hub")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clients-"}}
	if err := hub.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.WithoutCancel(t.Context()), namespace); err != nil {
			t.Error(err)
		}
	})
	return namespace.Name
}

// configFlags are what command line clients take.
func configFlags(namespace string) *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig = kubeconfig("hub")
	*flags.Namespace = namespace
	return flags
}
