package limit

import (
	"k8s.io/client-go/tools/cache"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// NamespaceOf is the namespace that a Work counts for: that of its binding; "" if it has none. Only the control plane writes
// Works, so that the annotation is true.
func NamespaceOf(work *workv1alpha1.Work) string {
	return work.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation]
}

// SizeOf is about what a Work takes in storage, in bytes.
func SizeOf(work *workv1alpha1.Work) int64 {
	const rest = 1 << 10 // metadata, conditions, and the names of fields
	size := int64(rest)
	for i := range work.Spec.Workload.Manifests {
		size += int64(len(work.Spec.Workload.Manifests[i].Raw))
	}
	for i := range work.Status.ManifestStatuses {
		if status := work.Status.ManifestStatuses[i].Status; status != nil {
			size += int64(len(status.Raw))
		}
	}
	return size
}

// works is the handler of the informer of Works, which keeps the old object of each change.
func (l *Limiter) works() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { l.replaceWork(nil, obj) },
		UpdateFunc: func(before, after any) {
			l.replaceWork(before, after)
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			l.replaceWork(obj, nil)
		},
	}
}

func (l *Limiter) replaceWork(before, after any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if work, ok := before.(*workv1alpha1.Work); ok {
		l.addWork(NamespaceOf(work), Usage{-1, -SizeOf(work)})
	}
	if work, ok := after.(*workv1alpha1.Work); ok {
		l.addWork(NamespaceOf(work), Usage{1, SizeOf(work)})
	}
}

// addWork adds to what Works take for a namespace. The lock is held.
func (l *Limiter) addWork(namespace string, u Usage) {
	if namespace == "" {
		return
	}
	sum := l.inWorks[namespace].plus(u)
	if sum == (Usage{}) {
		delete(l.inWorks, namespace)
		return
	}
	l.inWorks[namespace] = sum
}
