package simcluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// schedulerParallelism is how many nodes are checked at once; there are few, and several clusters share a machine.
const schedulerParallelism = 2

// troubleOnly drops the event for every pod that was scheduled: a write for each that repeats what is in the pod itself.
type troubleOnly struct{ events.EventRecorderLogger }

// Eventf records what is not normal.
func (r troubleOnly) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if eventType != corev1.EventTypeNormal {
		r.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, note, args...)
	}
}

// WithLogger keeps dropping.
func (r troubleOnly) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return troubleOnly{r.EventRecorderLogger.WithLogger(logger)}
}

// startScheduler runs kube-scheduler with its default profile until the context is done. It returns when the scheduler
// has synced its caches.
func startScheduler(ctx context.Context, group *errgroup.Group, client kubernetes.Interface, config *rest.Config) error {
	factory := scheduler.NewInformerFactory(client, 0, nil)
	broadcaster := events.NewEventBroadcasterAdapterWithContext(ctx, client)
	s, err := scheduler.New(ctx, client, factory, nil,
		profile.RecorderFactory(func(name string) events.EventRecorderLogger { return troubleOnly{broadcaster.NewRecorder(name)} }),
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
		defer factory.Shutdown()
		defer broadcaster.Shutdown()
		s.Run(ctx)
		return nil
	})
	return nil
}
