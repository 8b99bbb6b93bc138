package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// Options describe a fleet. The zero value is a control plane alone.
type Options struct {
	// Members is how many member clusters there are, named member1, member2, …
	Members int
	// Bare members run an API server only.
	Bare bool
	// Nodes is the number of simulated nodes in each member; 0 means the playground's default.
	Nodes int
	// NodeCPU and NodeMemory are the capacity of each node; empty means the playground's default.
	NodeCPU, NodeMemory string
	// Dir is the data directory; empty means a temporary one that goes with the fleet.
	Dir string
	// Args are further flags of `flagship up`.
	Args []string
}

func (o Options) args() []string {
	args := []string{"up", "--data-dir", o.Dir, "--members", strconv.Itoa(o.Members)}
	if o.Bare {
		args = append(args, "--bare")
	}
	if o.Nodes > 0 {
		args = append(args, "--nodes", strconv.Itoa(o.Nodes))
	}
	if o.NodeCPU != "" {
		args = append(args, "--node-cpu", o.NodeCPU)
	}
	if o.NodeMemory != "" {
		args = append(args, "--node-memory", o.NodeMemory)
	}
	if InPullMode() && o.Members > 0 {
		names := make([]string, o.Members)
		for i := range names {
			names[i] = playground.MemberName(i)
		}
		args = append(args, "--pull", strings.Join(names, ","))
	}
	return append(args, o.Args...)
}

// InPullMode returns whether the members of fleets are in Pull mode: FLAGSHIP_TEST_SYNC_MODE=Pull runs tests of what both modes have in
// common with agents.
func InPullMode() bool { return os.Getenv("FLAGSHIP_TEST_SYNC_MODE") == string(clusterv1alpha1.Pull) }

// NeedsPushMode skips a test that cannot apply to members with agents.
func NeedsPushMode(t testing.TB, reason string) {
	t.Helper()
	if InPullMode() {
		t.Skip("not with members in Pull mode: " + reason)
	}
}

// Fleet is a running control plane with its members.
type Fleet struct {
	// Hub is the control plane.
	Hub *Cluster
	// Members in order: member1, member2, …
	Members []*Cluster
	// Dir is the data directory.
	Dir string

	options   Options
	binary    string
	process   *Process
	temporary bool
}

// Start runs a fleet for this test alone and ends it with the test. Most tests need a Shared one only.
func Start(t testing.TB, o Options) *Fleet {
	t.Helper()
	f, err := start(t.Context(), o)
	if err != nil {
		t.Fatalf("starting a fleet: %v", err)
	}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Errorf("ending the fleet: %v", err)
		}
	})
	t.Cleanup(func() { f.explain(t) }) // before the logs are gone
	return f
}

// start runs a fleet and connects to it.
func start(ctx context.Context, o Options) (_ *Fleet, err error) {
	ctrllog.SetLogger(logr.Discard()) // else it logs that there is none
	f := &Fleet{options: o}
	if f.binary, err = Binary(); err != nil {
		return nil, err
	}
	if o.Dir == "" {
		if f.options.Dir, err = os.MkdirTemp("", "fleet-"); err != nil {
			return nil, fmt.Errorf("making a data directory: %w", err)
		}
		f.temporary = true
	}
	f.Dir = f.options.Dir
	err = f.up(ctx)
	if err == nil {
		err = f.connect()
	}
	if err != nil {
		return nil, errors.Join(err, errors.New(f.logs()), f.close())
	}
	return f, nil
}

// up runs the process and waits until it is ready.
func (f *Fleet) up(ctx context.Context) (err error) {
	if f.process, err = run(f.binary, f.options.args()...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := f.process.WaitFor(ctx, readyMark); err != nil {
		return fmt.Errorf("%w\n%s", err, f.process.Output())
	}
	return nil
}

func (f *Fleet) connect() (err error) {
	if f.Hub, err = connect("hub", playground.HubKubeconfig(f.Dir)); err != nil {
		return err
	}
	for i := range f.options.Members {
		name := playground.MemberName(i)
		member, err := connect(name, playground.MemberKubeconfig(f.Dir, name))
		if err != nil {
			return err
		}
		f.Members = append(f.Members, member)
	}
	return nil
}

// close ends the fleet and removes its directory if it is a temporary one.
func (f *Fleet) close() error {
	var err error
	if f.process != nil {
		err = f.process.Stop()
	}
	if f.temporary {
		err = errors.Join(err, os.RemoveAll(f.Dir))
	}
	return err
}

// Shared is a fleet that the tests of one package share. It starts with the first test that uses it.
type Shared struct {
	// Options are those of the fleet.
	Options

	once  sync.Once
	fleet *Fleet
	err   error
}

// Main is the package's TestMain: it runs the tests and ends the fleet.
func (s *Shared) Main(m *testing.M) {
	code := m.Run()
	if s.fleet != nil {
		if err := s.fleet.close(); err != nil {
			fmt.Fprintln(os.Stderr, "ending the fleet:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Start returns the fleet, which starts with the first call. In -short mode the test is skipped.
func (s *Shared) Start(t testing.TB) *Fleet {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a fleet")
	}
	// Not the test's context: the fleet is for the tests after it, too.
	s.once.Do(func() { s.fleet, s.err = start(context.WithoutCancel(t.Context()), s.Options) })
	if s.err != nil {
		t.Fatalf("starting the fleet: %v", s.err)
	}
	t.Cleanup(func() { s.fleet.explain(t) })
	return s.fleet
}
