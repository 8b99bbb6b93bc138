package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
	"github.com/flagship-k8s/flagship/internal/tools/bench/etcd"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/bench/scale/figures"
	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

// leads is the line of the metrics of the server that runs the loops.
const leads = `leader_election_master_status{name="` + leader.Name + `"} 1`

// Options choose what to measure. All fields are required.
type Options struct {
	// Binary is the flagship binary to start.
	Binary string
	// Servers is how many there are, two at least, and Rounds how often each fault happens.
	Servers, Rounds int
	// Timeout bounds one round.
	Timeout time.Duration
	// Log receives the progress.
	Log io.Writer
}

// Result has the times of one fault, in seconds since the signal, in the order of the rounds.
type Result struct {
	Fault   string `json:"fault"`
	Servers int    `json:"servers"`
	// Lease is until another server has the Lease, Loops until its loops have made the binding of an object.
	Lease    []float64 `json:"leaseSeconds"`
	Loops    []float64 `json:"loopsSeconds"`
	LeaseP50 float64   `json:"leaseP50Seconds"`
	LeaseMax float64   `json:"leaseMaxSeconds"`
	LoopsP50 float64   `json:"loopsP50Seconds"`
	LoopsMax float64   `json:"loopsMaxSeconds"`
}

// Header has the columns of Row.
const Header = "FAULT SERVERS ROUNDS LEASE-P50 LEASE-MAX LOOPS-P50 LOOPS-MAX"

// Row is the result as a row of a table.
func (r Result) Row() []string {
	seconds := func(v float64) string { return fmt.Sprintf("%.2f s", v) }
	return []string{
		r.Fault, strconv.Itoa(r.Servers), strconv.Itoa(len(r.Loops)), seconds(r.LeaseP50), seconds(r.LeaseMax), seconds(r.LoopsP50), seconds(r.LoopsMax),
	}
}

// add adds a round.
func (r *Result) add(t takeover) {
	r.Lease, r.Loops = append(r.Lease, t.lease.Seconds()), append(r.Loops, t.loops.Seconds())
	r.LeaseP50, r.LeaseMax = figures.Quantile(r.Lease, .5), figures.Quantile(r.Lease, 1)
	r.LoopsP50, r.LoopsMax = figures.Quantile(r.Loops, .5), figures.Quantile(r.Loops, 1)
}

// takeover is what one round took.
type takeover struct{ lease, loops time.Duration }

// server is one of the servers.
type server struct {
	*fleet.Fleet
	dir     string
	port    int
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// bench is one run.
type bench struct {
	Options
	etcd *etcd.Process
	all  []*server
	logs io.Writer
}

// Run ends the leader again and again, in turns by a crash and in order, and measures each time until another server runs the loops. The
// results have the rounds until an error, if there is one.
func Run(ctx context.Context, o Options) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "flagship-bench-servers-")
	if err != nil {
		return nil, fmt.Errorf("creating a data directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logs, err := os.Create(filepath.Join(dir, "servers.log"))
	if err != nil {
		return nil, fmt.Errorf("creating the log of the servers: %w", err)
	}
	defer func() { _ = logs.Close() }()
	b := &bench{Options: o, logs: logs}
	fmt.Fprintf(o.Log, "Starting etcd and %d servers\n", o.Servers)
	if b.etcd, err = etcd.Start(ctx, o.Binary, filepath.Join(dir, "etcd"), logs); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.etcd.Stop()) }()
	defer func() {
		for _, s := range b.all {
			err = errors.Join(err, s.End())
		}
	}()
	ports := machine.NewPortChooser()
	defer ports.Close()
	for i := range o.Servers {
		s := &server{dir: filepath.Join(dir, strconv.Itoa(i))}
		if s.port, err = ports.Choose(); err != nil {
			return nil, err
		}
		if err := b.serve(ctx, s); err != nil {
			return nil, err
		}
		b.all = append(b.all, s)
	}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	return b.rounds(ctx)
}

// serve starts a server, for the first time or again.
func (b *bench) serve(ctx context.Context, s *server) (err error) {
	flags := []string{"--audit-log-path", "none", "--etcd-servers", b.etcd.URL}
	if s.Fleet == nil && len(b.all) > 0 {
		s.Fleet, err = fleet.ServeAlso(ctx, b.Binary, b.all[0].Fleet, s.dir, s.port, b.logs, flags...)
	} else {
		s.Fleet, err = fleet.Serve(ctx, b.Binary, s.dir, s.port, b.logs, flags...)
	}
	if err != nil {
		return err
	}
	if s.kube, err = kubernetes.NewForConfig(s.Hub); err == nil {
		s.dynamic, err = dynamic.NewForConfig(s.Hub)
	}
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	return nil
}

