package playground

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// DefaultMembers is how many members a new data directory gets.
	DefaultMembers = 2
	// DefaultNodes is how many simulated nodes a new member gets.
	DefaultNodes = 3
	// DefaultDevices is how many devices for resource claims each node of a new member gets.
	DefaultDevices = 4
	// maxMembers keeps the address ranges of members apart from each other and from the hub's.
	maxMembers = 31
)

// Config describes what to run. DataDir, StartHub and Join are required.
type Config struct {
	// DataDir is made if missing. One that was used before comes up again with all its state.
	DataDir string
	// Members is how many there shall be; negative means as many as the data directory has, or DefaultMembers
	// in a new one. A data directory's members can grow in number, not shrink.
	Members int
	// Nodes is the number of simulated nodes in each member that is new; negative means DefaultNodes.
	Nodes int
	// NodeCPU and NodeMemory are the capacity of each node as Kubernetes quantities; empty means the
	// defaults of package simcluster.
	NodeCPU, NodeMemory string
	// Devices is the number of devices for resource claims on each node of a member that is new; negative means
	// DefaultDevices.
	Devices int
	// Port fixes the hub's port; 0 keeps the one in the spec of the data directory, or chooses one.
	Port int
	// Bare members run an API server only: no workload controllers, no scheduler, no nodes.
	Bare bool
	// Pull are the names of members that get an agent, which dials the hub. A member that was joined in another mode keeps it.
	Pull []string
	// Profiling serves /debug/pprof on the hub to users who may get it.
	Profiling bool
	// FailingImages cannot be pulled in members.
	FailingImages []string
	// Executable is the binary to start as a member; empty means the running one.
	Executable string
	// StartTimeout bounds the time until everything is ready; 0 means three minutes.
	StartTimeout time.Duration
	// Out receives progress, a line at a time; nil discards it.
	Out io.Writer

	// StartHub starts the control plane in this process and returns when it serves every kind. The context
	// is the hub's life: when it is done the hub shuts down.
	StartHub func(context.Context, HubOptions) (Hub, error)
	// Join makes the cluster that the kubeconfig file leads to a member of the hub, under the given name. It is called
	// again for one whose joining was interrupted.
	Join func(ctx context.Context, hub *rest.Config, name, kubeconfig string) error
	// Register makes it a member in Pull mode instead, and writes the credential of its agent to a directory. Both are reached by
	// kubeconfig files. It may be nil without members in Pull.
	Register func(ctx context.Context, a Agent, hubKubeconfig string) error
}

// Agent is what the agent of a member in Pull mode is run with.
type Agent struct {
	// Cluster is the name of the member, Kubeconfig the file that leads to it.
	Cluster, Kubeconfig string
	// Dir has the credential with which the agent reaches the hub.
	Dir string
}

// HubOptions are what the playground decides for its hub.
type HubOptions struct {
	// DataDir is the hub's own directory, below the playground's.
	DataDir string
	// Port is the one to listen on, on 127.0.0.1. It was free a moment ago.
	Port int
	// Profiling serves /debug/pprof to users who may get it.
	Profiling bool
	// BootstrapTokens accepts the tokens with which agents are registered.
	BootstrapTokens bool
	// Log receives what the hub logs; it is bounded and goes to a file.
	Log io.Writer
}

// Hub is a running control plane.
type Hub interface {
	// LoopbackConfig is a client configuration with all rights.
	LoopbackConfig() *rest.Config
	// WriteKubeconfig writes a file with which an administrator's kubectl reaches the hub.
	WriteKubeconfig(path string) error
	// Wait returns when the hub has shut down: nil after its context was done, else why it ended.
	Wait() error
}

func (c Config) complete() (Config, error) {
	if c.StartHub == nil || c.Join == nil {
		return c, errors.New("a playground needs a function that starts a hub and one that joins a member")
	}
	if c.DataDir == "" {
		return c, errors.New("no data directory given")
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, fmt.Errorf("resolving the data directory: %w", err)
	}
	c.DataDir = dir
	if c.Members > maxMembers {
		return c, fmt.Errorf("%d members are too many for one machine's address ranges: %d at most", c.Members, maxMembers)
	}
	if c.Port < 0 || c.Port > 65535 {
		return c, fmt.Errorf("%d is not a port", c.Port)
	}
	if c.Nodes < 0 {
		c.Nodes = DefaultNodes
	}
	if c.Devices < 0 {
		c.Devices = DefaultDevices
	}
	if c.Executable == "" {
		if c.Executable, err = os.Executable(); err != nil {
			return c, fmt.Errorf("finding the running binary: %w", err)
		}
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 3 * time.Minute
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
	return c, nil
}
