package simcluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// schedulerParallelism is how many nodes are looked at at once; there are few, and several clusters share a machine.
const schedulerParallelism = 2

// startScheduler runs kube-scheduler with its default profile until the context is done. It returns when the scheduler
// knows the cluster.
func startScheduler(ctx context.Context, group *errgroup.Group, client kubernetes.Interface, config *rest.Config) error {
	factory := scheduler.NewInformerFactory(client, 0, nil)
	broadcaster := events.NewEventBroadcasterAdapterWithContext(ctx, client)
	s, err := scheduler.New(ctx, client, factory, nil,
		profile.RecorderFactory(func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(name) }),
		scheduler.WithKubeConfig(config),
		scheduler.WithParallelism(schedulerParallelism),
	)
	if err != nil {
		return fmt.Errorf("making the scheduler: %w", err)
	}
	broadcaster.StartRecordingToSink(ctx.Done())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := s.WaitForHandlersSync(ctx); err != nil {
		return fmt.Errorf("filling the scheduler's cache: %w", err)
	}
	group.Go(func() error {
		defer broadcaster.Shutdown()
		s.Run(ctx)
		return nil
	})
	return nil
}
