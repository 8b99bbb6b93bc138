package limit

import (
	"fmt"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// NamespaceOf is the namespace that a Work counts for: that of its binding; "" if it has none. Agents write the annotations of records,
// which have no binding.
func NamespaceOf(work *workv1alpha1.Work) string {
	if workv1alpha1.IsRecord(work) {
		return ""
	}
	return work.Annotations[workv1alpha2.ResourceBindingNamespaceAnnotation]
}

// SizeOf is about what a Work takes in storage, in bytes. Of what its member reports it has no more than one status of the greatest size:
// the namespace does not pay for what a member reports beyond that.
func SizeOf(work *workv1alpha1.Work) int64 {
	const rest = 1 << 10 // metadata, conditions, and the names of fields
	size := int64(rest)
	for i := range work.Spec.Workload.Manifests {
		size += int64(len(work.Spec.Workload.Manifests[i].Raw))
	}
	reported := 0
	for i := range work.Status.ManifestStatuses {
		if status := work.Status.ManifestStatuses[i].Status; status != nil {
			reported += len(status.Raw)
		}
	}
	return size + int64(min(reported, bounds.MaxStatusBytes))
}

// CheckRecord returns an error if a record of a member must not be created or made larger. It counts for its execution namespace,
// whatever its annotations are. A member that is at its bound can still record less.
func (l *Limiter) CheckRecord(before, after *workv1alpha1.Work) error {
	l.mu.RLock()
	usage, known := l.records[after.Namespace], l.synced()
	l.mu.RUnlock()
	switch {
	case !known:
		return nil
	case before == nil && usage.Objects >= bounds.MaxRecords:
		return bounds.TooManyRecords(fmt.Sprintf("%d records", bounds.MaxRecords))
	case usage.Bytes >= bounds.MaxRecordBytes && (before == nil || SizeOf(after) > SizeOf(before)):
		return bounds.TooManyRecords(fmt.Sprintf("%d bytes of records", bounds.MaxRecordBytes))
	}
	return nil
}

// workChanged counts a Work that is new, changed or gone.
func (l *Limiter) workChanged(before, after *workv1alpha1.Work, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before != nil {
		l.addWork(before, Usage{-1, -SizeOf(before)})
	}
	if after != nil {
		l.addWork(after, Usage{1, SizeOf(after)})
	}
}

// addWork adds to what Works take for a namespace, or records of a member for its execution namespace. The lock is held.
func (l *Limiter) addWork(work *workv1alpha1.Work, u Usage) {
	if workv1alpha1.IsReport(work) {
		add(l.records, work.Namespace, u)
	} else if namespace := NamespaceOf(work); namespace != "" {
		add(l.inWorks, namespace, u)
	}
}

func add(sums map[string]Usage, namespace string, u Usage) {
	sum := sums[namespace].plus(u)
	if sum == (Usage{}) {
		delete(sums, namespace)
		return
	}
	sums[namespace] = sum
}
