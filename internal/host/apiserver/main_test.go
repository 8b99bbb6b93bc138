package apiserver_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/tunnel"
	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/access"
)

// What all tests of this package share: one server, since upstream keeps state per process.
var (
	hub     *apiserver.Server
	hubDir  string
	clients kubernetes.Interface
	objects dynamic.Interface
	// fixed is the address that the hub is configured with for the Service fixed/hook.
	fixed net.Listener
	// hubClock is the hub's clock for certificates. It begins far in the past, so that a test can move
	// it until certificates are due and new ones are still valid today.
	hubClock *clocktesting.FakeClock
)

// early is how far the hub's clock is behind: past two thirds of a certificate's year.
const early = 300 * 24 * time.Hour

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(runChild(dir))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	quiet()
	dir, err := os.MkdirTemp("", "apiserver-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	hubDir, hubClock = dir, clocktesting.NewFakeClock(time.Now().Add(-early))

	ctx, cancel := context.WithCancel(context.Background()) // go test has a limit of its own
	defer cancel()
	if fixed, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = fixed.Close() }()
	hub, err = apiserver.Start(ctx, apiserver.Config{
		AllowLoopbackMembers: true, Tunnels: tunnel.NewTunnels("", clock.RealClock{}, nil),
		DataDir: dir, NoFsync: true, Clock: hubClock, ConversionServices: map[string]string{"fixed/hook:8443": fixed.Addr().String()},
		Admission: []access.AdmissionPlugin{{Name: "RefuseUnwanted", Handler: refuseUnwanted{}}},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	clients = kubernetes.NewForConfigOrDie(hub.LoopbackConfig())
	objects = dynamic.NewForConfigOrDie(hub.LoopbackConfig())
	// As a server that is no leader any more, and then is again.
	lost, lose := context.WithCancel(ctx)
	lose()
	if err := hub.RunControllers(lost, hub.LoopbackConfig()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	controllers := make(chan error, 1)
	go func() { controllers <- hub.RunControllers(ctx, hub.LoopbackConfig()) }()

	code := m.Run()
	if err := hub.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := <-controllers; err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	left := goroutines()
	for tries := 0; tries < 50 && len(left) > 0; tries++ { // one that was waited for ends a moment later
		<-time.After(20 * time.Millisecond)
		left = goroutines()
	}
	if len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines outlive the server that started them:\n%s\n", len(left), strings.Join(left, "\n\n"))
		return 1
	}
	return code
}

// goroutines are the stacks of those that were started by product code. Upstream's server does not wait for all of its own.
func goroutines() []string {
	stacks := make([]byte, 64<<20)
	return slices.DeleteFunc(strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n"), func(stack string) bool {
		_, creator, _ := strings.Cut(stack, "created by ")
		return !strings.HasPrefix(creator, "github.com/flagship-k8s/flagship/internal/") || strings.Contains(creator, "_test.")
	})
}

// quiet keeps upstream's many lines out of a test's output unless -v 1 or more is asked for.
func quiet() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(discard{})
	log.SetLogger(logr.Discard())
}

type discard struct{}

func (discard) Write(data []byte) (int, error) { return len(data), nil }

// refuseUnwanted is an in-process admission plugin.
type refuseUnwanted struct{}

func (refuseUnwanted) Handles(operation admission.Operation) bool {
	return operation == admission.Create
}

func (refuseUnwanted) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if cluster, ok := a.GetObject().(*clusterv1alpha1.Cluster); ok && cluster.Labels["unwanted"] == "true" {
		return admission.NewForbidden(a, errors.New("unwanted"))
	}
	return nil
}

// eventually waits until check says nothing more, and fails the test with its last word otherwise.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(3 * time.Minute)
	for {
		trouble := check()
		if trouble == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(trouble)
		}
	}
}
