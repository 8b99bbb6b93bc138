package limit

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

const (
	// period is how often usage is compared with limits for Events, and bindings that wait for space are woken.
	period = 5 * time.Second
	// nearShare is the share of a limit of a namespace from which on an Event warns.
	nearShare = 0.8
)

// storageShares are the shares of the quota of storage from which on an Event warns.
func storageShares() []float64 { return []float64{0.6, 0.8, 0.9, 0.95} }

// run warns and wakes until the context ends.
func (l *Limiter) run(ctx context.Context, loop *controlloop.Loop) error {
	ticker := l.deps.Clock.NewTicker(period)
	defer ticker.Stop()
	w := warner{limiter: l, levels: map[string]int{}}
	turn := func(what string, f func(context.Context)) {
		loop.Turn(ctx, what, func(ctx context.Context) error {
			f(ctx)
			return nil
		})
	}
	for {
		turn("comparing the usage of namespaces with their limits", w.namespaces)
		turn("comparing the size of storage with its quota", w.storage)
		turn("rendering what waits for space", func(context.Context) { l.wakeAll() })
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// wakeAll renders what waits in namespaces that have space.
func (l *Limiter) wakeAll() {
	l.mu.Lock()
	all := l.wake
	waiting := make([]string, 0, len(l.waiting))
	for namespace := range l.waiting {
		waiting = append(waiting, namespace)
	}
	l.mu.Unlock()
	for _, namespace := range waiting {
		usage, limits, known := l.of(namespace)
		if !known || limits.share(usage) >= 1 {
			continue
		}
		l.mu.Lock()
		if l.waiting[namespace]--; l.waiting[namespace] <= 0 { // before: what is refused again waits again
			delete(l.waiting, namespace)
		}
		l.mu.Unlock()
		for _, wake := range all {
			if wake(namespace) {
				l.mu.Lock()
				l.waiting[namespace] = wakes
				l.mu.Unlock()
			}
		}
	}
}

// warner keeps the last level that was reported, so that an Event is written when a level is reached and not as long as it lasts.
type warner struct {
	limiter *Limiter
	// levels are 1 near the limit of a namespace and 2 at it. Others are not in the map.
	levels map[string]int
	// storageLevel is the number of storageShares that are reached.
	storageLevel int
}

func (w *warner) namespaces(ctx context.Context) {
	reached := map[string]int{}
	for _, s := range w.limiter.all() {
		level := 0
		switch {
		case s.share >= 1:
			level = 2
		case s.share >= nearShare:
			level = 1
		default:
			continue
		}
		reached[s.namespace] = level
		if level > w.levels[s.namespace] {
			w.limiter.deps.Events.Publish(nearLimit(w.limiter.reference(ctx, s.namespace), s))
		}
	}
	w.levels = reached
}

func (w *warner) storage(ctx context.Context) {
	used, quota, err := w.limiter.deps.StorageSize(ctx)
	if err != nil || quota <= 0 {
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("The size of storage is not known", "error", err.Error())
		}
		w.limiter.storageShare.Store(nil)
		return
	}
	share := float64(used) / float64(quota)
	w.limiter.storageShare.Store(&share)
	level := 0
	for _, s := range storageShares() {
		if share >= s {
			level++
		}
	}
	if level > w.storageLevel {
		w.limiter.deps.Events.Publish(storageNearQuota(w.limiter.reference(ctx, clusterv1alpha1.SystemNamespace), used, quota, storageShares()[level-1]))
	}
	w.storageLevel = level
}

// reference is a Namespace as the object of an Event in that same namespace, so that who may read Events there can see it.
func (l *Limiter) reference(ctx context.Context, name string) corev1.ObjectReference {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: name, Name: name}
	var namespace corev1.Namespace
	if err := l.deps.Client.Get(ctx, client.ObjectKey{Name: name}, &namespace); err == nil {
		ref.UID = namespace.UID // only for the eyes of clients that compare it
	}
	return ref
}

func nearLimit(ref corev1.ObjectReference, s standing) events.Event {
	text := fmt.Sprintf("%d objects and %d bytes are stored for namespace %s, Works included; the limits are %s and %s. At a limit, objects are neither created nor made larger",
		s.usage.Objects, s.usage.Bytes, s.namespace, amount(s.limits.Objects, "objects"), amount(s.limits.Bytes, "bytes"))
	if s.share >= 1 {
		return events.Warning(ref, events.NamespaceLimitReached, text)
	}
	return events.Warning(ref, events.NamespaceNearLimit, text)
}

func amount(limit int64, unit string) string {
	if limit <= 0 {
		return "no number of " + unit
	}
	return fmt.Sprintf("%d %s", limit, unit)
}

func storageNearQuota(ref corev1.ObjectReference, used, quota int64, share float64) events.Event {
	return events.Warning(ref, events.StorageNearQuota, fmt.Sprintf(
		"The database of etcd has reached %.0f %% of its quota: %d of %d bytes. At the quota nothing can be written any more. "+
			"See the metrics flagship_namespace_bytes for what takes it; delete objects, lower the limits of namespaces or raise the quota", share*100, used, quota))
}