// prepare writes the policy of the objects. There are no members: a binding is made without.
func (b *bench) prepare(ctx context.Context) error {
	first := b.all[0]
	if err := fleet.CreateNamespace(ctx, &fleet.Cluster{Kube: first.kube}, nil); err != nil {
		return err
	}
	policy := fleet.Duplicated("takeover", fleet.SelectConfigMaps())
	if _, err := first.dynamic.Resource(fleet.Policies).Namespace(fleet.Namespace).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the policy: %w", err)
	}
	return nil
}

func (b *bench) rounds(ctx context.Context) ([]Result, error) {
	results := []Result{{Fault: "crash", Servers: b.Servers}, {Fault: "stop", Servers: b.Servers}}
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}
	for round := range b.Rounds {
		for i, end := range signals {
			timed, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("not done within %s", b.Timeout))
			took, err := b.round(timed, fmt.Sprintf("%s-%d", results[i].Fault, round), end)
			cancel()
			if err != nil {
				return results, fmt.Errorf("measuring a %s: %w", results[i].Fault, err)
			}
			fmt.Fprintf(b.Log, "  %s %d: the lease after %.2f s, the loops after %.2f s\n", results[i].Fault, round+1, took.lease.Seconds(), took.loops.Seconds())
			results[i].add(took)
		}
	}
	return results, nil
}

// round ends the leader, measures, and starts it again.
func (b *bench) round(ctx context.Context, name string, end syscall.Signal) (takeover, error) {
	var old, survivor *server
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		for i, s := range b.all {
			text, err := s.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			if err == nil && strings.Contains(string(text), leads) {
				old, survivor = s, b.all[(i+1)%len(b.all)]
			}
		}
		return old != nil, nil
	})
	if err != nil {
		return takeover{}, fmt.Errorf("finding the leader: %w", err)
	}
	took, err := survivor.measure(ctx, name, func() error { return old.Signal(end) })
	if err != nil {
		return takeover{}, err
	}
	old.Wait()
	return took, b.serve(context.WithoutCancel(ctx), old)
}

// measure returns how long it takes after a fault of the leader until another server has the Lease, and until its loops have made a binding.
// It watches and writes through a server that does not lead.
func (s *server) measure(ctx context.Context, name string, fault func() error) (took takeover, err error) {
	bindings, err := s.dynamic.Resource(workv1alpha2.SchemeGroupVersion.WithResource("resourcebindings")).Namespace(fleet.Namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return takeover{}, fmt.Errorf("watching bindings: %w", err)
	}
	defer bindings.Stop()
	leases, err := s.kube.CoordinationV1().Leases(clusterv1alpha1.SystemNamespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, leader.Name).String(),
	})
	if err != nil {
		return takeover{}, fmt.Errorf("watching the lease: %w", err)
	}
	defer leases.Stop()
	if err := s.bound(ctx, bindings, name+"-before"); err != nil {
		return takeover{}, err
	}
	holder, err := held(ctx, leases, "")
	if err != nil {
		return takeover{}, err
	}
	began := time.Now()
	if err := fault(); err != nil {
		return takeover{}, err
	}
	if _, err := held(ctx, leases, holder); err != nil {
		return takeover{}, err
	}
	took.lease = time.Since(began)
	// No loops of the leader before make the binding of an object that is created now.
	if err := s.bound(ctx, bindings, name+"-after"); err != nil {
		return takeover{}, err
	}
	took.loops = time.Since(began)
	return took, nil
}

// held waits until a server has the Lease, but for one, and returns its identity.
func held(ctx context.Context, leases watch.Interface, except string) (holder string, err error) {
	err = event(ctx, leases, "another holder of the lease", func(o runtime.Object) bool {
		if lease, ok := o.(*coordinationv1.Lease); ok {
			holder = ptr.Deref(lease.Spec.HolderIdentity, "")
		}
		return holder != "" && holder != except
	})
	return holder, err
}

// bound creates an object, and waits for its binding.
func (s *server) bound(ctx context.Context, bindings watch.Interface, name string) error {
	if _, err := s.kube.CoreV1().ConfigMaps(fleet.Namespace).Create(ctx, fleet.ConfigMap(name), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating configmap %s: %w", name, err)
	}
	return event(ctx, bindings, "the binding of "+name, func(o runtime.Object) bool {
		binding, ok := o.(metav1.Object)
		return ok && binding.GetName() == workv1alpha2.BindingName("ConfigMap", name)
	})
}

// event waits for an object.
func event(ctx context.Context, w watch.Interface, what string, suits func(runtime.Object) bool) error {
	for {
		select {
		case e, open := <-w.ResultChan():
			switch {
			case !open || e.Type == watch.Error:
				return fmt.Errorf("waiting for %s: the watch ended: %v", what, e.Object)
			case suits(e.Object):
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}
