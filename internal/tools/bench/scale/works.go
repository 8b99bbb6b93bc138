package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	tools "github.com/flagship-k8s/flagship/internal/tools/bench"
	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
)

// worksEach is how many Works a Cluster has, as with 1,000 placements in 100 of 1,000 members.
const worksEach = 100

// manyWorks measures a restart with many Works. They are written by the bench, with the status that an agent reports, to Clusters in Pull
// mode without agents: so the figures are those of the control plane alone, and more Works are there sooner than by placements.
func (b *bench) manyWorks(ctx context.Context, dir string, logs io.Writer) (err error) {
	// No agent renews the Leases of these Clusters, and that a cluster is lost is no part of a restart.
	b.flags = []string{"--cluster-monitor-grace-period", "24h", "--cluster-startup-grace-period", "24h"}
	defer func() { b.flags = nil }()
	if b.hub, err = serve(ctx, b.Options, dir, b.port, logs); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.hub.End()) }()
	count := (b.Works + worksEach - 1) / worksEach
	if _, err := b.pullClusters(ctx, count); err != nil {
		return err
	}
	progress := progress{log: b.Log, total: count}
	err = tools.Parallel(ctx, joiners, count, func(ctx context.Context, i int) error {
		defer progress.done()
		return b.worksOf(ctx, agentName(i))
	})
	if err != nil {
		return err
	}
	if _, err := b.calm(ctx); err != nil {
		return err
	}
	b.Add("works", "works", float64(count*worksEach), "")
	return b.restartWithWorks(ctx, dir, logs)
}

func (b *bench) restartWithWorks(ctx context.Context, dir string, logs io.Writer) error {
	before, err := b.Usage()
	if err != nil {
		return err
	}
	started, err := b.restarted(ctx, dir, logs)
	if err != nil {
		return err
	}
	ready := time.Since(started)
	atReady, err := b.Usage()
	if err != nil {
		return err
	}
	caught, err := b.calm(ctx)
	if err != nil {
		return err
	}
	live, err := b.live(ctx)
	if err != nil {
		return err
	}
	after, err := b.Usage()
	if err != nil {
		return err
	}
	writes, err := b.countWrites(ctx)
	if err != nil {
		return err
	}
	b.Add("works", "peak resident before the restart", float64(before.PeakRSS)/mega, "MB")
	b.Add("works", "restart: ready", ready.Seconds(), "s")
	b.Add("works", "restart: CPU until ready", atReady.Cpu.Seconds(), "s")
	b.Add("works", "restart: peak resident until ready", float64(atReady.PeakRSS)/mega, "MB")
	b.Add("works", "restart: no queue has work", caught.Sub(started).Seconds(), "s")
	b.Add("works", "restart: CPU until no queue has work", after.Cpu.Seconds(), "s")
	b.Add("works", "restart: peak resident", float64(after.PeakRSS)/mega, "MB")
	b.Add("works", "restart: live heap", live/mega, "MB")
	for _, kind := range writes.Rows() {
		b.Add("works", "restart: writes to the control plane: "+kind, writes[kind], "")
	}
	return nil
}

// worksOf creates the Works of one Cluster and their status.
func (b *bench) worksOf(ctx context.Context, cluster string) error {
	objects := b.dynamic.Resource(works).Namespace(workv1alpha1.ExecutionNamespace(cluster))
	for i := range worksEach {
		work, err := placedWork(i)
		if err != nil {
			return err
		}
		var made *unstructured.Unstructured
		err = until(ctx, "the namespace of "+cluster, func() (_ bool, err error) {
			made, err = objects.Create(ctx, work, metav1.CreateOptions{})
			return !apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("creating a work: %w", err)
		}
		made.Object["status"] = work.Object["status"]
		if _, err := objects.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("reporting a work: %w", err)
		}
	}
	return nil
}

// placedWork is a Work as it is after its ConfigMap was applied.
func placedWork(i int) (*unstructured.Unstructured, error) {
	name := fmt.Sprintf("placed-%05d", i)
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fleet.ConfigMap(name))
	if err != nil {
		return nil, fmt.Errorf("building a manifest: %w", err)
	}
	manifest["apiVersion"], manifest["kind"] = "v1", "ConfigMap"
	work := &workv1alpha1.Work{Status: workv1alpha1.WorkStatus{ManifestStatuses: []workv1alpha1.ManifestStatus{{
		Identifier: workv1alpha1.ResourceIdentifier{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: fleet.Namespace, Name: name},
		Health:     workv1alpha1.ResourceHealthy,
	}}}}
	work.Status.Conditions = []metav1.Condition{
		workv1alpha1.Dispatching(1), workv1alpha1.Applied(1), workv1alpha1.AvailabilityUnknown(1, ""), workv1alpha1.NotDegraded(1),
	}
	for i := range work.Status.Conditions {
		work.Status.Conditions[i].LastTransitionTime = metav1.Now()
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(work)
	if err != nil {
		return nil, fmt.Errorf("building a work: %w", err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(works.GroupVersion().WithKind("Work"))
	u.SetName(workv1alpha1.WorkName("ConfigMap", fleet.Namespace, name))
	return u, unstructured.SetNestedSlice(u.Object, []any{manifest}, "spec", "workload", "manifests")
}
