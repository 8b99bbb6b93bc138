package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	tools "github.com/flagship-k8s/flagship/internal/tools/bench"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/bench/standin/agent"
)

// agentWorks is how many Works each agent has.
const agentWorks = 2

var works = schema.GroupVersionResource{Group: "work.karmada.io", Version: "v1alpha1", Resource: "works"}

// agents measures a restart of a control plane with many agents: clients in this process, each with a connection of its own, the
// identity, the watches and the Lease of an agent. There are no members behind them.
func (b *bench) agents(ctx context.Context, dir string, logs io.Writer) (err error) {
	if b.hub, err = serve(ctx, b.Options, dir, b.port, logs); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.hub.End()) }()
	uids, err := b.pullClusters(ctx, b.Agents)
	if err != nil {
		return err
	}
	if err := b.agentObjects(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	started := time.Now()
	for i, uid := range uids {
		client, err := agent.New(b.Hub, agentName(i), uid)
		if err != nil {
			return err
		}
		running.Go(func() { client.Run(ctx) })
	}
	if err := b.agentsWatch(ctx); err != nil {
		return err
	}
	b.Add("agents", fmt.Sprintf("watches of %d agents begin", b.Agents), time.Since(started).Seconds(), "s")
	before, err := b.Usage()
	if err != nil {
		return err
	}
	if err := fleet.Pause(ctx, b.Rest); err != nil {
		return err
	}
	cpu, peak, err := b.spent(before)
	if err != nil {
		return err
	}
	b.Add("agents", "CPU of the control plane at rest, with their Leases", cpu*100/b.Rest.Seconds(), "% of a core")
	b.Add("agents", "peak resident", peak/mega, "MB")
	return b.restartWithAgents(ctx, dir, logs)
}

func (b *bench) restartWithAgents(ctx context.Context, dir string, logs io.Writer) error {
	started, err := b.restarted(ctx, dir, logs)
	if err != nil {
		return err
	}
	b.Add("agents", "restart: ready", time.Since(started).Seconds(), "s")
	if err := b.agentsWatch(ctx); err != nil {
		return err
	}
	usage, err := b.Usage()
	if err != nil {
		return err
	}
	text, err := b.raw(ctx, "/metrics")
	if err != nil {
		return err
	}
	b.Add("agents", "restart: all watches of agents run", time.Since(started).Seconds(), "s")
	b.Add("agents", "restart: CPU until then", usage.Cpu.Seconds(), "s")
	b.Add("agents", "restart: peak resident", float64(usage.PeakRSS)/mega, "MB")
	b.Add("agents", "restart: requests that were refused as too many", sumOf(text, refused), "")
	b.Add("agents", "restart: lists of Works by agents", sumOf(text, listed), "")
	return nil
}

var (
	watching = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{[^}]*resource="works"[^}]*scope="namespace"[^}]*verb="WATCH"[^}]*\} (\S+)$`)
	refused  = regexp.MustCompile(`(?m)^apiserver_request_total\{code="429"[^}]*\} (\S+)$`)
	listed   = regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*resource="works"[^}]*scope="namespace"[^}]*verb="LIST"[^}]*\} (\S+)$`)
)

// sumOf adds up the samples that match.
func sumOf(text []byte, line *regexp.Regexp) (sum float64) {
	for _, m := range line.FindAllSubmatch(text, -1) {
		value, err := strconv.ParseFloat(string(m[1]), 64)
		if err == nil {
			sum += value
		}
	}
	return sum
}

// agentsWatch waits until the API server counts a watch of Works for each agent. It reads the counters rarely: with many agents they are
// large.
func (b *bench) agentsWatch(ctx context.Context) error {
	return every(ctx, 2*time.Second, "the watches of agents", func() (bool, error) {
		text, err := b.raw(ctx, "/metrics")
		// A control plane that is too busy to answer is read again.
		return err == nil && sumOf(text, watching) >= float64(b.Agents), nil
	})
}

func agentName(i int) string { return fmt.Sprintf("agent-%04d", i) }

// pullClusters creates Clusters in Pull mode, with an execution namespace each.
func (b *bench) pullClusters(ctx context.Context, count int) ([]types.UID, error) {
	if err := fleet.CreateNamespace(ctx, &fleet.Cluster{Kube: b.kube}, nil); err != nil {
		return nil, err
	}
	uids := make([]types.UID, count)
	err := tools.Parallel(ctx, joiners, count, func(ctx context.Context, i int) error {
		cluster := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": agentName(i)}, "spec": map[string]any{"id": agentName(i), "syncMode": string(clusterv1alpha1.Pull)},
		}}
		cluster.SetGroupVersionKind(clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster"))
		made, err := b.dynamic.Resource(clusters).Create(ctx, cluster, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating a cluster: %w", err)
		}
		uids[i] = made.GetUID()
		return nil
	})
	return uids, err
}

// agentObjects gives each agent Works.
func (b *bench) agentObjects(ctx context.Context) error {
	for i := range agentWorks {
		work := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"workload": map[string]any{"manifests": []any{
			map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": fleet.Namespace}, "data": map[string]any{"key": "value"},
			},
		}}}}}
		work.SetGroupVersionKind(works.GroupVersion().WithKind("Work"))
		work.SetName(fmt.Sprintf("settings-%d", i))
		err := tools.Parallel(ctx, joiners, b.Agents, func(ctx context.Context, n int) error {
			namespace := workv1alpha1.ExecutionNamespace(agentName(n))
			return until(ctx, "namespace "+namespace, func() (bool, error) {
				_, err := b.dynamic.Resource(works).Namespace(namespace).Create(ctx, work.DeepCopy(), metav1.CreateOptions{})
				if apierrors.IsNotFound(err) {
					return false, nil // the control plane is about to create the namespace
				}
				return true, err
			})
		})
		if err != nil {
			return fmt.Errorf("creating works: %w", err)
		}
	}
	return nil
}
