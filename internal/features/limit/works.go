package limit

import (
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

// workChanged counts a Work that is new, changed or gone.
func (l *Limiter) workChanged(before, after *workv1alpha1.Work, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before != nil {
		l.addWork(NamespaceOf(before), Usage{-1, -SizeOf(before)})
	}
	if after != nil {
		l.addWork(NamespaceOf(after), Usage{1, SizeOf(after)})
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
