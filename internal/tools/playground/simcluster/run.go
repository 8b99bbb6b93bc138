package simcluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/host/apiserver"
	"github.com/flagship-k8s/flagship/internal/tools/playground/kubelet"
	"github.com/flagship-k8s/flagship/internal/tools/playground/usage"
)

// stopPatience is how long controllers and then the API server get to end.
const stopPatience = 2 * time.Second

// Config describes what cluster to be. Name and DataDir are required.
type Config struct {
	// Name is what the nodes' names start with, and the name of the context in the kubeconfig.
	Name string
	// DataDir is made if missing; a cluster that was here before comes up with its state.
	DataDir string
	// Kubeconfig is the file to write an administrator's kubeconfig to; empty means none.
	Kubeconfig string
	// Port is where the API server listens on 127.0.0.1; 0 takes a free one.
	Port int
	// PodCIDR, an IPv4 range, is divided among the nodes; empty means 10.64.0.0/16.
	PodCIDR string
	// ServiceCIDR is where cluster IPs come from, as apiserver.Config has it; empty means its default.
	ServiceCIDR string
	// Nodes is how many simulated nodes there are. Nodes beyond it that exist already stay.
	Nodes int
	// NodeCPU and NodeMemory are the capacity of a node as quantities; empty means 32 and 256Gi.
	NodeCPU, NodeMemory string
	// Devices is how many devices each node has for resource claims: those of an example driver, "gpu.example.com", in a
	// class of that name. Nodes that published theirs before keep them.
	Devices int
	// FailingImages cannot be pulled, besides those of a registry whose name ends in .invalid.
	FailingImages []string
	// Bare leaves out everything that runs workloads: an API server, namespaces, service accounts and garbage
	// collection remain.
	Bare bool
	// RuntimeConfig turns versions of built-in kinds on and off, such as autoscaling/v2=false.
	RuntimeConfig map[string]string
	// StorageQuota bounds what it can store, in bytes; 0 means the API server's default.
	StorageQuota int64
}

// Run is the cluster's life: it ends when the context is done, with nil, or when a part fails. It calls ready once, when
// pods that are created will run.
func Run(ctx context.Context, c Config, ready func()) (err error) {
	parts, err := nodesOf(c)
	if err != nil {
		return err
	}
	config := apiserver.Config{
		Role: apiserver.Member, Name: c.Name, DataDir: c.DataDir, Port: c.Port, ServiceCIDR: c.ServiceCIDR, NoFsync: true,
		StorageQuota: c.StorageQuota, RuntimeConfig: c.RuntimeConfig,
	}
	var kubelets *kubelet.Server
	if !c.Bare {
		if kubelets, err = kubelet.Listen(c.Name, filepath.Join(c.DataDir, "kubelets")); err != nil {
			return err
		}
		config.Kubelets, config.DialPods, config.Group = kubelets.Client, kubelets.DialPod, usage.New
	}
	server, err := apiserver.Start(ctx, config)
	if err != nil {
		return fmt.Errorf("starting the API server: %w", err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		if stopped := server.Stop(stopping); err == nil {
			err = stopped // else it may be the reason
		}
	}()

	if c.Kubeconfig != "" {
		if err := server.WriteKubeconfig(c.Kubeconfig); err != nil {
			return err
		}
	}

	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		select {
		case <-server.Done():
			return endedBy(server)
		case <-running.Done():
			return nil
		}
	})
	if err := startParts(running, group, c, server, kubelets, parts); err != nil {
		return err
	}
	ready()
	return waitAtMost(ctx, server, group)
}

// startParts starts everything besides the API server and returns when it is up.
func startParts(ctx context.Context, group *errgroup.Group, c Config, server *apiserver.Server, kubelets *kubelet.Server, nodes []node) error {
	config := partConfig(server.LoopbackConfig())
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	client := withAnyResourceAPI(clientset)
	files := keyFiles{
		authority:  filepath.Join(server.PKIDir(), "ca.crt"),
		signingKey: filepath.Join(server.PKIDir(), "service-account.key"),
	}
	if err := startControllers(ctx, group, config, files, c); err != nil {
		return err
	}
	// Who joins a cluster identifies it by this namespace.
	if err := waitForAccount(ctx, client, "kube-system", "default"); err != nil || c.Bare {
		return err
	}
	group.Go(func() error { return kubelets.Serve(ctx, clientset) })
	if err := startScheduler(ctx, group, client, config); err != nil {
		return err
	}
	if err := startKubelets(ctx, client, c.FailingImages); err != nil {
		return err
	}
	if err := ensureNodes(ctx, client, nodes); err != nil {
		return err
	}
	if err := startDevices(ctx, client, nodes, c.Devices); err != nil {
		return err
	}
	if err := startVolumes(ctx, group, client); err != nil {
		return err
	}
	if err := waitForNodes(ctx, client, nodes); err != nil {
		return err
	}
	return waitForAccount(ctx, client, "default", "default")
}

// partConfig is how the parts reach the API server: in protobuf, which every kind they read has, and unthrottled.
func partConfig(loopback *rest.Config) *rest.Config {
	config := rest.CopyConfig(loopback)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS, config.Burst = -1, -1
	return config
}

// waitAtMost waits for the group, but not longer than stopPatience once the context is done or the API server has ended: what the parts
// still do then is of no use.
func waitAtMost(ctx context.Context, server *apiserver.Server, group *errgroup.Group) error {
	done := make(chan error, 1)
	go func() { done <- group.Wait() }() // what lasts longer than stopPatience ends with the process
	select {
	case err := <-done:
		return err
	case <-server.Done():
	case <-ctx.Done():
	}
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // an end that was requested is no failure
	}
	return endedBy(server)
}

// endedBy returns why an API server has ended.
func endedBy(server *apiserver.Server) error {
	if err := server.Wait(); err != nil {
		return fmt.Errorf("the API server ended: %w", err)
	}
	return errors.New("the API server ended")
}
